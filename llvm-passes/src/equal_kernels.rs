//! Finds kernels that differ in nothing but their names, before they are optimized.
//!
//! Two kernels are equal if their bodies are, and everything that these refer to: variables with an owner and functions whose address is
//! taken must be the same ones, and what every kernel has its own copy of (functions that are called, shared memory, constants that
//! cannot be told from a copy) must be equal in turn. Equality is that of hashes, as in the cache.

use std::collections::{BTreeMap, BTreeSet};

use inkwell::module::Module;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::program::{Class, Identity, Node, Program};
use crate::reference_graph::{Reference, ReferenceGraph, Role, referenced_kernels};
use crate::sys::{self, BodyVisitor};

/// The bodies of a unit's functions and variables, in the order of [`ReferenceGraph::globals`].
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bodies {
    /// `None` for what cannot be compared.
    all: Vec<Option<Body>>,
    /// Whether there is debug information of any kind.
    debug_information: bool,
}

/// The body of a function or variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Body {
    /// Equal for bodies that differ only in names, and in what they refer to.
    hash: [u8; 32],
    /// The globals of the unit that it refers to, in the order in which it first does.
    references: Vec<u32>,
}

impl Bodies {
    /// Reads the bodies of a module whose function bodies are loaded.
    pub(crate) fn of_module(module: &Module<'_>) -> Self {
        let mut bodies = Bodies::default();
        bodies.debug_information = sys::visit_bodies(module, &mut bodies);
        bodies
    }

    /// Whether the unit has debug information of any kind, such as line tables.
    pub fn has_debug_information(&self) -> bool {
        self.debug_information
    }

    fn of(&self, index: u32) -> Option<&Body> {
        self.all.get(index as usize)?.as_ref()
    }
}

impl BodyVisitor for Bodies {
    fn body(&mut self, global: u32, bytes: &[u8], references: &[u32]) {
        let place = global as usize;
        if self.all.len() <= place {
            self.all.resize(place + 1, None);
        }
        self.all[place] = Some(Body { hash: *blake3::hash(bytes).as_bytes(), references: references.to_vec() });
    }
}

/// The equal kernels of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct EqualKernels {
    /// For each kernel that another one can stand for, that other one: of those that are finished, or else of all, the first by name.
    pub folded: BTreeMap<String, String>,
    /// Kernels that another one equals but cannot stand for, because other device code refers to them.
    pub referenced: Vec<String>,
}

/// Finds the equal kernels of a program, whose units have these graphs and bodies. Those that `is_candidate` rejects are not compared;
/// those in `finished` are compiled already.
pub fn find(
    program: &Program<'_>,
    graphs: &[&ReferenceGraph],
    bodies: &[&Bodies],
    is_candidate: &dyn Fn(&str) -> bool,
    finished: &BTreeSet<String>,
) -> EqualKernels {
    let compared = Comparison { program, graphs, bodies };
    let of_kernel = |node: &Node| is_candidate(&program.global(*node).name);
    // First by the kernels' own bodies: most of them have no equal.
    let mut alike: BTreeMap<[u8; 32], Vec<Node>> = BTreeMap::new();
    for node in program.kernels().filter(of_kernel) {
        if let Some(body) = compared.body(node) {
            alike.entry(body.hash).or_default().push(node);
        }
    }
    let mut classes: BTreeMap<[u8; 32], Vec<Node>> = BTreeMap::new();
    for node in alike.into_values().filter(|nodes| nodes.len() > 1).flatten() {
        if let Some(hash) = compared.whole(node) {
            classes.entry(hash).or_default().push(node);
        }
    }
    let referenced = referenced_kernels(graphs);
    let mut found = EqualKernels::default();
    for nodes in classes.into_values() {
        let mut names: Vec<&str> = nodes.iter().map(|node| program.global(*node).name.as_str()).collect();
        names.sort_unstable_by_key(|name| (!finished.contains(*name), *name));
        // One that is compiled anyway stands for the others.
        let (kept, mut free): (Vec<&str>, Vec<&str>) = names.into_iter().partition(|name| referenced.contains(name));
        let representative = if kept.is_empty() && !free.is_empty() {
            free.remove(0)
        } else {
            kept.first().copied().unwrap_or_default()
        };
        found.referenced.extend(kept.iter().skip(1).map(|name| (*name).to_owned()));
        found.folded.extend(free.into_iter().map(|name| (name.to_owned(), representative.to_owned())));
    }
    found.referenced.sort_unstable();
    found
}

struct Comparison<'c, 'p> {
    program: &'c Program<'p>,
    graphs: &'c [&'c ReferenceGraph],
    bodies: &'c [&'c Bodies],
}

impl Comparison<'_, '_> {
    fn body(&self, node: Node) -> Option<&Body> {
        self.bodies.get(node.unit)?.of(node.index)
    }

    /// Hashes a kernel with everything that it has its own copy of; `None` if some of it cannot be compared.
    fn whole(&self, kernel: Node) -> Option<[u8; 32]> {
        let mut hasher = blake3::Hasher::new();
        let mut numbers: FxHashMap<Node, u32> = FxHashMap::default();
        let mut open = vec![kernel];
        numbers.insert(kernel, 0);
        let mut next = 0;
        while let Some(node) = open.get(next).copied() {
            next += 1;
            let body = self.body(node)?;
            hasher.update(&body.hash);
            for to in &body.references {
                match self.referred(node, *to) {
                    Referred::Same(text) => {
                        hasher.update(b"same").update(&(text.len() as u64).to_le_bytes()).update(text.as_bytes());
                    }
                    Referred::Declared(name) => {
                        let declared = self.bodies.get(node.unit)?.of(*to).map_or([0; 32], |body| body.hash);
                        hasher.update(b"open").update(&(name.len() as u64).to_le_bytes()).update(name.as_bytes());
                        hasher.update(&declared);
                    }
                    Referred::Copied(target) => {
                        let number = numbers.len() as u32;
                        let number = *numbers.entry(target).or_insert_with(|| {
                            open.push(target);
                            number
                        });
                        hasher.update(b"copy").update(&number.to_le_bytes());
                    }
                }
            }
        }
        Some(*hasher.finalize().as_bytes())
    }

    /// What a reference of a definition to a global of its unit, by index, means.
    fn referred(&self, node: Node, to: u32) -> Referred {
        let graph = self.graphs[node.unit];
        let Some(global) = graph.globals.get(to as usize) else { return Referred::Same(format!("{node:?} {to}")) };
        let from = graph.globals.get(node.index as usize);
        let references = || from.into_iter().flat_map(|from| &from.references).filter(|reference| reference.to == to);
        let reference = Reference { to, called: references().all(|reference| reference.called) };
        let Some(target) = self.program.target(node, reference) else { return Referred::Declared(global.name.clone()) };
        let is_copied = match &self.program.global(target).role {
            Role::Kernel => false,
            Role::Function => reference.called && references().next().is_some(),
            Role::Variable(_) => self.program.class(target) != Class::Owned,
        };
        if is_copied {
            return Referred::Copied(target);
        }
        match self.program.identity(target) {
            Identity::Name(name) => Referred::Same(format!("named {name}")),
            Identity::Node(node) => Referred::Same(format!("local {} {}", node.unit, node.index)),
        }
    }
}

/// What a reference means.
enum Referred {
    /// The one thing of this description.
    Same(String),
    /// Something of this name that no unit defines.
    Declared(String),
    /// Something that every kernel has its own copy of.
    Copied(Node),
}

#[cfg(test)]
mod tests;
