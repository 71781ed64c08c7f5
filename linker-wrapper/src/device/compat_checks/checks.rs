//! The texts of the compatibility checks.

use crate::cli::values::Check;

/// The texts of a check's message. docs/how-to/checks.md explains the reasons in full.
pub struct Texts {
    /// The property that files differ in.
    pub what: &'static str,
    /// Why the difference matters, and what to do.
    pub advice: &'static str,
}

/// Returns the texts of one check of code for NVIDIA's or AMD's GPUs.
pub fn texts(check: Check, is_amd: bool) -> Texts {
    match check {
        Check::Denormals if is_amd => Texts {
            what: "denormal numbers",
            advice: "one definition of an inline function in several files prevails, and a function runs in the mode of the kernel that calls it; \
                     compile all files with or without -fgpu-flush-denormals-to-zero",
        },
        Check::Debug if is_amd => Texts {
            what: "debug information",
            advice: "debuggers and profilers see only part of the code; compile all files with the same -g",
        },
        Check::MissingTarget => Texts {
            what: "the targets that they were compiled for",
            advice: "on such a GPU the kernels of a file without code for it are missing; compile all files with the same --offload-arch",
        },
        Check::RelocatableCode => Texts {
            what: "whether their device code can be linked",
            advice: "only units with -fgpu-rdc are linked and optimized together; compile all with -fgpu-rdc -foffload-lto",
        },
        Check::Producer => Texts {
            what: "the LLVM that wrote their bitcode",
            advice: "bitcode of an older LLVM is upgraded, with a loss of attributes; compile all files with one compiler",
        },
        Check::Features => Texts {
            what: "the PTX version that they were compiled for",
            advice: "headers may select code by it, and one definition of an inline function in several files prevails; compile all files with one CUDA toolkit and \
                     the same --cuda-feature",
        },
        Check::FastMath => Texts {
            what: "fast floating-point arithmetic",
            advice: "one definition of an inline function in several files prevails, fast or not; compile all files with or without -ffast-math",
        },
        Check::Denormals => Texts {
            what: "denormal numbers",
            advice: "one definition of an inline function in several files prevails, and CUDA's mathematical functions follow one of the files; \
                     compile all files with or without -fgpu-flush-denormals-to-zero",
        },
        Check::Debug => Texts {
            what: "debug information",
            advice: "debuggers and profilers see only part of the code, and full debug information of one file keeps ptxas \
                     from optimizing the others; compile all files with the same -g",
        },
        Check::Toolkit => Texts {
            what: "the major version of the CUDA toolkit that made their machine code",
            advice: "NVIDIA promises compatibility only within a major version; compile all files with one CUDA toolkit",
        },
        Check::WaveSize => Texts {
            what: "the size of their waves",
            advice: "a kernel cannot call a function for another size, and one definition of an inline function in several files prevails; compile \
                     all files with or without -mwavefrontsize64",
        },
        Check::WorkgroupMode => Texts {
            what: "where the waves of a workgroup run",
            advice: "code for one compute unit leaves out what others need to see its memory, and one definition of an inline function in several \
                     files prevails; compile all files with the same -mcumode and -mtgsplit",
        },
        Check::IeeeMode => Texts {
            what: "the treatment of signaling NaNs",
            advice: "a function runs in the mode of the kernel that calls it; compile all files with or without -mno-amdgpu-ieee",
        },
        Check::Atomics => Texts {
            what: "atomic operations on floating-point numbers",
            advice: "one definition of an inline function in several files prevails, and those of the hardware may ignore the mode of denormal \
                     numbers; compile all files with or without -munsafe-fp-atomics",
        },
    }
}
