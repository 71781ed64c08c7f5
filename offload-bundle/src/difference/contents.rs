//! What is kept of an image to compare it with another one: hashes and names, so that memory does not grow with the files.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use blake3::Hash;

use crate::amdgpu;
use crate::cubin::{self, Cubin, CubinSymbol, SymbolKind};

/// The names of functions, each kept once: a library has the same ones for each target.
pub(super) type Names = HashSet<Arc<str>>;

/// The contents of an image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Contents {
    /// In bytes.
    pub size: usize,
    /// Of all bytes.
    pub hash: Hash,
    /// Of cubins and code objects.
    pub functions: Option<Functions>,
}

/// Functions by name.
pub(super) type Functions = BTreeMap<Arc<str>, Function>;

/// What a function is compared by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Function {
    /// The hash of its machine code, if it is in a section of its own.
    pub code: Option<Hash>,
    /// Of a kernel for AMD's GPUs.
    pub resources: Option<amdgpu::Resources>,
}

impl Contents {
    pub fn new(bytes: &[u8], names: &mut Names) -> Self {
        let of_cubin = cubin::parse(bytes).ok().map(|cubin| functions(&cubin, names));
        let functions = of_cubin.or_else(|| of_code_object(bytes, names));
        Self { size: bytes.len(), hash: blake3::hash(bytes), functions }
    }
}

/// The functions of a cubin.
pub(super) fn functions(cubin: &Cubin<'_>, names: &mut Names) -> Functions {
    let is_code = |kind| matches!(kind, SymbolKind::Kernel | SymbolKind::Function);
    let functions = cubin.symbols().iter().filter(|symbol| symbol.defined && is_code(symbol.kind));
    let function = |symbol: &CubinSymbol| {
        let code = cubin.section(&format!(".text.{}", symbol.name)).map(blake3::hash);
        (shared(&symbol.name, names), Function { code, resources: None })
    };
    functions.map(function).collect()
}

fn of_code_object(bytes: &[u8], names: &mut Names) -> Option<Functions> {
    let code = amdgpu::Code::parse(bytes).ok()?;
    let resources = code.resources().unwrap_or_default();
    let function = |(name, code): (&str, &[u8])| {
        let resources = resources.get(name).copied();
        (shared(name, names), Function { code: Some(blake3::hash(code)), resources })
    };
    Some(code.functions().into_iter().map(function).collect())
}

fn shared(name: &str, names: &mut Names) -> Arc<str> {
    if let Some(known) = names.get(name) {
        return known.clone();
    }
    let name: Arc<str> = name.into();
    names.insert(name.clone());
    name
}
