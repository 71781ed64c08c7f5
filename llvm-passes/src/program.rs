//! The device program of one target as one graph: what every kernel reaches, across all units, and what partitions may copy.
//! Pure functions of the units' reference graphs.
//!
//! Partitions may have copies of functions that are called, of constants that the program cannot distinguish from a copy, and of
//! shared memory, of which every kernel has its own anyway. Everything else has one owner and is referenced by name from other
//! partitions: variables, functions whose address is taken, and the shared memory that these functions use.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use crate::reference_graph::{CONSTANT, Global, Reference, ReferenceGraph, Role, SHARED, Scope};
use rustc_hash::FxHashMap;

/// One global of one unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node {
    /// Index among the target's bitcode units.
    pub unit: usize,
    /// Index in the unit's reference graph.
    pub index: u32,
}

/// How partitions share a definition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Every partition that needs it has a copy.
    Copied,
    /// Every partition that needs it has it as a weak definition, of which the final link keeps one: equal tables.
    Folded,
    /// One partition has it, and others reference it by name.
    Owned,
}

/// What the machine that the program runs on allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Machine {
    /// Constant memory is small, and shared memory has names for the assembler.
    Nvptx,
    /// Constant memory is like any other, and LLVM lays out the shared memory (LDS) of the kernels that it sees.
    Amdgpu,
    /// Processors of the host, whose programs are not cut.
    Host,
}

/// A program: its units, and how their names resolve.
pub struct Program<'p> {
    machine: Machine,
    units: Vec<&'p ReferenceGraph>,
    /// A distinct name for each unit that depends on its content alone, for local definitions that are shared by name.
    tags: Vec<String>,
    /// The prevailing definition of every name that bitcode defines.
    definitions: HashMap<&'p str, Node>,
    /// Names that stay visible: the host registers them, or cubins use them.
    keep: &'p BTreeSet<String>,
    /// The shared memory that functions use which are called through pointers.
    behind_pointers: HashSet<Identity<'p>>,
    /// What is looked up often of every global, by unit and index.
    facts: Vec<Vec<Facts>>,
}

/// What is looked up often of a global.
#[derive(Debug, Clone)]
struct Facts {
    /// The definitions that it references.
    edges: Vec<Edge>,
    /// Equal for equal [`Program::identity`].
    identity: u32,
    /// Whether the name is visible.
    visible: bool,
    /// Whether it is a variable with an owner.
    owned: bool,
}

/// A reference from one definition to another, of any unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Edge {
    /// The referenced definition.
    pub to: Node,
    /// Whether it is the callee of a call; otherwise its address is taken.
    pub called: bool,
}

impl<'p> Program<'p> {
    /// Joins the units. `prevailing` returns the unit whose definition of a name prevails, if that is a bitcode unit; `tags`
    /// has a distinct name for each unit.
    pub fn new(
        units: Vec<&'p ReferenceGraph>,
        tags: Vec<String>,
        prevailing: &dyn Fn(&str) -> Option<usize>,
        keep: &'p BTreeSet<String>,
    ) -> Self {
        Self::on(Machine::Nvptx, units, tags, prevailing, keep)
    }

    /// As [`Program::new`], for a machine.
    pub fn on(
        machine: Machine,
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
        let behind_pointers = HashSet::new();
        let mut program = Program { machine, units, tags, definitions, keep, behind_pointers, facts: Vec::new() };
        program.facts = program.all_facts();
        if machine == Machine::Nvptx && program.has_shared_memory() && !program.is_openmp() {
            let shared = program.shared_behind_pointers(&program.roots());
            program.behind_pointers = shared.into_iter().map(|node| program.identity(node)).collect();
            if !program.behind_pointers.is_empty() {
                program.facts = program.all_facts();
            }
        }
        program
    }

