//! Which sections of a host link its roots reach, over all objects and all archive members that may be linked.
//!
//! Every definition of a name counts, whichever of them the linker will choose, so that the order of files and the rules for archives do not
//! matter.

use std::collections::{HashMap, HashSet};

use offload_bundle::host_object::{Definition, Reference, SectionGraph, SectionNode};

/// Names of linkers for the beginning, the end or the size of a section.
const BOUNDS: [&[u8]; 4] = [b"__start_", b"__stop_", b".startof.", b".sizeof."];

/// The objects of a link as one graph. A section is named by its index in it.
pub struct HostSections<'a> {
    objects: Vec<(&'a str, SectionGraph<'a>)>,
    /// The object of each section, and its index there.
    places: Vec<(u32, u32)>,
    /// Index of the first section of each object.
    starts: Vec<usize>,
    by_symbol: HashMap<&'a [u8], Vec<usize>>,
    by_name: HashMap<&'a [u8], Vec<usize>>,
    by_group: HashMap<&'a [u8], Vec<usize>>,
    /// Names of sections that may be one table in the program.
    tables: HashSet<&'a [u8]>,
}

/// Why a section is reached.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Cause {
    Root(String),
    From(usize),
}

/// The sections that are reached, and why.
pub struct Reached {
    causes: HashMap<usize, Cause>,
}

impl<'a> HostSections<'a> {
    /// Joins the graphs of objects with the names of their files.
    pub fn new(objects: Vec<(&'a str, SectionGraph<'a>)>) -> Self {
        let mut joined = HostSections {
            objects,
            places: Vec::new(),
            starts: Vec::new(),
            by_symbol: HashMap::new(),
            by_name: HashMap::new(),
            by_group: HashMap::new(),
            tables: HashSet::new(),
        };
        for (number, (_, graph)) in joined.objects.iter().enumerate() {
            let start = joined.places.len();
            joined.starts.push(start);
            for (index, node) in graph.sections.iter().enumerate() {
                joined.places.push((number as u32, index as u32));
                joined.by_name.entry(node.name).or_default().push(start + index);
                if node.is_loaded && node.has_own_name {
                    joined.tables.insert(node.name);
                }
                for reference in &node.references {
                    if let Reference::Group(signature) = reference {
                        joined.by_group.entry(*signature).or_default().push(start + index);
                    }
                }
            }
            for definition in &graph.definitions {
                joined.by_symbol.entry(definition.name).or_default().push(start + definition.section);
            }
        }
        joined
    }

    /// The objects, in their order.
    pub fn objects(&self) -> &[(&'a str, SectionGraph<'a>)] {
        &self.objects
    }

    /// Whether an object defines the symbol.
    pub fn defines(&self, name: &[u8]) -> bool {
        self.by_symbol.contains_key(name)
    }

