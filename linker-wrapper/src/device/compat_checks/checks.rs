//! The texts of the compatibility checks.

use crate::cli::values::Check;

/// The texts of a check's message. docs/checks.md explains the reasons in full.
pub struct Texts {
    /// The property that files differ in.
    pub what: &'static str,
    /// Why the difference matters, and what to do.
    pub advice: &'static str,
}

/// Returns the texts of one check.
pub fn texts(check: Check) -> Texts {
    match check {
        Check::MissingTarget => Texts {
            what: "the targets that they were compiled for",
            advice: "on such a GPU the kernels of a file without code for it are missing; compile all files with the same --offload-arch",
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
    }
}
