//! Which archive members a host linker extracts.
//!
//! Where several members define one symbol, linkers differ in the member that they extract, and the order in which they see symbols decides whether
//! they extract a second one. Each known way is followed, and a member that any of them extracts is taken: superfluous device code is better than
//! kernels that are registered and in no image.

use std::collections::{BTreeSet, HashMap, HashSet};

/// The visible symbols of one host file. Files come in the order of the line, the members of an archive in its place.
#[derive(Debug, Default)]
pub struct HostUnit<'a> {
    /// The archive that it is a member of.
    pub archive: Option<usize>,
    /// What it defines.
    pub defines: Vec<Definition<'a>>,
    /// What it references, weak references aside, which extract nothing.
    pub references: Vec<&'a [u8]>,
}

/// A symbol that a file defines.
#[derive(Debug, Clone, Copy)]
pub struct Definition<'a> {
    /// Its name.
    pub name: &'a [u8],
    /// Whether it is weak.
    pub weak: bool,
}

/// The symbol for which each member is extracted; `None` for those that no linker extracts, and for files that are no members.
pub fn extracted<'a>(units: &[HostUnit<'a>], roots: &[&'a [u8]]) -> Vec<Option<&'a [u8]>> {
    let mut found: Vec<Option<&[u8]>> = vec![None; units.len()];
    for way in [in_passes, at_once, by_strength] {
        for (place, name) in way(units, roots).into_iter().enumerate() {
            found[place] = found[place].or(name);
        }
    }
    found
}

/// What a linker has seen so far.
struct State<'u, 'a> {
    units: &'u [HostUnit<'a>],
    defined: HashSet<&'a [u8]>,
    undefined: HashSet<&'a [u8]>,
    extracted: Vec<Option<&'a [u8]>>,
}

impl<'u, 'a> State<'u, 'a> {
    fn new(units: &'u [HostUnit<'a>], roots: &[&'a [u8]]) -> Self {
        let undefined = roots.iter().copied().collect();
        State { units, defined: HashSet::new(), undefined, extracted: vec![None; units.len()] }
    }

    /// Links a file.
    fn link(&mut self, place: usize) {
        let HostUnit { defines, references, .. } = &self.units[place];
        for Definition { name, .. } in defines {
            self.defined.insert(name);
            self.undefined.remove(name);
        }
        self.undefined.extend(references.iter().filter(|name| !self.defined.contains(*name)));
    }

    /// Extracts a member that defines an undefined symbol, unless it is linked already.
    fn extract_if_needed(&mut self, place: usize) -> bool {
        if self.extracted[place].is_some() {
            return false;
        }
        let mut names = self.units[place].defines.iter().map(|definition| definition.name);
        let Some(name) = names.find(|name| self.undefined.contains(name)) else { return false };
        self.extracted[place] = Some(name);
        self.link(place);
        true
    }
}

