//! The whole device program of one target as a graph: what every kernel reaches, across all units, and which
//! of it can be copied. PURE: no LLVM, tested by tables.
//!
//! Functions that are called may be copied into every partition that calls them, and so may constants that
//! nobody can tell from a copy, and shared memory, of which every kernel has its own anyway. Everything else
//! has one owner and is known to the others by name: variables, and functions whose address is taken.

use std::collections::{BTreeSet, HashMap};

use crate::reference_graph::{CONSTANT, Global, Reference, ReferenceGraph, Role, SHARED, Scope};
use rustc_hash::FxHashMap;

/// One global of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Place among the target's bitcode units.
    pub unit: usize,
    /// Index in the unit's reference graph.
    pub index: u32,
}

/// What may happen to a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Every partition that needs it has its own.
    Copied,
    /// One of several equal tables: every partition that needs it brings it, the final link keeps one.
    Folded,
    /// One partition has it.
    Owned,
}

/// A program: its units, and how their names resolve.
pub struct Program<'p> {
    units: Vec<&'p ReferenceGraph>,
    /// Stable and different names of the units, for what they share by name.
    tags: Vec<String>,
    /// The prevailing definition of every name that bitcode defines.
    definitions: HashMap<&'p str, Node>,
    /// Names that stay visible: registered by the host, or used by cubins.
    keep: &'p BTreeSet<String>,
    /// Of every global, by unit and index.
    facts: Vec<Vec<Facts>>,
}

/// What is asked of a global again and again.
#[derive(Debug, Clone)]
struct Facts {
    /// The definitions that it refers to.
    edges: Vec<Edge>,
    /// The same for all that is the same in other units.
    identity: u32,
    /// A visible name.
    visible: bool,
    /// A variable that one partition has.
    owned: bool,
}

/// One definition refers to another, of any unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The other one.
    pub to: Node,
    /// As the callee of a call; else by address.
    pub called: bool,
}

impl<'p> Program<'p> {
    /// `prevailing` says which unit's definition of a name counts, if that is a bitcode unit; `tags` are as
    /// many as units.
    pub fn new(
        units: Vec<&'p ReferenceGraph>,
        tags: Vec<String>,
        prevailing: &dyn Fn(&str) -> Option<usize>,
        keep: &'p BTreeSet<String>,
    ) -> Self {
        let mut definitions = HashMap::new();
        for (unit, graph) in units.iter().enumerate() {
            for (index, global) in graph.globals.iter().enumerate() {
                let visible = matches!(global.scope, Scope::Visible { .. }) && global.is_definition();
                if visible && prevailing(&global.name) == Some(unit) {
                    definitions.insert(global.name.as_str(), Node { unit, index: index as u32 });
                }
            }
        }
        let mut program = Program { units, tags, definitions, keep, facts: Vec::new() };
        let mut identities = HashMap::new();
        program.facts = (0..program.units.len()).map(|unit| program.facts_of(unit, &mut identities)).collect();
        program
    }

    fn facts_of(&self, unit: usize, identities: &mut HashMap<Identity<'p>, u32>) -> Vec<Facts> {
        let of_global = |(index, global): (usize, &Global)| {
            let from = Node { unit, index: index as u32 };
            let edge =
                |reference: &Reference| self.target(from, *reference).map(|to| Edge { to, called: reference.called });
            let next = identities.len() as u32;
            Facts {
                edges: global.references.iter().filter_map(edge).collect(),
                identity: *identities.entry(self.identity(from)).or_insert(next),
                visible: matches!(global.scope, Scope::Visible { .. }),
                owned: matches!(global.role, Role::Variable(_)) && self.class(from) == Class::Owned,
            }
        };
        self.units[unit].globals.iter().enumerate().map(of_global).collect()
    }

    fn facts(&self, node: Node) -> &Facts {
        &self.facts[node.unit][node.index as usize]
    }

    /// What a definition refers to.
    pub fn edges(&self, node: Node) -> &[Edge] {
        &self.facts(node).edges
    }

    /// A number for [`Program::identity`].
    pub fn identity_number(&self, node: Node) -> u32 {
        self.facts(node).identity
    }

