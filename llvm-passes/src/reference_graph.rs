//! The functions and variables of one bitcode unit, and which of them references which: enough to resolve names and to
//! partition the program, and small enough to be cached between links.

use inkwell::module::Module;
use rustc_hash::FxHashSet;
use serde::{Deserialize, Serialize};

use crate::symbols::{Strength, Symbol, SymbolKind};
use crate::sys::{self, GraphVisitor, RawGlobal};

/// NVPTX's address space of `__shared__` variables.
pub const SHARED: u32 = 3;
/// NVPTX's address space of `__constant__` variables.
pub const CONSTANT: u32 = 4;

/// The references within one unit.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReferenceGraph {
    /// Functions, then variables, in the module's order, then intrinsics; [`crate::extract::Take::index`] counts in this list.
    pub globals: Vec<Global>,
    /// Why the unit cannot be partitioned, if that is so: "it has aliases".
    pub monolithic: Option<String>,
}

/// A function or a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    /// Mangled name; may be empty for a local global.
    pub name: String,
    /// Which units can see it.
    pub scope: Scope,
    /// What it is.
    pub role: Role,
    /// Number of LLVM instructions in a function's body.
    pub instructions: u32,
    /// What it references, each global at most once by call and once by address.
    pub references: Vec<Reference>,
    /// Whether `llvm.used` or `llvm.compiler.used` lists it.
    pub retained: bool,
    /// Whether anything in the unit references it.
    pub referenced: bool,
}

/// A reference to a global of the same unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// Index of the referenced global.
    pub to: u32,
    /// Whether it is the callee of a call; otherwise its address is taken.
    pub called: bool,
}

/// Which units can see a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// None: intrinsics and LLVM's own lists.
    Reserved,
    /// Only its own.
    Local,
    /// All units.
    Visible {
        /// Whether and how it is defined.
        strength: Strength,
        /// Whether all definitions of the name are equivalent (LLVM's ODR linkages).
        odr: bool,
    },
}

/// What a global is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// A `__global__` function.
    Kernel,
    /// A `__device__` function.
    Function,
    /// A variable.
    Variable(Variable),
}

/// The properties of a variable that decide how partitions share it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// NVPTX's number of its address space.
    pub address_space: u32,
    /// Whether it always has the value of its initializer: code never writes it, and the host does not initialize it.
    pub constant: bool,
    /// Whether the program can distinguish it from an equal copy.
    pub address_matters: bool,
    /// Size in bytes; 0 if it is not known, and for common variables, the largest of which prevails.
    pub size: u64,
    /// A hash of the content of a local table in constant memory; equal tables of different units have the same.
    pub content: Option<String>,
}

impl ReferenceGraph {
    /// Whether all references lead to globals of the graph. Those of a graph that was read of a module do; facts that an object keeps may hold
    /// any numbers.
    pub fn is_closed(&self) -> bool {
        let mut references = self.globals.iter().flat_map(|global| &global.references);
        references.all(|reference| (reference.to as usize) < self.globals.len())
    }
}

impl Global {
    /// Whether its unit defines it. An `available_externally` definition does not count.
    pub fn is_definition(&self) -> bool {
        match self.scope {
            Scope::Reserved => false,
            Scope::Local => true,
            Scope::Visible { strength, .. } => strength.is_definition(),
        }
    }

    /// Whether it is a kernel with a body.
    pub fn is_kernel(&self) -> bool {
        self.role == Role::Kernel && self.is_definition()
    }
}

/// Reads the graph of a module whose function bodies are loaded.
pub fn of_module(module: &Module<'_>) -> ReferenceGraph {
    let mut collector = Collector::default();
    let monolithic = sys::visit_graph(module, &mut collector).map(str::to_owned);
    ReferenceGraph { globals: collector.globals, monolithic }
}

/// The visible symbols of a unit, without declarations that nothing uses.
pub fn symbols(graph: &ReferenceGraph) -> Vec<Symbol> {
    graph.globals.iter().filter_map(symbol).collect()
}