/// As GNU ld and gold: passes over the members of an archive until none is extracted. Archives count as one group, as the ways of grouping
/// them are not known here.
fn in_passes<'a>(units: &[HostUnit<'a>], roots: &[&'a [u8]]) -> Vec<Option<&'a [u8]>> {
    let mut definers: HashMap<&[u8], Vec<usize>> = HashMap::new();
    for (place, unit) in units.iter().enumerate().filter(|(_, unit)| unit.archive.is_some()) {
        unit.defines.iter().for_each(|definition| definers.entry(definition.name).or_default().push(place));
    }
    let of_names = |names: &[&[u8]]| names.iter().filter_map(|name| definers.get(name)).flatten().copied().collect();
    // Members that define a symbol which was undefined when it was referenced: a pass need not look at others.
    let mut candidates: BTreeSet<usize> = of_names(roots);
    let mut state = State::new(units, roots);
    for is_first in std::iter::once(true).chain(std::iter::repeat(false)) {
        let mut start = 0;
        while start < units.len() {
            let archive = units[start].archive;
            let same = units[start..].iter().take_while(|unit| archive.is_some() && unit.archive == archive).count();
            let (mut cursor, end) = (start, start + same);
            if archive.is_none() && is_first {
                state.link(start);
                candidates.append(&mut of_names(&units[start].references));
            }
            let next = |candidates: &BTreeSet<usize>, cursor: usize| {
                candidates.range(cursor..end).next().or_else(|| candidates.range(start..cursor).next()).copied()
            };
            while let Some(place) = next(&candidates, cursor) {
                candidates.remove(&place);
                if state.extract_if_needed(place) {
                    candidates.append(&mut of_names(&units[place].references));
                }
                cursor = place + 1;
            }
            start = end.max(start + 1);
        }
        // What is left is in archives in front of those that reference it.
        if candidates.is_empty() {
            break;
        }
    }
    state.extracted
}

/// As lld: a member is extracted when the second of these two is seen, the symbol that it defines and a reference to it.
fn at_once<'a>(units: &[HostUnit<'a>], roots: &[&'a [u8]]) -> Vec<Option<&'a [u8]>> {
    let mut state = State::new(units, roots);
    let mut waiting: HashMap<&[u8], usize> = HashMap::new();
    for (place, unit) in units.iter().enumerate() {
        if unit.archive.is_none() {
            state.link(place);
        } else if !state.extract_if_needed(place) {
            unit.defines.iter().for_each(|definition| {
                waiting.entry(definition.name).or_insert(place);
            });
            continue;
        }
        // In the order of references; those of a member come before the next ones of the file that it is extracted for.
        let mut references: Vec<&[u8]> = unit.references.iter().rev().copied().collect();
        while let Some(name) = references.pop() {
            let member = waiting.get(name).filter(|_| state.undefined.contains(name)).copied();
            if let Some(member) = member.filter(|member| state.extract_if_needed(*member)) {
                references.extend(units[member].references.iter().rev());
            }
        }
    }
    state.extracted
}

/// As mold: a reference extracts the first member with a strong definition, else the first with a weak one, whatever else is linked.
fn by_strength<'a>(units: &[HostUnit<'a>], roots: &[&'a [u8]]) -> Vec<Option<&'a [u8]>> {
    let mut owners: HashMap<&[u8], (bool, bool, usize)> = HashMap::new();
    for (place, unit) in units.iter().enumerate() {
        for Definition { name, weak } in &unit.defines {
            let rank = (unit.archive.is_some(), *weak, place);
            owners.entry(name).and_modify(|owner| *owner = rank.min(*owner)).or_insert(rank);
        }
    }
    let mut extracted = vec![None; units.len()];
    let on_line = units.iter().filter(|unit| unit.archive.is_none()).flat_map(|unit| unit.references.iter().copied());
    let mut references: Vec<&[u8]> = roots.iter().copied().chain(on_line).collect();
    while let Some(name) = references.pop() {
        if let Some((true, _, place)) = owners.get(name)
            && extracted[*place].is_none()
        {
            extracted[*place] = Some(name);
            references.extend(&units[*place].references);
        }
    }
    extracted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unit<'a>(archive: Option<usize>, defines: &[&'a str], references: &[&'a str]) -> HostUnit<'a> {
        let definition =
            |name: &&'a str| Definition { name: name.trim_start_matches('?').as_bytes(), weak: name.starts_with('?') };
        let references = references.iter().map(|name| name.as_bytes()).collect();
        HostUnit { archive, defines: defines.iter().map(definition).collect(), references }
    }

    fn places(way: Vec<Option<&[u8]>>) -> Vec<usize> {
        way.iter().enumerate().filter(|(_, name)| name.is_some()).map(|(place, _)| place).collect()
    }

    #[test]
    fn a_member_with_a_weak_definition_in_front_is_extracted_too() {
        let units = [
            unit(None, &["main"], &["other", "hook"]),
            unit(Some(0), &["?hook", "job"], &[]),
            unit(Some(0), &["hook", "other"], &[]),
        ];
        assert_eq!(places(in_passes(&units, &[])), [1, 2]);
        assert_eq!(places(at_once(&units, &[])), [1, 2]);
        assert_eq!(places(by_strength(&units, &[])), [2]);
        assert_eq!(places(extracted(&units, &[])), [1, 2]);
    }

    #[test]
    fn members_in_front_of_their_users_are_extracted() {
        let units = [
            unit(None, &["main"], &["b"]),
            unit(Some(0), &["a"], &["c"]),
            unit(Some(0), &["b"], &["a"]),
            unit(Some(1), &["c"], &["d"]),
            unit(Some(0), &["d"], &[]),
            unit(Some(0), &["unused"], &[]),
        ];
        for way in [in_passes, at_once, by_strength] {
            assert_eq!(places(way(&units, &[])), [1, 2, 3, 4]);
        }
        assert_eq!(places(in_passes(&units, &[b"unused"])), [1, 2, 3, 4, 5]);
    }

    /// The same as [`in_passes`], by looking at every member again and again.
    fn in_slow_passes<'a>(units: &[HostUnit<'a>], roots: &[&'a [u8]]) -> Vec<Option<&'a [u8]>> {
        let mut state = State::new(units, roots);
        for pass in 0..=units.len() {
            for group in units.chunk_by(|one, next| one.archive.is_some() && one.archive == next.archive) {
                let start = units.iter().position(|unit| std::ptr::eq(unit, &group[0])).unwrap();
                if group[0].archive.is_none() && pass == 0 {
                    state.link(start);
                }
                while (start..start + group.len()).fold(false, |any, place| state.extract_in(place, any)) {}
            }
        }
        state.extracted
    }

    impl State<'_, '_> {
        fn extract_in(&mut self, place: usize, any: bool) -> bool {
            self.units[place].archive.is_some() && self.extract_if_needed(place) || any
        }
    }

    proptest::proptest! {
        #[test]
        fn looking_at_candidates_alone_extracts_the_same(
            files in proptest::collection::vec((0_usize..5, proptest::collection::vec(0_usize..10, 0..4), proptest::collection::vec(0_usize..10, 0..4)), 1..14)
        ) {
            const NAMES: [&str; 10] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"];
            let names = |numbers: &[usize]| numbers.iter().map(|number| NAMES[*number]).collect::<Vec<_>>();
            let mut archives: Vec<Option<usize>> = files.iter().map(|(archive, ..)| archive.checked_sub(1)).collect();
            archives.sort_by_key(Option::is_some);
            archives.rotate_left(files.len() / 3);
            let units: Vec<_> = files.iter().zip(archives).map(|((_, defines, uses), archive)| unit(archive, &names(defines), &names(uses))).collect();
            proptest::prop_assert_eq!(in_passes(&units, &[b"a"]), in_slow_passes(&units, &[b"a"]));
        }
    }
}
