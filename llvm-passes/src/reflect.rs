//! `__nvvm_reflect`: the function by which libdevice selects code for the target and the compilation's options.
//!
//! The calls are replaced by constants before optimization, so that the branches not taken are gone when the inliner runs.

use inkwell::module::Module;
use offload_bundle::arch::GpuArch;

use crate::sys;

/// The module flag in which clang records `-fgpu-flush-denormals-to-zero`.
pub(crate) const FLUSH_FLAG: &str = "nvvm-reflect-ftz";

/// All names of the function.
const REFLECT: [&str; 3] = ["__nvvm_reflect", "__nvvm_reflect_ocl", "llvm.nvvm.reflect"];

/// Replaces every `__nvvm_reflect` call in the module by its value for `arch`.
pub(crate) fn replace_calls(module: &Module<'_>, arch: GpuArch) {
    let flush = sys::integer_module_flag(module, FLUSH_FLAG).unwrap_or(0);
    let value_of = move |name: &str| match name {
        "__CUDA_FTZ" => u32::try_from(flush).unwrap_or(0),
        "__CUDA_ARCH" => arch.number * 10,
        // nvcc's default. LLVM's own pass uses 0, which would make sqrtf an approximation.
        "__CUDA_PREC_SQRT" => 1,
        // As LLVM does for unknown names.
        _ => 0,
    };
    for name in REFLECT {
        if let Some(function) = module.get_function(name) {
            sys::replace_reflect_calls(function, &value_of);
        }
    }
}
