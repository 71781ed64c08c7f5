//! `__nvvm_reflect`: libdevice asks about its surroundings, and the answers are known at link time.
//! Answered before optimization, so that the branches not taken are gone when inlining is decided.

use inkwell::module::Module;
use offload_bundle::arch::GpuArch;

use crate::sys;

/// The module flag in which clang records -fgpu-flush-denormals-to-zero.
pub(crate) const FLUSH_FLAG: &str = "nvvm-reflect-ftz";

/// The spellings under which the question is asked.
const REFLECT: [&str; 3] = ["__nvvm_reflect", "__nvvm_reflect_ocl", "llvm.nvvm.reflect"];

/// Answers every `__nvvm_reflect` call in the module for `arch`.
pub(crate) fn answer(module: &Module<'_>, arch: GpuArch) {
    let flush = sys::integer_module_flag(module, FLUSH_FLAG).unwrap_or(0);
    let answers = move |question: &str| match question {
        "__CUDA_FTZ" => u32::try_from(flush).unwrap_or(0),
        "__CUDA_ARCH" => arch.number * 10,
        // The CUDA default. LLVM itself answers 0, which would make sqrtf an approximation.
        "__CUDA_PREC_SQRT" => 1,
        // LLVM answers 0 to whatever it does not know.
        _ => 0,
    };
    for name in REFLECT {
        if let Some(function) = module.get_function(name) {
            sys::replace_reflect_calls(function, &answers);
        }
    }
}