/// The functions and variables of a unit that reference `name`, sorted, for messages.
pub fn users_of(graph: &ReferenceGraph, name: &str) -> Vec<String> {
    let refers = |user: &&Global| {
        let mut references = user.references.iter();
        references.any(|reference| graph.globals.get(reference.to as usize).is_some_and(|global| global.name == name))
    };
    let users = graph.globals.iter().filter(refers).map(|user| user.name.clone());
    users.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

/// Kernels that device code launches, whose address it takes, or that a list of the unit retains.
pub fn referenced_kernels<'g>(graphs: &[&'g ReferenceGraph]) -> FxHashSet<&'g str> {
    let globals = graphs.iter().flat_map(|graph| &graph.globals);
    let kernels = globals.filter(|global| global.role == Role::Kernel && (global.referenced || global.retained));
    // A unit that does not define it may declare it as a function.
    let called = graphs.iter().flat_map(|graph| &graph.globals);
    let called = called.filter(|global| global.referenced && !global.is_definition() && !global.name.is_empty());
    kernels.chain(called).map(|global| global.name.as_str()).collect()
}

fn symbol(global: &Global) -> Option<Symbol> {
    let Scope::Visible { strength, .. } = global.scope else { return None };
    if !strength.is_definition() && !global.referenced {
        return None;
    }
    let (kind, size) = match &global.role {
        Role::Kernel => (SymbolKind::Kernel, 0),
        Role::Function => (SymbolKind::Function, 0),
        // `extern __shared__`: the launch gives its size, no unit defines it.
        Role::Variable(variable) if !strength.is_definition() && variable.address_space == SHARED => return None,
        Role::Variable(variable) => (SymbolKind::Variable, variable.size),
    };
    Some(Symbol { name: global.name.clone(), strength, kind, size })
}

#[derive(Default)]
struct Collector {
    globals: Vec<Global>,
}

impl GraphVisitor for Collector {
    fn global(&mut self, raw: &RawGlobal) {
        let scope = scope(raw);
        let role = match (raw.is_function != 0, raw.is_kernel != 0) {
            (true, true) => Role::Kernel,
            (true, false) => Role::Function,
            (false, _) => Role::Variable(Variable {
                address_space: raw.address_space,
                constant: raw.is_constant != 0,
                address_matters: raw.address_matters != 0,
                size: if raw.linkage == COMMON { 0 } else { raw.size },
                content: raw.content().map(|text| short_hash(text.as_bytes())),
            }),
        };
        self.globals.push(Global {
            name: raw.name(),
            scope,
            role,
            instructions: raw.instructions,
            references: Vec::new(),
            retained: raw.is_retained != 0,
            referenced: false,
        });
    }

    fn reference(&mut self, from: u32, to: u32, called: bool) {
        if let Some(target) = self.globals.get_mut(to as usize) {
            target.referenced = true;
        }
        let Some(global) = self.globals.get_mut(from as usize) else { return };
        // References from an `available_externally` body do not count, as the body does not.
        if global.is_definition() {
            global.references.push(Reference { to, called });
        }
    }
}

/// LLVM-C's number of the linkage of common variables.
const COMMON: u32 = 14;

/// Translates LLVM-C's numbers of linkages.
fn scope(raw: &RawGlobal) -> Scope {
    const EXTERNAL_WEAK: u32 = 12;
    let visible = |strength, odr| Scope::Visible { strength, odr };
    match (raw.linkage, raw.is_definition != 0) {
        _ if raw.is_intrinsic != 0 => Scope::Reserved,
        (8 | 9, _) => Scope::Local,
        (7, _) => Scope::Reserved,
        (EXTERNAL_WEAK, _) => visible(Strength::WeakUndefined, false),
        (1, _) | (_, false) => visible(Strength::Undefined, false),
        (2, true) => visible(Strength::LinkOnce, false),
        (3 | 4, true) => visible(Strength::LinkOnce, true),
        (6, true) => visible(Strength::Weak, true),
        (5 | COMMON, true) => visible(Strength::Weak, false),
        (_, true) => visible(Strength::Strong, false),
    }
}

/// The first sixteen hexadecimal digits of a hash of the bytes.
pub fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}
