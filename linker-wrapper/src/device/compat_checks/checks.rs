//! What files may differ in, and why that matters.

use crate::cli::values::Check;

/// The words of a check's message. The reasons stand at length in docs/checks.md.
pub struct Words {
    /// What files differ in.
    pub what: &'static str,
    /// Why that matters, and what to do.
    pub advice: &'static str,
}

/// The words for one check.
pub fn words(check: Check) -> Words {
    match check {
        Check::MissingTarget => Words {
            what: "the targets that they were compiled for",
            advice: "on such a GPU the kernels of a file without code for it are missing; compile all files with the same --offload-arch",
        },
        Check::Producer => Words {
            what: "the LLVM that wrote their bitcode",
            advice: "bitcode of an older LLVM is upgraded, with a loss of attributes; compile all files with one compiler",
        },
        Check::Features => Words {
            what: "the PTX version that they were compiled for",
            advice: "headers may choose other code by it, of which one copy prevails; compile all files with one CUDA toolkit and \
                     the same --cuda-feature",
        },
        Check::FastMath => Words {
            what: "fast floating-point arithmetic",
            advice: "of an inline function in several files one copy prevails, fast or not; compile all files with or without -ffast-math",
        },
        Check::Denormals => Words {
            what: "denormal numbers",
            advice: "of an inline function in several files one copy prevails, and CUDA's mathematical functions follow one of the files; \
                     compile all files with or without -fgpu-flush-denormals-to-zero",
        },
        Check::Debug => Words {
            what: "debug information",
            advice: "a debugger and a profiler will see a part of the code alone, and full debug information of one file keeps ptxas \
                     from optimizing the others; compile all files with the same -g",
        },
        Check::Toolkit => Words {
            what: "the major version of the CUDA toolkit that made their machine code",
            advice: "NVIDIA promises compatibility within a major version alone; compile all files with one CUDA toolkit",
        },
    }
}
