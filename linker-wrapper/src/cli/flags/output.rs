//! Outputs other than a program.

use offload_bundle::amdgpu::TargetId;

use crate::cli::error::Error;
use crate::cli::flags::flag::{Flag, Reproduced, Topic, assign, set};
use crate::cli::nvcc_to_clang;
use crate::cli::values::RelocatableCode;

/// The option that makes a code object, up to its target.
pub const EMIT_CODE_OBJECT: &str = "--emit-code-object=";

pub const TOPIC: Topic = Topic {
    title: "Other outputs",
    flags: &[
        Flag::switch(
            &["--dlink"],
            "Link the device code of objects to an object for the host linker; takes the command line of nvcc \
             -dlink",
            |options, _| assign(&mut options.dlink, true),
        )
        .reproduced(Reproduced::As("--dlink=translated")),
        Flag::switch(
            &["--translate-nvcc"],
            "As the first word, with a command of clang behind it: run it with its options of nvcc made into \
             those of clang",
            |_, _| Err(Error::NotFirst { option: nvcc_to_clang::OPTION }.into()),
        ),
        // In a reproducer: the line is translated already.
        Flag::switch(&["--dlink=translated"], "", |options, _| assign(&mut options.dlink, true))
            .reproduced(Reproduced::As("--dlink=translated")),
        Flag::switch(&["--emit-fatbin-only"], "Write the bundled image to the output, link nothing", |options, _| {
            assign(&mut options.emit_image_only, true)
        }),
        Flag::joined(
            &[EMIT_CODE_OBJECT],
            "<target id>",
            "Link bitcode and objects for an AMD GPU, such as gfx90a:xnack+, and write the code object",
            |options, value| {
                let target = value.text.parse::<TargetId>().map_err(|source| Error::CodeObjectTarget { source })?;
                options.emit_image_only = true;
                assign(&mut options.code_object, Some(target.to_string()))
            },
        ),
        Flag::joined(&["--offload-image="], "<file>", "Write the bundled image to a file, too", |options, value| {
            assign(&mut options.image_copy, value.path())
        })
        .reproduced(Reproduced::Written),
        Flag::joined(
            &["--offload-relocatable="],
            "link|merge",
            "What -r makes of device code; merge: bitcode that a later link takes, with compiled partitions \
             beside it (default: link)",
            |options, value| set(&mut options.relocatable_code, RelocatableCode::parse(value.text)),
        ),
    ],
};
