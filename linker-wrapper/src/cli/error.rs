//! Errors in a command line.

use std::borrow::Cow;
use std::path::PathBuf;

use offload_bundle::amdgpu::TargetIdError;
use offload_bundle::arch::UnknownArch;
use remote_cache::LocationError;

/// An option or a response file that cannot be used.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{option} needs a value: {option} {expected}")]
    MissingValue { option: &'static str, expected: &'static str },
    #[error("--emit-code-object=: {source}")]
    CodeObjectTarget { source: TargetIdError },
    #[error("{option} needs a value behind it")]
    NoValue { option: String },
    #[error("{option} needs a command of clang behind it: {option} clang++ -c a.cu -o a.o")]
    NoCommand { option: &'static str },
    #[error("{option} has to be the first word, in front of a command of clang")]
    NotFirst { option: &'static str },
    #[error("{option}: nvcc takes {expected}, got '{value}'")]
    NvccValue { option: String, expected: &'static str, value: String },
    #[error("cannot read the file of --options-file {}: {reason}", .file.display())]
    OptionsFile { file: PathBuf, reason: String },
    #[error("the file {} of --options-file includes itself", .file.display())]
    OptionsFileLoop { file: PathBuf },
    #[error("--dlink: there is no option {option}; --help lists those that begin like this")]
    UnknownOption { option: String },
    #[error(
        "--dlink: nvcc has no option {option}; options of the host's compiler and linker go behind -Xcompiler and -Xlinker"
    )]
    NoNvccOption { option: String },
    #[error("--dlink: {option} {why}")]
    DlinkRefused { option: String, why: &'static str },
    #[error("--dlink: {option} cannot be combined with -dlto; leave out one of them")]
    NotWithDlto { option: String },
    #[error(
        "--dlink: '{value}' is no target; expected sm_90, lto_90, compute_90 or another of these forms, all, all-major or native"
    )]
    DlinkTarget { value: String },
    #[error("--dlink: {} is source code; compile it with nvcc -dc, and link the object", .file.display())]
    DlinkSource { file: PathBuf },
    #[error("there is no option {option}; did you mean {meant}?")]
    Mistyped { option: String, meant: String },
    #[error("there is no option {option}; --help lists those that begin like this")]
    NoOption { option: String },
    #[error("{option}: expected {expected}, got '{value}'")]
    Value { option: &'static str, expected: Cow<'static, str>, value: String },
    #[error("{option}: expected {expected}: {source}")]
    Targets { option: &'static str, expected: &'static str, source: UnknownArch },
    #[error("--offload-require=: {reason}")]
    Require { reason: String },
    #[error("--offload-cache=: expected a folder, 'on' or 'off'")]
    EmptyCache,
    #[error("{option}: {reason}")]
    RemoteCache { option: &'static str, reason: LocationError },
    #[error("--offload-distributor=: expected a program, such as fatlink-slurm")]
    NoDistributor,
    #[error("--offload-distributor-arg={}: there is no --offload-distributor= that it is for", .argument.display())]
    LoneDistributorArgument { argument: PathBuf },
    #[error("--offload-check=: expected <name>=error|warn|off, got '{value}'; the checks are {known}")]
    CheckForm { value: String, known: String },
    #[error("--offload-check=: there is no check '{name}'; the checks are {known} (all stands for all)")]
    UnknownCheck { name: String, known: String },
    #[error("--offload-check={name}=: expected error, warn or off, got '{level}'")]
    CheckLevel { name: String, level: String },
    #[error("response file {file} includes itself")]
    ResponseFileLoop { file: String },
    #[error("response file {file} is nested in {deepest} others; put the arguments into fewer files")]
    ResponseFileDepth { file: String, deepest: usize },
    #[error(
        "response file {file} is one of more than {most} that this line includes; do response files name each other?"
    )]
    ResponseFiles { file: String, most: usize },
    #[error("response file {file} goes beyond the {mebibytes} MiB of text that response files may have together")]
    ResponseFileText { file: String, mebibytes: u64 },
}

impl Error {
    /// The error of an option whose value is not one of those expected.
    pub fn value(option: &'static str, expected: impl Into<Cow<'static, str>>, value: &str) -> Self {
        Error::Value { option, expected: expected.into(), value: value.to_owned() }
    }
}
