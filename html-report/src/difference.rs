//! The page of what differs between two files, or between the files of two folders or packages.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use offload_bundle::difference::{ComparedImage, Difference};
use offload_bundle::usage::FunctionUsage;

use crate::contents::FileContents;
use crate::gpus::GpuMatrix;
use crate::kernels::{self, Compared};
use crate::page::{Fact, Page, PageKind};
use crate::table::Demangle;
use crate::tree;

/// One side of the comparison.
#[derive(Debug, Default)]
pub struct Side {
    /// How the user named it.
    pub name: String,
    /// Its files; a file is compared with the one of the same name.
    pub files: Vec<FileContents>,
    /// The images of each file, prepared for [`Difference`].
    pub compared: BTreeMap<String, Vec<ComparedImage>>,
}

impl Side {
    /// Its name without the folders, as far as it can be told.
    fn short_name(&self) -> &str {
        self.name.trim_end_matches('/').rsplit('/').next().unwrap_or(&self.name)
    }
}

/// A page of what differs.
pub fn page(old: &Side, new: &Side, producer: &str, demangle: Demangle<'_>) -> Page {
    let title = format!("{} → {}", old.short_name(), new.short_name());
    let mut page = Page::new(PageKind::Difference, title, producer);
    page.facts = facts(old, new);
    page.tree = Some(tree::of_change("all files", (&old.files, &new.files), &mut page.texts, demangle));
    let sides = [("before", old), ("after", new)];
    let matrices = sides.map(|(when, side)| GpuMatrix::new(format!("GPUs {when}"), &side.files));
    page.gpus = matrices.into_iter().filter(|matrix| !matrix.is_empty()).collect();
    let changed = changed(old, new);
    let (old, new) = (functions(old), functions(new));
    let keys: BTreeSet<&Key<'_>> = old.keys().chain(new.keys()).collect();
    let all = keys.into_iter().map(|key| Compared {
        target: key.2,
        old: old.get(key).copied(),
        new: new.get(key).copied(),
        is_changed: changed.contains(&(key.0, key.2, key.4)),
    });
    let (different, same): (Vec<_>, Vec<_>) = all.partition(differs);
    page.tables.push(kernels::compared(&different, same.len(), &mut page.texts, demangle));
    page
}

/// File, member, target, form, name, and a number where all of these are the same.
type Key<'f> = (&'f str, &'f str, &'f str, &'f str, &'f str, usize);

fn functions(side: &Side) -> BTreeMap<Key<'_>, &FunctionUsage> {
    let mut functions = BTreeMap::new();
    for file in &side.files {
        let mut copies = BTreeMap::new();
        for image in &file.images {
            let member = image.row.member.as_deref().unwrap_or_default();
            for function in image.usage.iter().flat_map(|usage| &usage.functions) {
                let name = (member, image.target(), image.row.image.as_str(), function.name.as_str());
                let copy = copies.entry(name).or_insert(0_usize);
                let (member, target, form, function_name) = name;
                functions.insert((file.name.as_str(), member, target, form, function_name, *copy), function);
                *copy += 1;
            }
        }
    }
    functions
}

/// File, target and name of the functions whose machine code differs, as `offload-bundle diff` finds them.
fn changed<'s>(old: &'s Side, new: &'s Side) -> HashSet<(&'s str, &'s str, &'s str)> {
    let mut found = HashSet::new();
    let names = functions_by_text(old, new);
    for (file, before) in &old.compared {
        let Some(after) = new.compared.get(file) else { continue };
        for change in Difference::new(before, after, true).images {
            let target = change.left.or(change.right).map(|row| row.target).unwrap_or_default();
            for function in change.functions {
                found.extend(names.get(&(file.as_str(), target.as_str(), function.name.as_str())));
            }
        }
    }
    found
}

/// The names of all functions, by themselves, to be found by equal texts.
fn functions_by_text<'s>(
    old: &'s Side,
    new: &'s Side,
) -> BTreeMap<(&'s str, &'s str, &'s str), (&'s str, &'s str, &'s str)> {
    let files = old.files.iter().chain(&new.files);
    let mut names = BTreeMap::new();
    for file in files {
        for image in &file.images {
            for function in image.usage.iter().flat_map(|usage| &usage.functions) {
                let key = (file.name.as_str(), image.target(), function.name.as_str());
                names.insert(key, key);
            }
        }
    }
    names
}

fn differs(one: &Compared<'_>) -> bool {
    one.is_changed || one.old != one.new
}

fn facts(old: &Side, new: &Side) -> Vec<Fact> {
    let sum = |side: &Side, of: &dyn Fn(&FileContents) -> u64| side.files.iter().map(of).fold(0, u64::saturating_add);
    let fact = |label: &str, of: &dyn Fn(&FileContents) -> u64| {
        let (old, new) = (sum(old, of), sum(new, of));
        let change = i128::from(new) - i128::from(old);
        Fact::new(label, format!("{old} → {new} ({change:+})"))
    };
    let images = |file: &FileContents| file.images.iter().map(|image| image.row.size).fold(0, u64::saturating_add);
    let functions = |file: &FileContents| {
        file.images.iter().filter_map(|image| image.usage.as_ref()).map(|usage| usage.functions.len() as u64).sum()
    };
    vec![
        fact("bytes", &|file| file.size),
        fact("bytes of device images", &images),
        fact("images", &|file| file.images.len() as u64),
        fact("functions", &functions),
    ]
}