    fn all_facts(&self) -> Vec<Vec<Facts>> {
        let mut identities = HashMap::new();
        (0..self.units.len()).map(|unit| self.facts_of(unit, &mut identities)).collect()
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

    /// What a definition references.
    pub fn edges(&self, node: Node) -> &[Edge] {
        &self.facts(node).edges
    }

    /// A number that stands for [`Program::identity`].
    pub fn identity_number(&self, node: Node) -> u32 {
        self.facts(node).identity
    }

    /// Number of units.
    pub fn unit_count(&self) -> usize {
        self.units.len()
    }

    /// The function or variable of a node.
    pub fn global(&self, node: Node) -> &'p Global {
        &self.units[node.unit].globals[node.index as usize]
    }

    /// Equal for definitions of different units that stand for the same thing.
    pub fn identity(&self, node: Node) -> Identity<'p> {
        let global = self.global(node);
        match global.scope {
            Scope::Visible { .. } => Identity::Name(global.name.as_str()),
            _ => Identity::Node(node),
        }
    }

    /// The definition that a reference resolves to; `None` if it is not in bitcode (libdevice, cubins) or nowhere.
    pub(crate) fn target(&self, from: Node, reference: Reference) -> Option<Node> {
        let own = Node { unit: from.unit, index: reference.to };
        let global = self.global(own);
        match global.scope {
            Scope::Reserved => None,
            Scope::Local => Some(own),
            Scope::Visible { strength, odr } => {
                let prevailing = self.definitions.get(global.name.as_str()).copied();
                // All definitions of the name are equivalent. The unit's own is preferred, so that a partition does not
                // depend on units that are merely earlier on the line.
                let all_alike = odr && strength.is_definition() && prevailing.is_some_and(|node| self.is_odr(node));
                if all_alike && self.class(own) == Class::Copied { Some(own) } else { prevailing }
            }
        }
    }

    fn is_odr(&self, node: Node) -> bool {
        matches!(self.global(node).scope, Scope::Visible { odr: true, .. })
    }

    /// How partitions share the definition. A function is [`Class::Copied`] as long as it is only called.
    pub fn class(&self, node: Node) -> Class {
        let global = self.global(node);
        let Role::Variable(variable) = &global.role else { return Class::Copied };
        if self.is_kept(node) {
            return Class::Owned;
        }
        match (variable.address_space, &variable.content) {
            // The caller may be in another partition. nvlink gives the variable one place in all kernels that reach it, by pointers, too.
            (SHARED, _) if self.behind_pointers.contains(&self.identity(node)) => Class::Owned,
            (SHARED, _) => Class::Copied,
            (CONSTANT, Some(_)) if self.machine == Machine::Nvptx => Class::Folded,
            // Constant memory is small; copies could exceed it.
            (CONSTANT, None) if self.machine == Machine::Nvptx => Class::Owned,
            _ if variable.constant && !variable.address_matters => Class::Copied,
            _ => Class::Owned,
        }
    }

    /// Whether the definition must stay visible whatever the partitions.
    pub fn is_kept(&self, node: Node) -> bool {
        let global = self.global(node);
        let prevails = || self.definitions.get(global.name.as_str()) == Some(&node);
        match global.scope {
            Scope::Visible { .. } => (global.retained || self.keep.contains(&global.name)) && prevails(),
            Scope::Local => global.retained,
            Scope::Reserved => false,
        }
    }

    /// The name that all partitions use for a definition that is not copied; `None` for its own.
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
        // PTX accepts no other characters in a name.
        let plain = |c: char| if c.is_ascii_alphanumeric() || c == '_' || c == '$' { c } else { '_' };
        let name: String = global.name.chars().map(plain).collect();
        Some(format!("{name}__fatlink_{}_{}", self.tags[node.unit], node.index))
    }

    /// The definitions that have an owner: kernels, what must stay visible, and what is shared by name. Everything else is
    /// reached from them.
    pub fn roots(&self) -> BTreeSet<Node> {
        self.roots_without(&BTreeSet::new())
    }

    /// As [`Program::roots`], of a program without these kernels. Those that the rest refers to, to launch them or for their address, are
    /// roots all the same.
    pub fn roots_without(&self, dead: &BTreeSet<String>) -> BTreeSet<Node> {
        let is_dead = |node: Node| {
            let global = self.global(node);
            global.is_kernel() && dead.contains(&global.name) && !self.is_kept(node)
        };
        self.roots_from(self.nodes().filter(|node| self.is_start(*node) && !is_dead(*node)).collect())
    }

    /// The kernels among these that are compiled all the same, each with the name of a kernel, function or variable that refers to it.
    pub fn kept_by_code(&self, dead: &BTreeSet<String>) -> BTreeMap<String, String> {
        let roots: Vec<Node> = self.roots_without(dead).into_iter().collect();
        let compiled: BTreeSet<Node> = self.closure(&roots).nodes().collect();
        let mut kept = BTreeMap::new();
        for node in compiled {
            for edge in self.edges(node).iter().filter(|edge| edge.to != node) {
                let target = self.global(edge.to);
                if target.is_kernel() && dead.contains(&target.name) {
                    kept.entry(target.name.clone()).or_insert_with(|| self.global(node).name.clone());
                }
            }
        }
        kept
    }

    /// Adds the definitions with an owner that these roots reach.
    pub fn roots_from(&self, mut roots: BTreeSet<Node>) -> BTreeSet<Node> {
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

    /// The kernels with visible names.
    pub fn kernels(&self) -> impl Iterator<Item = Node> {
        let is_visible = |node: &Node| matches!(self.global(*node).scope, Scope::Visible { .. });
        self.nodes().filter(move |node| self.global(*node).is_kernel() && is_visible(node) && self.is_start(*node))
    }

    /// Whether a definition is in the program whoever refers to it: a kernel, or what must stay visible.
    pub fn is_start(&self, node: Node) -> bool {
        let global = self.global(node);
        let prevails = || match global.scope {
            Scope::Local => true,
            _ => self.definitions.get(global.name.as_str()) == Some(&node),
        };
        global.is_definition() && ((global.is_kernel() && prevails()) || self.is_kept(node))
    }

    /// Whether partitions share the target of this reference by name.
    pub fn is_shared_by(&self, edge: Edge) -> bool {
        match self.global(edge.to).role {
            Role::Variable(_) => self.facts(edge.to).owned,
            Role::Kernel => true,
            Role::Function => !edge.called,
        }
    }

    /// Everything that the roots reach: the content of a partition with these roots.
    pub fn closure(&self, roots: &[Node]) -> Closure {
        let mut closure = Closure::default();
        for root in roots {
            closure.add_root(self, *root);
        }
        closure.close(self);
        closure
    }

    /// Why the program cannot be partitioned, if that is so.
    pub fn monolithic(&self, roots: &BTreeSet<Node>) -> Option<Monolithic> {
        if let Some((unit, reason)) =
            self.units.iter().enumerate().find_map(|(at, unit)| Some((at, unit.monolithic.as_ref()?)))
        {
            return Some(Monolithic { unit: Some(unit), reason: reason.clone() });
        }
        // Shared memory belongs to the kernel that is running. A function that is called through a pointer may be in another
        // partition than its caller, which would have another variable.
        let is_copied = |node: &Node| !self.behind_pointers.contains(&self.identity(*node));
        let shared = self.shared_behind_pointers(roots).into_iter().filter(is_copied).min()?;
        let name = &self.global(shared).name;
        let reason = format!("functions that are called through pointers use the shared variable {name}");
        Some(Monolithic { unit: Some(shared.unit), reason })
    }

    /// The shared memory that functions among these roots reach.
    fn shared_behind_pointers(&self, roots: &BTreeSet<Node>) -> Vec<Node> {
        let is_function = |root: &Node| self.global(*root).role == Role::Function;
        let by_pointer: Vec<Node> = roots.iter().copied().filter(is_function).collect();
        let nodes: Vec<Node> = self.closure(&by_pointer).nodes().collect();
        let declared: Vec<Node> = nodes.iter().flat_map(|node| self.shared_declarations(*node)).collect();
        nodes.into_iter().filter(|node| self.is_shared_memory(*node)).chain(declared).collect()
    }

    fn has_shared_memory(&self) -> bool {
        self.nodes().any(|node| self.is_shared_memory(node))
    }

    /// Whether OpenMP's device runtime runs the kernels. It keeps their state in shared memory, which LLVM removes where it sees every use:
    /// under a name for all partitions the state would stay, and kernels of 9 KB took 50 KB.
    fn is_openmp(&self) -> bool {
        self.units.iter().flat_map(|unit| &unit.globals).any(|global| global.name == "__kmpc_target_init")
    }

    fn is_shared_memory(&self, node: Node) -> bool {
        matches!(&self.global(node).role, Role::Variable(variable) if variable.address_space == SHARED)
    }
}

