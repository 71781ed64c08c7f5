//! The visible symbols of a unit: what it defines and what it references.

use inkwell::AddressSpace;
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::module::{Linkage, Module};
use inkwell::values::{FunctionValue, GlobalValue};
use serde::{Deserialize, Serialize};

use crate::sys;

/// LLVM's calling convention of kernels for AMD GPUs.
pub(crate) const AMDGPU_KERNEL: u32 = 91;

/// LLVM's calling conventions of kernels, the first for NVPTX.
const KERNELS: [u32; 2] = [PTX_KERNEL, AMDGPU_KERNEL];
/// LLVM's number of the calling convention `ptx_kernel`.
pub const PTX_KERNEL: u32 = 71;

/// The address space of `__shared__` variables, of NVPTX and AMDGPU alike.
const SHARED: u16 = 3;

/// How a symbol is defined or referenced, by the rules of ELF.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Strength {
    /// Referenced; an error if no unit defines it.
    Undefined,
    /// Referenced; null if no unit defines it.
    WeakUndefined,
    /// A definition that yields to a strong one (weak, common).
    Weak,
    /// A weak definition that may be dropped if its own unit does not use it (linkonce: inline functions).
    LinkOnce,
    /// A strong definition, of which there may be one.
    Strong,
}

impl Strength {
    /// Whether the unit defines the symbol.
    pub fn is_definition(self) -> bool {
        !matches!(self, Strength::Undefined | Strength::WeakUndefined)
    }
}

/// What a symbol is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum SymbolKind {
    /// A `__global__` function.
    Kernel,
    /// A `__device__` function.
    Function,
    /// A variable in any address space.
    Variable,
}

/// A symbol that other units can see.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Symbol {
    /// Its mangled name.
    pub name: String,
    /// Whether and how it is defined.
    pub strength: Strength,
    /// What it is; for an undefined symbol, what its declaration is.
    pub kind: SymbolKind,
    /// The bytes that a variable takes; 0 if that is not known, and for functions.
    pub size: u64,
}

/// Reads the visible symbols of a module whose bodies are loaded, without declarations that nothing uses.
pub fn of_module(module: &Module<'_>) -> Vec<Symbol> {
    collect(module, &|used| used)
}

/// Reads the visible symbols of a module whose bodies are not loaded. Every declaration counts as undefined, because its uses
/// are not known.
pub fn of_lazy_module(module: &Module<'_>) -> Vec<Symbol> {
    collect(module, &|_| true)
}

fn collect(module: &Module<'_>, counts: &dyn Fn(bool) -> bool) -> Vec<Symbol> {
    let functions = module.get_functions().filter_map(|function| {
        function_symbol(function).filter(|symbol| symbol.strength.is_definition() || counts(sys::is_used(function)))
    });
    let variables = module.get_globals().filter_map(|variable| {
        variable_symbol(variable).filter(|symbol| symbol.strength.is_definition() || counts(sys::is_used(variable)))
    });
    let indirects = sys::indirects(module).into_iter().filter_map(indirect_symbol);
    functions.chain(variables).chain(indirects).collect()
}

fn function_symbol(function: FunctionValue<'_>) -> Option<Symbol> {
    let name = function.get_name().to_str().ok()?;
    if name.starts_with("llvm.") {
        return None;
    }
    // A definition whose body is not loaded has no basic blocks, so these do not tell.
    let strength = strength(function.get_linkage(), !function.as_global_value().is_declaration())?;
    let kind = if is_kernel(function) { SymbolKind::Kernel } else { SymbolKind::Function };
    Some(Symbol { name: name.to_owned(), strength, kind, size: 0 })
}

fn variable_symbol(variable: GlobalValue<'_>) -> Option<Symbol> {
    let name = variable.get_name().to_str().ok()?;
    if name.starts_with("llvm.") {
        return None;
    }
    let strength = strength(variable.get_linkage(), !variable.is_declaration())?;
    if !strength.is_definition() && is_shared(variable) {
        // `extern __shared__`: the launch gives its size, no unit defines it.
        return None;
    }
    // The largest of several common definitions prevails.
    let size = if variable.get_linkage() == Linkage::Common { 0 } else { sys::declared_size(variable) };
    Some(Symbol { name: name.to_owned(), strength, kind: SymbolKind::Variable, size })
}