    /// The symbols for the bounds of sections that objects refer to: linkers define those, and export them if the references do not
    /// prevent it.
    pub fn bounds(&self) -> Vec<&'a [u8]> {
        let references = self.objects.iter().flat_map(|(_, graph)| &graph.sections).flat_map(|node| &node.references);
        let names = references.filter_map(|reference| match reference {
            Reference::Symbol(name) => Some(*name),
            _ => None,
        });
        names.filter(|name| BOUNDS.iter().any(|prefix| name.starts_with(prefix))).collect()
    }

    /// The sections that a reference of the n-th object may lead to.
    pub fn targets(&self, object: usize, reference: Reference<'_>) -> Vec<usize> {
        let of = |map: &HashMap<&'a [u8], Vec<usize>>, name: &[u8]| map.get(name).cloned().unwrap_or_default();
        match reference {
            Reference::Section(index) => self.starts.get(object).map(|start| start + index).into_iter().collect(),
            Reference::Group(signature) => of(&self.by_group, signature),
            Reference::Symbol(name) => {
                let mut found = of(&self.by_symbol, name);
                let bounds = BOUNDS.iter().filter_map(|prefix| name.strip_prefix(*prefix));
                bounds.for_each(|section| found.extend(of(&self.by_name, section)));
                found
            }
        }
    }

    fn node(&self, section: usize) -> Option<(usize, &'a str, &SectionNode<'a>)> {
        let (object, index) = self.places.get(section).copied()?;
        let (file, graph) = self.objects.get(object as usize)?;
        Some((object as usize, *file, graph.sections.get(index as usize)?))
    }

    /// Finds everything that is reached from the objects' own roots, from these symbols, each with the reason for it, and from
    /// the definitions that can be exported, if the link exports them.
    pub fn reach<'n>(
        &self,
        names: impl IntoIterator<Item = (&'n [u8], String)>,
        is_exported: impl Fn(&Definition<'_>) -> bool,
    ) -> Reached {
        let mut walk = Walk { sections: self, causes: HashMap::new(), open: Vec::new() };
        for (name, reason) in names {
            for section in self.targets(0, Reference::Symbol(name)) {
                walk.add(section, || Cause::Root(reason.clone()));
            }
        }
        for (number, (_, graph)) in self.objects.iter().enumerate() {
            let start = self.starts[number];
            for (index, _) in graph.sections.iter().enumerate().filter(|(_, node)| node.is_root) {
                walk.add(start + index, || Cause::Root("constructors, destructors and kept sections".to_owned()));
            }
            for reference in &graph.references {
                for section in self.targets(number, *reference) {
                    walk.add(section, || Cause::Root("unwind tables".to_owned()));
                }
            }
            let exported = |definition: &&Definition<'_>| definition.is_exportable && is_exported(definition);
            for definition in graph.definitions.iter().filter(exported) {
                let reason = || format!("the exported symbol {}", String::from_utf8_lossy(definition.name));
                walk.add(start + definition.section, || Cause::Root(reason()));
            }
        }
        walk.finish()
    }
}

/// A search that has not ended.
struct Walk<'w, 'a> {
    sections: &'w HostSections<'a>,
    causes: HashMap<usize, Cause>,
    open: Vec<usize>,
}

impl Walk<'_, '_> {
    fn add(&mut self, section: usize, cause: impl FnOnce() -> Cause) {
        if let std::collections::hash_map::Entry::Vacant(entry) = self.causes.entry(section) {
            entry.insert(cause());
            self.open.push(section);
        }
    }

    fn finish(mut self) -> Reached {
        let sections = self.sections;
        while let Some(section) = self.open.pop() {
            let Some((object, _, node)) = sections.node(section).filter(|(_, _, node)| node.is_loaded) else {
                continue;
            };
            for reference in &node.references {
                for target in sections.targets(object, *reference) {
                    self.add(target, || Cause::From(section));
                }
            }
            if sections.tables.contains(node.name) {
                // A table may be walked from a symbol in front of it to one behind it.
                let same = sections.by_name.get(node.name).cloned().unwrap_or_default();
                same.into_iter().for_each(|target| self.add(target, || Cause::From(section)));
            }
        }
        Reached { causes: self.causes }
    }
}

impl Reached {
    /// Whether a section is reached.
    pub fn contains(&self, section: usize) -> bool {
        self.causes.contains_key(&section)
    }

    /// The way to a section from a root: the reason for the root, then sections with their files.
    pub fn path(&self, sections: &HostSections<'_>, section: usize) -> Vec<String> {
        let mut path = Vec::new();
        let mut current = section;
        while let Some(cause) = self.causes.get(&current) {
            if let Some((_, file, node)) = sections.node(current) {
                path.push(format!("{file}({})", String::from_utf8_lossy(node.name)));
            }
            match cause {
                Cause::Root(reason) => {
                    path.push(reason.clone());
                    break;
                }
                Cause::From(from) => current = *from,
            }
        }
        path.reverse();
        path
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(
        sections: &[(&'static str, bool, &[Reference<'static>])],
        symbols: &[(&'static str, usize)],
    ) -> SectionGraph<'static> {
        let node = |(name, is_root, references): &(&'static str, bool, &[Reference<'static>])| SectionNode {
            name: name.as_bytes(),
            is_loaded: true,
            is_root: *is_root,
            has_own_name: !name.starts_with('.'),
            references: references.to_vec(),
        };
        let define = |(name, section): &(&'static str, usize)| Definition {
            name: name.as_bytes(),
            has_version: false,
            section: *section,
            is_exportable: *section != 1,
        };
        SectionGraph {
            sections: sections.iter().map(node).collect(),
            definitions: symbols.iter().map(define).collect(),
            ..SectionGraph::default()
        }
    }