impl Program<'_> {
    /// The shared memory without a definition that a function references: its size comes with the launch. On AMD GPUs its place depends
    /// on the kernel.
    fn shared_declarations(&self, node: Node) -> Vec<Node> {
        if self.machine == Machine::Nvptx {
            return Vec::new();
        }
        let references = self.global(node).references.iter();
        let referenced = references.map(|reference| Node { unit: node.unit, index: reference.to });
        referenced.filter(|node| self.is_shared_memory(*node)).collect()
    }
}

/// A definition, or all definitions of different units that stand for the same thing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Identity<'p> {
    /// A visible name.
    Name(&'p str),
    /// A definition that is local to its unit.
    Node(Node),
}

/// Why a program is compiled in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Monolithic {
    /// The unit that causes it.
    pub unit: Option<usize>,
    /// The reason: "it has aliases".
    pub reason: String,
}

/// The definitions of a partition.
#[derive(Debug, Clone, Default)]
pub struct Closure {
    /// Every definition, and what it is needed for.
    taken: FxHashMap<Node, Need>,
    /// The definition that was chosen for each visible name, by identity number.
    names: FxHashMap<u32, Node>,
    open: Vec<Node>,
    instructions: u64,
}

/// What a definition is needed for in a partition.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Need {
    /// Whether the partition owns it.
    pub root: bool,
    /// Whether its body is needed.
    pub body: bool,
    /// Whether other partitions reference it by name.
    pub shared: bool,
}

