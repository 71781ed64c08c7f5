//! What goes into the program.

use offload_bundle::arch::GpuArch;
use offload_bundle::coverage::{Driver, GpuWord};

use crate::cli::error::Error;
use crate::cli::flags::flag::{Flag, Reproduced, Topic, Value, add, assign, set};
use crate::cli::options::Options;
use crate::cli::values::{self, ImageCompression, ImageSection, LlvmRules, PtxPolicy, SassPolicy};
use crate::diag::error::Errors;

pub const TOPIC: Topic = Topic {
    title: "Machine code and PTX in the program",
    flags: &[
        Flag::switch(&["--embed-bitcode"], "", |options, _| assign(&mut options.embed_bitcode, true)),
        Flag::switch(&["--compress"], "Compress HIP images", |options, _| assign(&mut options.compress_hip, true)),
        Flag::joined(&["--compression-level="], "<n>", "Compression level of HIP images", |options, value| {
            set(&mut options.compression_level, values::compression_level(value.text))
        }),
        Flag::joined(
            &["--offload-llvm-rules="],
            "22|23",
            "Link target ids together, and name HIP images, as this LLVM does (default: 22)",
            |options, value| set(&mut options.llvm_rules, LlvmRules::parse(value.text)),
        ),
        Flag::joined(
            &["--offload-ptx="],
            "objects|none|newest|oldest|all|<arch>,...",
            "PTX to put into the image beside the machine code (default: objects, what the files request)",
            |options, value| set(&mut options.ptx_policy, PtxPolicy::parse(value.text)),
        )
        .listing(is_gpu),
        Flag::joined(&["--cuda-include-ptx="], "<arch>|all", "Put in PTX of this target", |options, value| {
            include_ptx(options, "--cuda-include-ptx=", value.text)
        }),
        Flag::joined(&["--no-cuda-include-ptx="], "<arch>|all", "Leave out PTX of this target", |options, value| {
            include_ptx(options, "--no-cuda-include-ptx=", value.text)
        }),
        Flag::joined(
            &["--offload-sass="],
            "all|none|<arch>,...",
            "Machine code to put into the image (default: all)",
            |options, value| set(&mut options.sass_policy, SassPolicy::parse(value.text)),
        )
        .listing(is_gpu),
        Flag::joined(
            &["--offload-ptx-version="],
            "<major>.<minor>",
            "PTX ISA version to emit (default: the lowest that the code needs)",
            |options, value| set(&mut options.ptx_version, values::ptx_version(value.text)),
        ),
        Flag::joined(
            &["--offload-compress="],
            "auto|default|size|speed|balance|none",
            "How the image is compressed: auto (the default) whatever becomes smaller, the others as \
             fatbinary --compress-mode",
            |options, value| set(&mut options.compress, ImageCompression::parse(value.text)),
        ),
        Flag::joined(
            &["--offload-driver="],
            "<version>",
            "The oldest CUDA driver that has to load the image, such as 525: chooses the compression, and is \
             checked",
            |options, value| set(&mut options.driver, values::driver(value.text)),
        ),
        Flag::joined(
            &["--offload-require="],
            "<gpu>,...@<driver>,...[,no-jit]",
            "Fail if the image does not serve all of these GPUs with all of these drivers, such as \
             sm_80..sm_90,rtx5090@535,580; no-jit: from machine code",
            |options, value| set(&mut options.require, values::require(value.text)),
        )
        .listing(is_required),
        Flag::joined(
            &["--offload-fatbin-section="],
            "default|large",
            "large: put the image aside in the program, so that gigabytes of it break no 32-bit relocation",
            |options, value| set(&mut options.image_section, ImageSection::parse(value.text)),
        ),
        Flag::joined(
            &["--override-image="],
            "<kind>=<file>",
            "Use the file as the linked device image instead of what the inputs hold",
            override_image,
        )
        .reproduced(Reproduced::ReadBehindKind),
    ],
};

/// clang's option overrides the recorded flags, but not `--offload-ptx`.
fn include_ptx(options: &mut Options, option: &str, text: &str) -> Result<(), Errors> {
    if options.ptx_policy == PtxPolicy::Objects {
        options.ptx_policy = PtxPolicy::Line;
    }
    add(&mut options.include_ptx, [format!("{option}{text}")])
}

fn override_image(options: &mut Options, value: &Value<'_>) -> Result<(), Errors> {
    let (kind, file) =
        value.text.split_once('=').ok_or_else(|| Error::value("--override-image=", "<kind>=<file>", value.text))?;
    assign(&mut options.override_image, (kind.to_owned(), file.into()))
}

/// Whether a word after `--offload-require=` continues its list, which clang cuts at commas.
fn is_required(word: &str) -> bool {
    let word = word.split('@').next().unwrap_or(word);
    word.parse::<GpuWord>().is_ok() || word.parse::<Driver>().is_ok() || word == "no-jit"
}

/// Whether a word after `--offload-ptx=` or `--offload-sass=` continues its list.
pub fn is_gpu(word: &str) -> bool {
    word.parse::<GpuArch>().is_ok() && word.contains('_')
}
