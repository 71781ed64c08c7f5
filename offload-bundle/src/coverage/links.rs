//! Finds which fatbins of a program were linked into which.

use std::collections::HashSet;

use super::containers::{FoundContainer, Role};
use crate::host_object::{self, ModuleId};

/// Assigns to each linked fatbin of a file the fatbins of the objects that it was linked from.
pub(super) fn assign(data: &[u8], found: &mut [FoundContainer]) {
    let ids = host_object::module_ids(data);
    let objects = name_objects(&ids, found);
    let linked = linked_fatbins(data, found);
    let runs = registered_runs(&ids);
    let groups = if runs.len() == linked.len() {
        runs.into_iter().map(|run| run.into_iter().collect()).collect()
    } else {
        split(&runs, &linked, &objects, found)
    };
    for (index, ids) in linked.into_iter().zip(groups) {
        // Without matching ids (in an edited file), each link is assumed to have all objects.
        let is_meant = |(number, id): &(usize, Option<&str>)| id.is_none_or(|id| ids.contains(id)).then_some(*number);
        found[index].role = Role::Linked(objects.iter().filter_map(is_meant).collect());
    }
}

/// Number and id of each object's fatbin. Ids and fatbins stand in the order of the objects.
fn name_objects<'i>(ids: &[ModuleId<'i>], found: &mut [FoundContainer]) -> Vec<(usize, Option<&'i str>)> {
    let ids: Vec<&str> = ids
        .iter()
        .filter_map(|id| match id {
            ModuleId::Object(id) => Some(*id),
            _ => None,
        })
        .collect();
    let objects: Vec<&mut FoundContainer> =
        found.iter_mut().filter(|container| matches!(container.role, Role::Object(_))).collect();
    let fits = ids.len() == objects.len();
    let mut named = Vec::with_capacity(objects.len());
    for (index, object) in objects.into_iter().enumerate() {
        let id = ids.get(index).copied().filter(|_| fits);
        object.role = Role::Object(id.map(|id| host_object::module_name(id).to_owned()));
        named.push((object.place.container, id));
    }
    named
}

/// The indices of the containers that device links made, in the order of the objects.
fn linked_fatbins(data: &[u8], found: &[FoundContainer]) -> Vec<usize> {
    let wrappers = host_object::wrappers(data).into_iter().filter(|wrapper| wrapper.linked);
    wrappers.filter_map(|wrapper| found.iter().position(|container| container.place.offset == wrapper.fatbin)).collect()
}

/// The ids that device links register, in runs without an id of another object between.
fn registered_runs<'i>(ids: &[ModuleId<'i>]) -> Vec<Vec<&'i str>> {
    let runs = ids.chunk_by(|a, b| matches!((a, b), (ModuleId::Registered(_), ModuleId::Registered(_))));
    let registered = |id: &ModuleId<'i>| match id {
        ModuleId::Registered(id) => Some(*id),
        _ => None,
    };
    runs.map(|run| run.iter().filter_map(registered).collect::<Vec<_>>()).filter(|run| !run.is_empty()).collect()
}

/// The ids of each link where several links stand side by side, so that their ids are one run: an object belongs to the link that
/// has its functions, and one of which none is left to those of its neighbours.
fn split<'i>(
    runs: &[Vec<&'i str>],
    linked: &[usize],
    objects: &[(usize, Option<&str>)],
    found: &[FoundContainer],
) -> Vec<HashSet<&'i str>> {
    let ids: Vec<&str> = runs.concat();
    let link_of = |id: &str| {
        let (number, _) = objects.iter().find(|(_, own)| *own == Some(id))?;
        let container = found.iter().find(|container| container.place.container == *number)?;
        let own = functions(container);
        linked.iter().position(|index| !own.is_disjoint(&functions(&found[*index])))
    };
    let links: Vec<Option<usize>> = ids.iter().map(|id| link_of(id)).collect();
    let mut groups = vec![HashSet::new(); linked.len()];
    for (index, id) in ids.iter().enumerate() {
        let before = links[..=index].iter().rev().find_map(|link| *link).unwrap_or(0);
        let behind = links[index..].iter().find_map(|link| *link).unwrap_or(linked.len().saturating_sub(1));
        for group in groups.iter_mut().take(before.max(behind) + 1).skip(before.min(behind)) {
            group.insert(*id);
        }
    }
    groups
}

fn functions(container: &FoundContainer) -> HashSet<&str> {
    container.symbols.iter().flat_map(|symbols| &symbols.defined).map(AsRef::as_ref).collect()
}
