//! Requests that are well-formed and that no link can carry out.

use thiserror::Error;

/// A request that cannot be carried out, by the options that make it.
#[derive(Debug, Error)]
pub enum Unsupported {
    #[error("LLVM rejects these options of -mllvm, --offload-opt and --plugin-opt: {options}")]
    LlvmOptions { options: String },
    #[error(
        "--embed-bitcode (-fopenmp-target-jit) keeps bitcode for a compiler at run time, and fatlink makes machine code of it: leave it out"
    )]
    EmbedBitcode,
    #[error(
        "--offload-relocatable=merge is for relocatable links (-r) of host objects, and --dlink and --emit-fatbin-only finish the device \
         code: leave it out"
    )]
    NotRelocatable,
    #[error("--emit-code-object= finishes the device code for one target and links no host code: leave out {option}")]
    CodeObjectWith { option: &'static str },
    #[error(
        "--offload-relocatable=merge: {file} has device code without a host object, which the output cannot carry; name it in the link of \
         the program"
    )]
    NoHostObject { file: String },
    #[error("nothing to write: the inputs hold no device code; compile them with --offload-arch=")]
    NothingToEmit,
    #[error("--emit-fatbin-only: the inputs hold CUDA and OpenMP code; link them one at a time")]
    SeveralToEmit,
    #[error(
        "--dlink: the inputs hold device code of {kinds}, and a device link is for one of them; link them one at a time"
    )]
    SeveralToLink { kinds: String },
}
