//! Finds programs of LLVM: beside this program, on PATH, in the folders of packages.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::values::{NamedParts, Part};
use crate::diag::error::Errors;
use crate::sys::process::{self, Mode};
use crate::toolchain::error::Error;
use crate::toolchain::search::Found;

/// The folders of Debian's LLVM and of ROCm's, which are rarely on PATH.
const FOLDERS: [&str; 2] = ["/usr/lib/llvm-22/bin", "/opt/rocm/llvm/bin"];

/// Finds ld.lld. A path that was named is the path.
///
/// # Errors
/// It is nowhere.
pub fn lld(named: &NamedParts) -> Result<Found, Errors> {
    if let Some(path) = named.get(Part::Lld) {
        return Ok(Found { path: path.to_owned(), how: Part::Lld.option().trim_end_matches('=') });
    }
    find(&["ld.lld", "ld.lld-22"]).ok_or_else(|| Error::NoLld.into())
}

/// Finds the program that takes the flavor of lld as an option.
pub fn other_lld() -> Option<PathBuf> {
    find(&["lld", "lld-22"]).map(|found| found.path)
}

/// Finds llvm-spirv, the translator from bitcode to SPIR-V. A dry run, which does not start it, shows the bare name if it is nowhere.
///
/// # Errors
/// It is nowhere.
pub fn llvm_spirv(mode: Mode) -> Result<PathBuf, Errors> {
    find(&["llvm-spirv", "llvm-spirv-22"])
        .map_or_else(|| missing("llvm-spirv", mode, Error::NoLlvmSpirv), |found| Ok(found.path))
}

/// Finds clang, as [`llvm_spirv`].
///
/// # Errors
/// It is nowhere.
pub fn clang(mode: Mode) -> Result<PathBuf, Errors> {
    find(&["clang", "clang-22"]).map_or_else(|| missing("clang", mode, Error::NoClang), |found| Ok(found.path))
}

fn missing(name: &str, mode: Mode, error: Error) -> Result<PathBuf, Errors> {
    if mode.dry { Ok(name.into()) } else { Err(error.into()) }
}

/// Finds the first of these names. This program may bear the name of a linker itself.
fn find(names: &[&str]) -> Option<Found> {
    let own = process::itself().canonicalize().ok();
    let identity = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    let own_identity = own.as_deref().and_then(identity);
    let accept = |path: &Path| process::is_program(path) && identity(path) != own_identity;
    let beside = own.as_deref().and_then(Path::parent).map(|folder| (folder.to_owned(), "beside fatlink"));
    let first = beside.into_iter().find_map(|(folder, how)| in_folder(&folder, names, how, &accept));
    let on_path = || {
        let path = names.iter().find_map(|name| process::find_program(OsStr::new(name), &accept))?;
        Some(Found { path, how: "PATH" })
    };
    let installed =
        || FOLDERS.iter().find_map(|folder| in_folder(Path::new(folder), names, "usual folder of LLVM", &accept));
    first.or_else(on_path).or_else(installed)
}

fn in_folder(folder: &Path, names: &[&str], how: &'static str, accept: &dyn Fn(&Path) -> bool) -> Option<Found> {
    let path = names.iter().map(|name| folder.join(name)).find(|path| accept(path))?;
    Some(Found { path, how })
}
