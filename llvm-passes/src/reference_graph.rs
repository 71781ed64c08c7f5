//! The functions and variables of one bitcode unit, and which of them references which: enough to resolve names and to
//! partition the program, and small enough to be cached between links.

use inkwell::module::Module;
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
    /// Functions, then variables, in the module's order: an index here is a [`crate::extract::Take`]'s number.
    pub globals: Vec<Global>,
    /// Why the unit cannot be partitioned, if that is so: "it has aliases".
    pub monolithic: Option<String>,
}

/// A function or a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Global {
    /// Mangled name; may be empty for a local one.
    pub name: String,
    /// Who can see it.
    pub scope: Scope,
    /// What it is.
    pub role: Role,
    /// Size of a function's body.
    pub instructions: u32,
    /// What it refers to, each at most once by call and once by address.
    pub references: Vec<Reference>,
    /// Listed in `llvm.used` or `llvm.compiler.used`.
    pub retained: bool,
    /// Somebody in the unit refers to it.
    pub referenced: bool,
}

/// One global refers to another of its unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reference {
    /// The other one's index.
    pub to: u32,
    /// As the callee of a call; else by address.
    pub called: bool,
}

/// Who can see a global.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Scope {
    /// LLVM's own: intrinsics, lists.
    Reserved,
    /// Its unit.
    Local,
    /// All units.
    Visible {
        /// Defined or wanted.
        strength: Strength,
        /// All definitions of the name are equal.
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

/// What matters of a variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Variable {
    /// NVPTX's number.
    pub address_space: u32,
    /// Nobody writes it.
    pub constant: bool,
    /// The program can tell it from an equal copy.
    pub address_matters: bool,
    /// Bytes.
    pub size: u64,
    /// Equal for equal local tables in constant memory, whatever their unit.
    pub content: Option<String>,
}

impl Global {
    /// Whether its unit has a body or storage for it that counts: an `available_externally` one does not.
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

/// The visible symbols of a unit: what it defines, and what it wants and uses.
pub fn symbols(graph: &ReferenceGraph) -> Vec<Symbol> {
    graph.globals.iter().filter_map(symbol).collect()
}

/// The functions and variables of a unit that refer to `name`, sorted, for messages.
pub fn users_of(graph: &ReferenceGraph, name: &str) -> Vec<String> {
    let refers = |user: &&Global| {
        let mut references = user.references.iter();
        references.any(|reference| graph.globals.get(reference.to as usize).is_some_and(|global| global.name == name))
    };
    let users = graph.globals.iter().filter(refers).map(|user| user.name.clone());
    users.collect::<std::collections::BTreeSet<_>>().into_iter().collect()
}

fn symbol(global: &Global) -> Option<Symbol> {
    let Scope::Visible { strength, .. } = global.scope else { return None };
    if !strength.is_definition() && !global.referenced {
        return None;
    }
    let kind = match &global.role {
        Role::Kernel => SymbolKind::Kernel,
        Role::Function => SymbolKind::Function,
        // `extern __shared__`: its size comes with the launch, nobody defines it.
        Role::Variable(variable) if !strength.is_definition() && variable.address_space == SHARED => return None,
        Role::Variable(_) => SymbolKind::Variable,
    };
    Some(Symbol { name: global.name.clone(), strength, kind })
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
                size: raw.size,
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
        // What a body that does not count refers to does not count.
        if global.is_definition() {
            global.references.push(Reference { to, called });
        }
    }
}

/// By LLVM-C's numbers of linkages.
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
        (5 | 14, true) => visible(Strength::Weak, false),
        (_, true) => visible(Strength::Strong, false),
    }
}

/// Sixteen hexadecimal digits that are equal for equal bytes.
pub fn short_hash(bytes: &[u8]) -> String {
    blake3::hash(bytes).to_hex()[..16].to_owned()
}