fn is_shared(variable: GlobalValue<'_>) -> bool {
    variable.as_pointer_value().get_type().get_address_space() == AddressSpace::from(SHARED)
}

fn indirect_symbol(indirect: sys::Indirect<'_>) -> Option<Symbol> {
    let strength = match indirect.linkage() {
        LLVMLinkage::LLVMExternalLinkage => Strength::Strong,
        LLVMLinkage::LLVMWeakAnyLinkage | LLVMLinkage::LLVMWeakODRLinkage => Strength::Weak,
        LLVMLinkage::LLVMLinkOnceAnyLinkage | LLVMLinkage::LLVMLinkOnceODRLinkage => Strength::LinkOnce,
        _ => return None,
    };
    // No caller distinguishes aliases of functions from those of variables.
    Some(Symbol { name: indirect.name(), strength, kind: SymbolKind::Function, size: 0 })
}

/// Whether the function is a kernel. Readers turn old `nvvm.annotations` into the calling convention.
pub fn is_kernel(function: FunctionValue<'_>) -> bool {
    KERNELS.contains(&function.get_call_conventions())
}

fn strength(linkage: Linkage, defined: bool) -> Option<Strength> {
    match (linkage, defined) {
        (Linkage::Internal | Linkage::Private | Linkage::Appending, _) => None,
        (Linkage::ExternalWeak, _) => Some(Strength::WeakUndefined),
        (Linkage::AvailableExternally, _) | (_, false) => Some(Strength::Undefined),
        (Linkage::WeakAny | Linkage::WeakODR | Linkage::Common, true) => Some(Strength::Weak),
        (Linkage::LinkOnceAny | Linkage::LinkOnceODR | Linkage::LinkOnceODRAutoHide, true) => Some(Strength::LinkOnce),
        (_, true) => Some(Strength::Strong),
    }
}

#[cfg(test)]
mod tests {
    use inkwell::context::Context;

    use inkwell::memory_buffer::MemoryBuffer;

    use super::*;
    use crate::reference_graph;
    use crate::session::Session;

    #[test]
    fn kernels_of_former_clang_are_kernels_in_modules_that_are_read_lazily() {
        let context = Context::create();
        let module = context.create_module("former");
        module.set_triple(&inkwell::targets::TargetTriple::create("nvptx64-nvidia-cuda"));
        let function = module.add_function("kernel", context.void_type().fn_type(&[], false), None);
        let builder = context.create_builder();
        builder.position_at_end(context.append_basic_block(function, "entry"));
        builder.build_return(None).unwrap();
        let pointer = function.as_global_value().as_pointer_value();
        let mark = context.metadata_node(&[
            pointer.into(),
            context.metadata_string("kernel").into(),
            context.i32_type().const_int(1, false).into(),
        ]);
        module.add_global_metadata("nvvm.annotations", &mark).unwrap();
        let bitcode = module.write_bitcode_to_memory();
        let session = Session::new();
        let read = session.read_lazily("former.bc", bitcode.as_slice()).unwrap();
        assert!(is_kernel(read.get_function("kernel").unwrap()));
    }

    #[test]
    fn a_zone_of_the_address_sanitizer_is_no_part_of_a_variable() {
        const TEXT: &str = "
@guarded = global { [4 x i32], [16 x i8] } zeroinitializer
@__asan_global_guarded = private global { i64, i64, i64 } { i64 0, i64 16, i64 32 }
@plain = global [8 x i32] zeroinitializer
";
        let session = Session::new();
        let buffer = MemoryBuffer::create_from_memory_range_copy(format!("{TEXT}\0").as_bytes(), "text");
        let module = session.context().create_module_from_ir(buffer).unwrap();
        let sizes =
            |symbols: Vec<Symbol>| symbols.into_iter().map(|symbol| (symbol.name, symbol.size)).collect::<Vec<_>>();
        let expected = [("guarded".to_owned(), 16), ("plain".to_owned(), 32)];
        assert_eq!(sizes(of_module(&module)), expected);
        assert_eq!(sizes(reference_graph::symbols(&reference_graph::of_module(&module))), expected);
    }
}