    /// Number of units.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// What a node is.
    pub fn global(&self, node: Node) -> &'p Global {
        &self.units[node.unit].globals[node.index as usize]
    }

    /// What a node is the same as in other units.
    pub fn identity(&self, node: Node) -> Identity<'p> {
        let global = self.global(node);
        match global.scope {
            Scope::Visible { .. } => Identity::Name(global.name.as_str()),
            _ => Identity::Node(node),
        }
    }

    /// The definition behind a reference; `None`: it is outside, in libdevice, in a cubin, or nowhere.
    fn target(&self, from: Node, reference: Reference) -> Option<Node> {
        let own = Node { unit: from.unit, index: reference.to };
        let global = self.global(own);
        match global.scope {
            Scope::Reserved => None,
            Scope::Local => Some(own),
            Scope::Visible { strength, odr } => {
                let prevailing = self.definitions.get(global.name.as_str()).copied();
                // Definitions of one name that are all alike: the nearest will do, so that a partition
                // does not depend on units that are merely earlier on the line.
                let all_alike = odr && strength.is_definition() && prevailing.is_some_and(|node| self.is_odr(node));
                if all_alike && self.class(own) == Class::Copied { Some(own) } else { prevailing }
            }
        }
    }

    fn is_odr(&self, node: Node) -> bool {
        matches!(self.global(node).scope, Scope::Visible { odr: true, .. })
    }

    /// What may happen to the definition; a function is [`Class::Copied`] as far as it is only called.
    pub fn class(&self, node: Node) -> Class {
        let global = self.global(node);
        let Role::Variable(variable) = &global.role else { return Class::Copied };
        if self.is_kept(node) {
            return Class::Owned;
        }
        match (variable.address_space, &variable.content) {
            (SHARED, _) => Class::Copied,
            (CONSTANT, Some(_)) => Class::Folded,
            // The bank of constants is small, and copies would fill it.
            (CONSTANT, None) => Class::Owned,
            _ if variable.constant && !variable.address_matters => Class::Copied,
            _ => Class::Owned,
        }
    }

    /// Whether the definition must stay visible in any case.
    pub fn is_kept(&self, node: Node) -> bool {
        let global = self.global(node);
        let prevails = || self.definitions.get(global.name.as_str()) == Some(&node);
        match global.scope {
            Scope::Visible { .. } => (global.retained || self.keep.contains(&global.name)) && prevails(),
            Scope::Local => global.retained,
            Scope::Reserved => false,
        }
    }

    /// The name by which all partitions know a definition that is not copied. `None`: its own.
    pub fn shared_name(&self, node: Node) -> Option<String> {
        let global = self.global(node);
        if let Role::Variable(variable) = &global.role
            && let (Class::Folded, Some(content)) = (self.class(node), &variable.content)
        {
            return Some(format!("__fatlink_constant_{content}"));
        }
        if global.scope != Scope::Local {
            return None;
        }
        // A name that PTX takes as it is.
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '$' { c } else { '_' };
        let name: String = global.name.chars().map(plain).collect();
        Some(format!("{name}__fatlink_{}_{}", self.tags[node.unit], node.index))
    }

    /// The definitions from which everything else is reached, each in the partition that owns it: kernels,
    /// what must stay visible, and what is shared by name. In order of units.
    pub fn roots(&self) -> BTreeSet<Node> {
        let mut roots: BTreeSet<Node> = self.nodes().filter(|node| self.is_start(*node)).collect();
        let mut open: Vec<Node> = roots.iter().copied().collect();
        let mut seen: BTreeSet<Node> = roots.clone();
        while let Some(node) = open.pop() {
            for edge in self.edges(node) {
                if self.is_shared_by(*edge) {
                    roots.insert(edge.to);
                }
                if seen.insert(edge.to) {
                    open.push(edge.to);
                }
            }
        }
        roots
    }

    fn nodes(&self) -> impl Iterator<Item = Node> {
        let indices = |unit: usize| (0..self.units[unit].globals.len()).map(move |index| (unit, index));
        (0..self.units.len()).flat_map(indices).map(|(unit, index)| Node { unit, index: index as u32 })
    }

    fn is_start(&self, node: Node) -> bool {
        let global = self.global(node);
        let prevails = || match global.scope {
            Scope::Local => true,
            _ => self.definitions.get(global.name.as_str()) == Some(&node),
        };
        global.is_definition() && ((global.is_kernel() && prevails()) || self.is_kept(node))
    }

    /// Whether this reference makes its target something that partitions share by name.
    pub fn is_shared_by(&self, edge: Edge) -> bool {
        match self.global(edge.to).role {
            Role::Variable(_) => self.facts(edge.to).owned,
            Role::Kernel => true,
            Role::Function => !edge.called,
        }
    }

    /// All that the roots reach: what a partition with these roots is made of.
    pub fn closure(&self, roots: &[Node]) -> Closure {
        let mut closure = Closure::default();
        for root in roots {
            closure.add_root(self, *root);
        }
        closure.close(self);
        closure
    }

    /// Why the program can only be compiled whole, if that is so.
    pub fn whole(&self, roots: &BTreeSet<Node>) -> Option<Whole> {
        if let Some((unit, why)) =
            self.units.iter().enumerate().find_map(|(at, unit)| Some((at, unit.monolithic.as_ref()?)))
        {
            return Some(Whole { unit: Some(unit), why: why.clone() });
        }
        // A function that is called through a pointer has its caller's shared memory.
        let by_pointer: Vec<Node> =
            roots.iter().copied().filter(|root| self.global(*root).role == Role::Function).collect();
        let closure = self.closure(&by_pointer);
        let is_shared_memory = |node: &Node| matches!(&self.global(*node).role, Role::Variable(variable) if variable.address_space == SHARED);
        let shared = closure.nodes().filter(is_shared_memory).min()?;
        let name = &self.global(shared).name;
        let why = format!("functions that are called through pointers use the shared variable {name}");
        Some(Whole { unit: Some(shared.unit), why })
    }
}

