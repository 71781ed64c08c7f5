//! Code for AMD's GPUs that cannot be linked.

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
}
