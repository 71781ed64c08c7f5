//! `--print-toolchain`: every part that a link can use, where it is, what named it, and what a missing part is needed for.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::cli::values::{PARTS, Part};
use crate::diag::error::Errors;
use crate::toolchain::libraries::CudaDriver;
use crate::toolchain::{Found, Toolchain, search, versions};

/// The table, one line for each part; `host_linker` is its path and what named it.
pub fn table(toolchain: &Toolchain, host_linker: Result<(PathBuf, &'static str), Errors>) -> String {
    let mut text = String::new();
    for part in PARTS {
        match toolchain.part(part) {
            Ok(found) => {
                let version = version(part, &found).unwrap_or_else(|| "-".to_owned());
                line(&mut text, part.name(), &version, &found.path, found.how);
            }
            Err(_) => missing(&mut text, part, toolchain),
        }
    }
    match host_linker {
        Ok((path, source)) => line(&mut text, "host linker", "-", &path, source),
        Err(errors) => {
            let _ = writeln!(text, "host linker   missing    every link but --emit-fatbin-only needs it; {errors}");
        }
    }
    others(&mut text, toolchain);
    text
}

fn line(text: &mut String, name: &str, version: &str, path: &Path, how: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(text, "{name:13} {version:10} {} ({how})", path.display());
}

fn missing(text: &mut String, part: Part, toolchain: &Toolchain) {
    let place = match &toolchain.tree {
        Ok(tree) if !matches!(part, Part::Driver | Part::Lld) => {
            format!("not in {} ({})", tree.root.display(), tree.how)
        }
        _ => "not found".to_owned(),
    };
    let (name, purpose, option) = (part.name(), part.purpose(), part.option());
    let _ = writeln!(text, "{name:13} missing    {place}: {purpose}; name it with {option}<file>");
}

/// Lists toolkits that were found and not used.
fn others(text: &mut String, toolchain: &Toolchain) {
    let used = toolchain.tree.as_ref().ok().and_then(|tree| tree.root.canonicalize().ok());
    let trees = search::installations().into_iter().chain(search::python_trees(&toolchain.environment));
    for tree in trees.filter(|tree| tree.root.canonicalize().ok() != used) {
        let version = versions::of_tree(&tree.root).unwrap_or_else(|| "-".to_owned());
        line(text, "not used", &version, &tree.root, tree.how);
    }
}

/// Reads the version from the file, or from the toolkit around it.
fn version(part: Part, found: &Found) -> Option<String> {
    match part {
        Part::Ptxas | Part::Nvlink => versions::of_program(&found.path),
        Part::NvJitLink => versions::of_nvjitlink(&found.path).map(|release| release.to_string()),
        // nvvm/libdevice/libdevice.10.bc, lib/libcudadevrt.a
        Part::Libdevice | Part::Cudadevrt => found.path.ancestors().skip(2).take(4).find_map(versions::of_tree),
        Part::Lld => None,
        Part::Driver => {
            let cuda = CudaDriver::open(&found.path).ok().and_then(|driver| driver.release());
            match (versions::of_driver(&found.path), cuda) {
                (Some(own), Some(cuda)) => Some(format!("{own}, CUDA {cuda}")),
                (own, cuda) => own.or_else(|| cuda.map(|cuda| format!("CUDA {cuda}"))),
            }
        }
    }
}
