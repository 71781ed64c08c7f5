//! Code for AMD's GPUs that cannot be linked.

use std::path::PathBuf;

/// Images that do not fit together, or that no link can use.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error(
        "{unit}: compiled for code object version {version}, and {first} for version {first_version}: one code object has one \
         version; compile all files with the same -mcode-object-version="
    )]
    MixedVersions { unit: String, version: u64, first: String, first_version: u64 },
    #[error(
        "{name}: the device image for {target} is a finished code object, and ld.lld cannot link it with others; compile the file \
         with -fgpu-rdc"
    )]
    FinishedCodeObject { name: String, target: String },
    #[error(
        "{name}: the device image for {target} is neither LLVM bitcode nor an AMD GPU object; compile with -fgpu-rdc"
    )]
    NoAmdCode { name: String, target: String },
    #[error("{name}: the device image names the target {target} and is an object for {found}; rebuild the file")]
    OtherTarget { name: String, target: String, found: String },
    /// `function` and `variables` are formatted for the message.
    #[error(
        "{function} uses {variables} in local memory (LDS), and no kernel of the code for {target} calls it: LLVM would compile the use to a trap; \
         make the function static or hidden if nothing calls it, or link the code of its kernels with it"
    )]
    LocalMemory { function: String, variables: String, target: String },
    /// `functions` is formatted for the message.
    #[error(
        "{program} compiled uses of local memory (LDS) to traps for {target}, because no kernel of the bitcode that it read apart calls {functions}; \
         name the libraries themselves with --device-linker=, not by a linker script"
    )]
    LocalMemoryInLinker { program: PathBuf, functions: String, target: String },
    /// `user` and `function` are formatted for the message.
    #[error(
        "{user} of {user_file} uses {function} of {function_file}, and nothing computes the registers of {target} that kernels need for calls between \
         machine code of several files; compile both files with -foffload-lto, or define the function in the file that calls it"
    )]
    CallAcross { user: String, user_file: String, function: String, function_file: String, target: String },
}
