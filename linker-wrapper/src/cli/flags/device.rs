//! The device link.

use crate::cli::flags::flag::Shape::Separate;
use crate::cli::flags::flag::{Flag, Reproduced, Scope, Topic, add, assign, set};
use crate::cli::flags::image::is_gpu;
use crate::cli::values::{BackendChoice, CubinLinker, KernelFolding, KernelGc, Partitioning};

pub const TOPIC: Topic = Topic {
    title: "Device link",
    flags: &[
        Flag::valued(Separate, &["-mllvm"], "<arg>", "Arguments passed to LLVM", |options, value| {
            add(&mut options.llvm_options, [value.text.to_owned()])
        })
        .of(Scope::OwnNames)
        .reproduced(Reproduced::LlvmOption),
        Flag::joined(&["--offload-opt=", "-offload-opt="], "<arg>", "Arguments passed to LLVM", |options, value| {
            add(&mut options.llvm_options, [value.text.to_owned()])
        })
        .reproduced(Reproduced::LlvmOption),
        Flag::joined(
            &["--offload-backend="],
            "auto|ptxas|nvjitlink|driver",
            "What makes the machine code (default: auto, ptxas wherever it can do it)",
            |options, value| set(&mut options.backend, BackendChoice::parse(value.text)),
        ),
        Flag::joined(
            &["--offload-device-linker="],
            "auto|fatlink|nvlink",
            "What links the machine code of ptxas (default: auto, fatlink itself where it is proven to link as nvlink does)",
            |options, value| set(&mut options.cubin_linker, CubinLinker::parse(value.text)),
        ),
        Flag::joined(&["--host-triple="], "<triple>", "Triple of the host code", |options, value| {
            assign(&mut options.host_triple, value.text.to_owned())
        }),
        Flag::joined(
            &["--device-linker="],
            "<value> or <triple>=<value>",
            "Argument, file or library for the device link of all targets or of one triple",
            |options, value| add(&mut options.device_linker, some_argument(value.text)),
        )
        .reproduced(Reproduced::DeviceArgument),
        Flag::joined(
            &["--device-compiler="],
            "<value> or <triple>=<value>",
            "Argument for device code generation of all targets or of one triple",
            |options, value| add(&mut options.device_compiler, [split_triple(value.text)]),
        ),
        Flag::switch(
            &["-fno-lto", "-fno-offload-lto"],
            "Link machine code or PTX of nvcc's units, not their LTO-IR (--device-compiler=-fno-lto)",
            |options, _| add(&mut options.device_compiler, [(None, "-fno-lto".to_owned())]),
        ),
        // For CUDA, every archive member is considered anyway.
        Flag::joined(&["--should-extract="], "<arch>,...", "Targets to take out of archives", |options, value| {
            add(&mut options.should_extract, value.text.split(',').map(str::to_owned))
        })
        .listing(is_target),
        Flag::joined(
            &["--offload-partition-size="],
            "<n>|whole",
            "Cut the device code of a target into jobs of about this many LLVM instructions (default: 12000)",
            |options, value| set(&mut options.partitioning, Partitioning::parse(value.text)),
        ),
        Flag::joined(
            &["--offload-check="],
            "<name>=error|warn|off",
            "Severity of a difference between files (default: warn); an unknown name lists the checks",
            |options, value| Ok(options.checks.set(value.text)?),
        ),
        Flag::joined(
            &["--offload-gc="],
            "off|host",
            "host: compile no kernels whose launch the program's host code cannot reach (default: off)",
            |options, value| set(&mut options.kernel_gc, KernelGc::parse(value.text)),
        ),
        Flag::joined(
            &["--offload-icf="],
            "off|safe|all",
            "Compile one of several kernels that differ in their names only; all: and have the program launch \
             it for the others (default: off)",
            |options, value| set(&mut options.kernel_folding, KernelFolding::parse(value.text)),
        ),
    ],
};

/// The argument of `--device-linker=`; none if nothing follows the `=`, as when a build system expands an empty variable.
fn some_argument(text: &str) -> Option<(Option<String>, String)> {
    Some(split_triple(text)).filter(|(_, word)| !word.is_empty())
}

/// Whether a word after `--should-extract=` continues its list.
fn is_target(word: &str) -> bool {
    word.starts_with("gfx") || is_gpu(word)
}

/// `TRIPLE=VALUE` or `VALUE`. The left side is a triple only if its first part is a device architecture.
pub fn split_triple(text: &str) -> (Option<String>, String) {
    const DEVICES: [&str; 12] = [
        "nvptx",
        "nvptx64",
        "amdgcn",
        "spirv64",
        "x86_64",
        "i386",
        "aarch64",
        "powerpc64",
        "powerpc64le",
        "ppc64le",
        "systemz",
        "s390x",
    ];
    match text.split_once('=') {
        Some((triple, value)) if DEVICES.contains(&triple.split('-').next().unwrap_or(triple)) => {
            (Some(triple.to_owned()), value.to_owned())
        }
        _ => (None, text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_targets_continue_a_list() {
        assert!(is_gpu("sm_90") && is_gpu("compute_90a") && !is_gpu("90") && !is_gpu("sm_90.o") && !is_gpu("gfx90a"));
        assert!(is_target("sm_90") && is_target("gfx90a") && !is_target("a.o"));
    }
}