    fn reached(objects: &[SectionGraph<'static>], names: &[&str], exports_all: bool) -> Vec<usize> {
        let sections = HostSections::new(objects.iter().map(|graph| ("o", graph.clone())).collect());
        let names = names.iter().map(|name| (name.as_bytes(), (*name).to_owned()));
        let found = sections.reach(names, |_| exports_all);
        let all = objects.iter().map(|graph| graph.sections.len()).sum();
        (0..all).filter(|section| found.contains(*section)).collect()
    }

    #[test]
    fn names_lead_to_every_definition() {
        let caller = object(&[(".text", false, &[Reference::Symbol(b"f")]), (".text.b", false, &[])], &[("main", 0)]);
        let one = object(&[(".text.f", false, &[Reference::Section(1)]), (".text.local", false, &[])], &[("f", 0)]);
        let other = object(&[(".text.f", false, &[])], &[("f", 0)]);
        assert_eq!(reached(&[caller.clone(), one.clone(), other.clone()], &["main"], false), [0, 2, 3, 4]);
        assert_eq!(reached(&[caller, one, other], &[], false), Vec::<usize>::new());
    }

    #[test]
    fn roots_groups_tables_and_exports() {
        let group: &[Reference<'static>] = &[Reference::Group(b"g")];
        let one = object(&[(".init_array", true, &[Reference::Section(1)]), (".text.g", false, group)], &[]);
        let other =
            object(&[(".text.g", false, group), (".rodata.g", false, group), (".text", false, &[])], &[("h", 2)]);
        assert_eq!(reached(&[one, other.clone()], &[], false), [0, 1, 2, 3]);
        assert_eq!(reached(&[other], &[], true), [2]);
        let walker = object(&[(".text", false, &[Reference::Symbol(b"__start_table")])], &[("main", 0)]);
        let table = object(&[("table", false, &[Reference::Section(1)]), (".text.t", false, &[])], &[]);
        assert_eq!(reached(&[walker, table.clone()], &["main"], false), [0, 1, 2]);
        let first = object(&[("table", false, &[])], &[("begin", 0)]);
        assert_eq!(reached(&[first, table], &["begin"], false), [0, 1, 2]);
    }

    #[test]
    fn bounds_of_sections_that_objects_refer_to() {
        let references: &[Reference<'static>] = &[Reference::Symbol(b"f"), Reference::Symbol(b"__stop_table")];
        let graph = object(&[(".text", false, references)], &[]);
        assert_eq!(HostSections::new(vec![("o", graph)]).bounds(), [b"__stop_table"]);
    }

    #[test]
    fn one_object_tells_that_a_name_is_of_a_table() {
        let first = object(&[(".data.drv", false, &[])], &[("begin", 0)]);
        let part = object(&[(".data.drv", false, &[Reference::Section(1)]), (".text.t", false, &[])], &[]);
        assert_eq!(reached(&[first.clone(), part.clone()], &["begin"], false), [0]);
        let mut last = object(&[(".data.drv", false, &[])], &[]);
        last.sections[0].has_own_name = true;
        assert_eq!(reached(&[first, part, last], &["begin"], false), [0, 1, 2, 3]);
    }

    #[test]
    fn the_way_to_a_section() {
        let graph = object(&[(".text.main", false, &[Reference::Section(1)]), (".text.f", false, &[])], &[("main", 0)]);
        let sections = HostSections::new(vec![("a.o", graph)]);
        let found = sections.reach([(&b"main"[..], "the entry main".to_owned())], |_| false);
        assert_eq!(found.path(&sections, 1), ["the entry main", "a.o(.text.main)", "a.o(.text.f)"]);
        assert!(found.path(&sections, 7).is_empty());
    }
}