impl Closure {
    /// Instructions of all bodies.
    pub fn instructions(&self) -> u64 {
        self.instructions
    }

    /// All definitions, also those that only their owner has a body of, with what they are needed for, in order.
    pub fn needs(&self) -> impl Iterator<Item = (Node, Need)> {
        let mut all: Vec<(Node, Need)> = self.taken.iter().map(|(node, need)| (*node, *need)).collect();
        all.sort_unstable_by_key(|(node, _)| *node);
        all.into_iter()
    }

    /// All definitions with bodies, in no particular order.
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

/// Constants of other partitions are available with their content up to this size, in bytes.
const CONSTANT_LOOKED_INTO: u64 = 1 << 16;
/// Functions whose address is taken are available with their bodies up to this many instructions, in case calls of them turn out
/// to be direct. Larger ones are rarely inlined, and tables of functions would bring in the whole program.
const FUNCTION_LOOKED_INTO: u32 = 300;

/// Whether the optimizer gains from the body or content of a global that another partition owns.
fn is_looked_into(global: &Global) -> bool {
    match &global.role {
        Role::Variable(variable) => variable.constant && variable.size <= CONSTANT_LOOKED_INTO,
        Role::Function => global.instructions <= FUNCTION_LOOKED_INTO,
        Role::Kernel => false,
    }
}