/// A definition, however many units have one that is just like it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity<'p> {
    /// A visible name.
    Name(&'p str),
    /// What one unit has for itself.
    Node(Node),
}

/// Why a program can only be compiled whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Whole {
    /// The unit that is the reason.
    pub unit: Option<usize>,
    /// The reason: "it has aliases".
    pub why: String,
}

/// The definitions of a partition.
#[derive(Debug, Clone, Default)]
pub struct Closure {
    /// With their bodies, and whether only to look into.
    taken: FxHashMap<Node, Need>,
    /// By the number of a visible name, so that of several equal definitions one is taken.
    names: FxHashMap<u32, Node>,
    open: Vec<Node>,
    instructions: u64,
}

/// Why a definition is in a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// The partition owns it.
    pub root: bool,
    /// Its body is of use here.
    pub body: bool,
    /// It is known by name to other partitions too.
    pub shared: bool,
}

impl Closure {
    /// Instructions of all bodies.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// All definitions and names of other partitions' definitions, with what they are needed for, in order.
    pub fn needs(&self) -> impl Iterator<Item = (Node, Need)> {
        let mut all: Vec<(Node, Need)> = self.taken.iter().map(|(node, need)| (*node, *need)).collect();
        all.sort_unstable_by_key(|(node, _)| *node);
        all.into_iter()
    }

    /// All definitions with bodies, in no order.
    pub fn nodes(&self) -> impl Iterator<Item = Node> {
        self.taken.iter().filter(|(_, need)| need.body).map(|(node, _)| *node)
    }

    /// Adds a root; [`Closure::close`] adds what it reaches.
    pub fn add_root(&mut self, program: &Program<'_>, root: Node) {
        let node = self.same_name(program, root);
        let need = self.taken.entry(node).or_default();
        need.root = true;
        need.shared = true;
        self.want_body(program, node);
    }

    fn same_name(&mut self, program: &Program<'_>, node: Node) -> Node {
        let facts = program.facts(node);
        if facts.visible { *self.names.entry(facts.identity).or_insert(node) } else { node }
    }

    fn want_body(&mut self, program: &Program<'_>, node: Node) {
        let need = self.taken.entry(node).or_default();
        if !need.body {
            need.body = true;
            self.instructions += u64::from(program.global(node).instructions);
            self.open.push(node);
        }
    }

    /// Adds everything that is reached.
    pub fn close(&mut self, program: &Program<'_>) {
        while let Some(node) = self.open.pop() {
            for edge in program.edges(node) {
                self.reach(program, *edge);
            }
        }
    }

    fn reach(&mut self, program: &Program<'_>, edge: Edge) {
        let node = self.same_name(program, edge.to);
        let shared = program.is_shared_by(Edge { to: node, ..edge });
        if shared {
            self.taken.entry(node).or_default().shared = true;
        }
        if !shared || is_looked_into(program.global(node)) {
            self.want_body(program, node);
        }
    }
}

/// Constants of other partitions up to this size are known here with their content, in bytes.
const CONSTANT_LOOKED_INTO: u64 = 1 << 16;
/// Functions that may turn out to be called are known with their bodies up to this many instructions: larger ones are
/// rarely inlined, and tables of functions would bring the whole program.
const FUNCTION_LOOKED_INTO: u32 = 300;

/// Whether the optimizer gains from knowing what another partition owns.
fn is_looked_into(global: &Global) -> bool {
    match &global.role {
        Role::Variable(variable) => variable.constant && variable.size <= CONSTANT_LOOKED_INTO,
        Role::Function => global.instructions <= FUNCTION_LOOKED_INTO,
        Role::Kernel => false,
    }
}
