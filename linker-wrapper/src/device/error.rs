//! Errors in the device code of a link.

use std::path::PathBuf;

use offload_bundle::arch::GpuArch;
use offload_bundle::{FormatError, FormatErrorKind};

use crate::host::embedded_images::Origin;

/// Device code that cannot be read or found, or symbols that do not resolve.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("{}: damaged device image: {source}; rebuild the file", .origin.exact())]
    DamagedImage { origin: Origin, source: FormatError },
    #[error("{}: damaged cubin: {what}; rebuild the file", .place.exact())]
    DamagedCubin { place: Origin, what: FormatErrorKind },
    #[error(
        "{file}, which --device-linker= names, holds no device code: it is neither LLVM bitcode, nor a cubin, nor PTX, nor an \
         object or archive with these"
    )]
    NoDeviceCode { file: String },
    #[error(
        "{file} is neither bitcode nor an object for AMD's GPUs, so that no code object for {target} can be made of it"
    )]
    NoCodeOfTarget { file: String, target: String },
    #[error("--dlink: no file says which GPU its device code is for; name one on the line: -arch=sm_90")]
    NoOwnTarget,
    #[error(
        "{file}, which --device-linker= names, has no code that can be linked for {arch}; compile it for that target, too, or \
         give a library with code for both"
    )]
    NotForTarget { file: String, arch: GpuArch },
    /// A unit of nvcc.
    #[error(
        "{file} has nothing that can be linked for {arch}, only {has}; compile it with -gencode for {arch} too, or add PTX of an \
             architecture at or below it"
    )]
    NoCodeFor { file: String, arch: GpuArch, has: String },
    /// A unit of nvcc.
    #[error("{file} has {has}; compile it with -gencode for the targets of this link")]
    NoRdcCode { file: String, has: String },
    #[error(
        "{file} has only LTO-IR for {arch}, and link-time optimization is off: leave out -fno-lto, or with --dlink add -dlto, or \
         compile the file to machine code or PTX, too"
    )]
    LtoOff { file: String, arch: GpuArch },
    /// Units of nvcc and of clang are linked together.
    #[error(
        "--offload-sass: {arch} is no target of the objects of clang, which are for {}; compile them with --offload-arch={arch} too",
        archs(.linked)
    )]
    NotOfClang { arch: GpuArch, linked: Vec<GpuArch> },
    #[error(
        "cannot find the library of --device-linker=-l{name}: {}; name its folder with -Xoffload-linker -L<dir>",
        searched(.folders)
    )]
    NoLibrary { name: String, folders: Vec<PathBuf> },
    /// `kind` is the programming model with a blank behind it, or empty if it is unknown.
    #[error(
        "{file}: the host code registers {name}{}, and no input of the link carries a {kind}device image: the program \
         would start and fail at its first launch; rebuild the file with its device code, which \
         --offload-host-only leaves out and removing .llvm.offloading throws away",
        more(*.others)
    )]
    LostImages { file: String, name: String, others: usize, kind: String },
    /// `others` is the number of further files.
    #[error(
        "{file}{} of clang's former offload driver, which links HIP device code itself; compile with --offload-new-driver",
        more_files(*.others)
    )]
    FormerDriver { file: String, others: usize },
    /// `others` is the number of further files of the same compiler.
    #[error(
        "{file}{} of {compiler}, whose tables of kernels and variables ({section}) this link does not register: the program would \
         start and fail at its first launch; compile with clang 22, or link with the libomptarget of that clang",
        more_files(*.others)
    )]
    FormerEntries { file: String, section: &'static str, compiler: String, others: usize },
    #[error(
        "{file} is of {compiler}, whose entry of the managed variable {variable} does not name the pointer to it, so that no link can \
         register it; compile with clang 20 or later"
    )]
    FormerManaged { file: String, compiler: String, variable: String },
    #[error(
        "{file} is of {compiler}, whose entry of the texture or surface {variable} does not say how many dimensions it has, so that no \
         link can register it; compile with clang 18 or later"
    )]
    FormerTexture { file: String, compiler: String, variable: String },
    /// `symbol` is formatted for the message.
    #[error(
        "the device variable {symbol} has two sizes for {arch}: {first_size} bytes in {first}, {second_size} bytes in {second}; declare \
         it alike in all files"
    )]
    TwoSizes { symbol: String, arch: String, first: String, first_size: u64, second: String, second_size: u64 },
    /// `symbol` and `definitions` are formatted for the message.
    #[error(
        "duplicate device symbol {symbol} for {arch}: defined in {definitions}; make one of them static or inline, or link \
         only one of the files"
    )]
    Duplicate { symbol: String, arch: String, definitions: String },
    /// `symbol` and `references` are formatted for the message.
    #[error("undefined device symbol {symbol} for {arch}: referenced by {references}; {advice}")]
    Undefined { name: String, symbol: String, arch: String, references: String, advice: String },
    /// `symbol` and `references` are formatted for the message.
    #[error(
        "undefined device symbol {symbol} for {arch}: referenced by {references}; AMD's device libraries define it, and clang \
         links them into each unit: compile without -nogpulib, or name their folder with --rocm-device-lib-path="
    )]
    DeviceLibrary { symbol: String, arch: String, references: String },
}

fn searched(folders: &[PathBuf]) -> String {
    if folders.is_empty() {
        return "no -L is given there".to_owned();
    }
    let folders: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
    format!("not in {}", folders.join(", "))
}

fn archs(archs: &[GpuArch]) -> String {
    archs.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn more_files(others: usize) -> String {
    match others {
        0 => " is".to_owned(),
        1 => " and 1 more file are".to_owned(),
        _ => format!(" and {others} more files are"),
    }
}

fn more(others: usize) -> String {
    if others == 0 { String::new() } else { format!(" and {others} more") }
}
