//! Tools and libraries.

use crate::cli::flags::flag::{Apply, Flag, Reproduced, Topic, Value, assign};
use crate::cli::options::Options;
use crate::cli::values::Part;
use crate::diag::error::Errors;

pub const TOPIC: Topic = Topic {
    title: "Tools and libraries",
    flags: &[
        Flag::joined(&["--linker-path="], "<path>", "The host linker to run", |options, value| {
            assign(&mut options.linker_path, value.path())
        })
        .reproduced(Reproduced::Omitted),
        Flag::joined(&["--cuda-path="], "<dir>", "The CUDA toolkit to use", |options, value| {
            assign(&mut options.cuda_path, value.path())
        })
        .reproduced(Reproduced::Omitted),
        part(&["--ptxas-path="], "The ptxas to use", |options, value| set_part(options, Part::Ptxas, value)),
        part(&["--nvlink-path="], "The nvlink to use", |options, value| set_part(options, Part::Nvlink, value)),
        part(&["--libdevice-path="], "The libdevice.10.bc to use", |options, value| {
            set_part(options, Part::Libdevice, value)
        }),
        part(&["--cudadevrt-path="], "The libcudadevrt.a to use", |options, value| {
            set_part(options, Part::Cudadevrt, value)
        }),
        part(&["--nvjitlink-path="], "The libnvJitLink.so to use", |options, value| {
            set_part(options, Part::NvJitLink, value)
        }),
        part(&["--libcuda-path="], "The driver's libcuda.so.1 to use", |options, value| {
            set_part(options, Part::Driver, value)
        }),
        part(&["--lld-path="], "The ld.lld to use for AMD GPUs", |options, value| set_part(options, Part::Lld, value)),
        Flag::switch(
            &["--print-toolchain"],
            "Print the tools and libraries that were found, and exit",
            |options, _| assign(&mut options.print_toolchain, true),
        ),
        // fatlink looks for no tools in its own folder.
        Flag::switch(&["--no-canonical-prefixes"], "", |_, _| Ok(())),
    ],
};

/// The path of one part of CUDA or LLVM.
const fn part(spellings: &'static [&'static str], help: &'static str, apply: Apply) -> Flag {
    Flag::joined(spellings, "<file>", help, apply).reproduced(Reproduced::Omitted)
}

#[expect(clippy::unnecessary_wraps, reason = "what all options do has one type")]
fn set_part(options: &mut Options, part: Part, value: &Value<'_>) -> Result<(), Errors> {
    options.parts.set(part, value.path());
    Ok(())
}
