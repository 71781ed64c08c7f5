//! Errors in the files of the host link, and of running the host linker.

use std::io;
use std::path::PathBuf;
use std::process::ExitStatus;

use offload_bundle::audit::LostContainer;
use offload_bundle::demangle::readable;
use offload_bundle::{FormatError, FormatErrorKind};

use crate::cli::values::ImageSection;
use crate::compilers::FOREIGN;
use crate::diag::error::Errors;
use crate::sys::process;

/// An input that cannot be read, or a host linker that cannot be run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{name} at offset {offset:#x}: {what}; rebuild the file")]
    Damaged { name: String, offset: u64, what: FormatErrorKind },
    #[error("{name}: damaged llvm.embedded.objects: {source}; rebuild the file")]
    DamagedBitcodeHost { name: String, source: FormatError },
    #[error("cannot read {member}, a member of the thin archive {archive}: {source}")]
    ThinMember { archive: String, member: PathBuf, source: io::Error },
    #[error(
        "{what}: device code for a Windows host (COFF) cannot be linked yet; use LLVM's own clang-linker-wrapper for this link"
    )]
    WindowsHost { what: String },
    #[error(
        "{what}: device code cannot be linked into programs for {machine} yet, only for x86-64 and AArch64; use LLVM's own clang-linker-wrapper, or \
         {FOREIGN} for its objects"
    )]
    OtherMachine { what: String, machine: String },
    #[error("{file} is for {machine}, but the program is for {program}; compile all files for one machine")]
    MixedMachines { file: String, machine: String, program: &'static str },
    #[error("the registration object for {triple} is no 64-bit little-endian ELF file")]
    RegistrationFormat { triple: String },
    #[error("-l{name}: a link of device code alone looks for no libraries; name the file")]
    LibraryOfTarget { name: String },
    #[error("this lld links device code alone, and there is no other one for this line; install LLVM's lld")]
    NoOtherLld,
    #[error("--host-triple={triple}: no objects can be written for this machine")]
    UnknownMachine { triple: String },
    #[error(
        "{file} holds device code of {FOREIGN} inside bytecode for link-time optimization of the host's code, where no device linker finds \
         it; compile it with -Xcompiler -fno-lto, or with -Xcompiler -ffat-lto-objects and link with -fno-lto"
    )]
    InsideHostLto { file: String },
    #[error("{}large is for x86-64 hosts: no other has such sections", ImageSection::OPTION)]
    NoLargeSections,
    #[error("cannot seal the relocatable object for {output}: {reason}")]
    Seal { output: PathBuf, reason: String },
    #[error(
        "{linker} drops sections that programs leave out from a relocatable link, and with them the merged device code; make this link \
         with GNU ld, gold or lld (-fuse-ld=)"
    )]
    MergedCodeDropped { linker: PathBuf },
    #[error(
        "{linker} ignores --defsym in a relocatable link and leaves {} undefined, a kernel that {FOREIGN} and clang name differently; make \
         this link with GNU ld, gold or lld (-fuse-ld=)",
        readable(.name)
    )]
    AliasIgnored { linker: PathBuf, name: String },
    #[error(
        "{output}: the kernels {} and {} have one address, because the linker folded their host code (--icf) or an object defines one as an alias \
         of the other; a launch of one would run the other",
        readable(.first), readable(.second)
    )]
    FoldedStubs { output: PathBuf, first: String, second: String },
    #[error("{output}: {lost}; the linker script may drop it")]
    LostContainer { output: PathBuf, lost: LostContainer },
    #[error("{output}: {call}; this is a fault of the device linker: report it with --reproduce=<tar>")]
    UncoveredCall { output: PathBuf, call: String },
    #[error(
        "{file} registers {symbol}, and {images} has it: the file has lost its device code, which `objcopy -R` and `ld -r` of another \
         linker do; compile it again"
    )]
    MissingCode { file: String, symbol: String, images: String },
    #[error(
        "{output} registers {symbol}, and {images} has it: the host linker took its host code from a file that is not on the line, such as a \
         library that an object names (`.deplibs`); name the file on the line"
    )]
    UnreadCode { output: PathBuf, symbol: String, images: String },
    #[error("cannot run the linker '{name}' that {named_by} names: no such program")]
    NamedLinker { name: String, named_by: &'static str },
    #[error(
        "no host linker found: none of ld.lld, mold and ld is on PATH; name one with --linker-path=<path> or FATLINK_LINKER"
    )]
    NoLinker,
    #[error(
        "no host linker found: fatlink was called as {program} and runs the linker of that name, and no {linker} is on PATH; \
         install it, or name another one with --linker-path=<path> or FATLINK_LINKER"
    )]
    NoLinkerOfThatName { program: String, linker: String },
    #[error("cannot run {linker}: {source}")]
    LinkerStart { linker: PathBuf, source: io::Error },
    #[error(
        "{linker} could not write {output} or read its inputs (SIGBUS): the disk is full, or a file was cut off during the link"
    )]
    LinkerBus { linker: PathBuf, output: PathBuf },
    #[error("{linker}: {}", process::ending(*.status))]
    LinkerKilled { linker: PathBuf, status: ExitStatus },
}

/// The error of a damaged input. The offset in `error` counts from `base` in the file.
pub fn damaged(name: &str, base: u64, error: &FormatError) -> Errors {
    Error::Damaged { name: name.to_owned(), offset: base.saturating_add(error.offset), what: error.kind.clone() }.into()
}
