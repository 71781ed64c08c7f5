//! The licenses of everything that is linked into the programs and libraries of dist/. Nothing of NVIDIA's is.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, files_in, name_of, write_file};
use crate::step::Progress;

/// The packages whose dependencies are linked in.
const ROOTS: [&str; 7] = [
    "linker-wrapper",
    "offload-bundle",
    "fatlink-capi",
    "offload-bundle-capi",
    "offload-bundle-python",
    "distributor",
    "distributor-reapi",
];

/// Libraries that are linked in statically and are no crates, with the files that state their licenses.
const SYSTEM: [(&str, &str); 6] = [
    ("llvm", "/usr/share/doc/llvm-22-dev/copyright"),
    ("zlib", "/usr/share/doc/zlib1g-dev/copyright"),
    ("gcc-runtime", "/usr/share/doc/gcc-12-base/copyright"),
    ("gcc-runtime", "/usr/share/common-licenses/GPL-3"),
    ("glibc", "/usr/share/doc/libc6-dev/copyright"),
    ("glibc", "/usr/share/common-licenses/LGPL-2.1"),
];

/// How names of license files begin.
const STARTS: [&str; 6] = ["LICENSE", "LICENCE", "COPYING", "COPYRIGHT", "NOTICE", "UNLICENSE"];

/// A crate that is linked in.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Package {
    pub name: String,
    pub version: String,
    /// SPDX expression.
    pub license: String,
    folder: PathBuf,
}

/// Copies all license files into a folder for each component, and lists the components.
pub fn collect(repository: &Repository, progress: &Progress, folder: &Path) -> Result<()> {
    let packages = linked(repository, progress)?;
    let mut list =
        String::from("Everything that is linked into the programs and libraries, besides fatlink itself:\n\n");
    for package in &packages {
        let place = folder.join("crates").join(format!("{}-{}", package.name, package.version));
        let copied = copy_licenses(&package.folder, &place)?;
        let without = if copied == 0 { ", without a license file in its package" } else { "" };
        let _ = writeln!(list, "- crate {} {}: {}{without}", package.name, package.version, package.license);
    }
    for (component, file) in SYSTEM {
        copy(Path::new(file), &folder.join(component))?;
    }
    copy_licenses_of_rust(progress, &folder.join("rust"))?;
    list += "- LLVM 22, zlib, the runtime libraries of gcc (libstdc++, libgcc), start files of glibc, Rust's standard library: \
             see the folders\n";
    write_file(&folder.join("README.md"), list)
}

/// The crates of other projects that the roots link in; procedural macros and build dependencies are not linked.
pub(super) fn linked(repository: &Repository, progress: &Progress) -> Result<BTreeSet<Package>> {
    const PLATFORM: &str = "x86_64-unknown-linux-gnu";
    let mut cargo = repository.cargo("tree");
    cargo.args(["--quiet", "--locked", "--target", PLATFORM, "--edges=normal,no-proc-macro", "--prefix=none"]);
    cargo.args(ROOTS.map(|root| format!("--package={root}")));
    let tree = progress.run(&mut cargo)?;
    let mut cargo = repository.cargo("metadata");
    cargo.args(["--quiet", "--locked", "--format-version=1", "--filter-platform", PLATFORM]);
    let metadata = progress.run(&mut cargo)?;
    of_metadata(&metadata, &tree).ok_or_else(|| Failure::new("cargo metadata has an unknown form"))
}

/// The packages of other projects that the tree names, each in a line that begins with `name v1.2.3`.
fn of_metadata(metadata: &str, tree: &str) -> Option<BTreeSet<Package>> {
    let named = |line| str::split_whitespace(line).take(2).collect::<Vec<_>>().join(" ");
    let named: BTreeSet<String> = tree.lines().map(named).collect();
    let metadata: Value = serde_json::from_str(metadata).ok()?;
    let others = metadata["packages"].as_array()?.iter().filter(|package| !package["source"].is_null());
    let packages = others.map(of_json).collect::<Option<Vec<_>>>()?;
    Some(packages.into_iter().filter(|one| named.contains(&format!("{} v{}", one.name, one.version))).collect())
}

fn of_json(package: &Value) -> Option<Package> {
    let text = |key: &str| Some(package[key].as_str()?.to_owned());
    Some(Package {
        name: text("name")?,
        version: text("version")?,
        license: text("license").unwrap_or_else(|| "see its license file".to_owned()),
        folder: Path::new(package["manifest_path"].as_str()?).parent()?.to_owned(),
    })
}

/// Returns how many there were.
fn copy_licenses(from: &Path, to: &Path) -> Result<usize> {
    let mut copied = 0;
    for path in files_in(from)?.into_iter().filter(|path| path.is_file()) {
        let name = name_of(&path).to_uppercase();
        if STARTS.iter().any(|start| name.starts_with(start)) {
            copy(&path, to)?;
            copied += 1;
        }
    }
    Ok(copied)
}

/// The standard library's, which comes with the compiler.
fn copy_licenses_of_rust(progress: &Progress, to: &Path) -> Result<()> {
    let sysroot = progress.run(Command::new("rustc").args(["--print", "sysroot"]))?;
    let from = Path::new(sysroot.trim()).join("share/doc/rust");
    copy(&from.join("COPYRIGHT-library.html"), to)?;
    files_in(&from.join("licenses"))?.iter().filter(|path| path.is_file()).try_for_each(|path| copy(path, to))
}

fn copy(file: &Path, folder: &Path) -> Result<()> {
    copy_file(file, &folder.join(file.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_crates_of_others_that_are_linked_count() {
        let package = |name: &str, source: Option<&str>| {
            let manifest = format!("/src/{name}/Cargo.toml");
            serde_json::json!({"name": name, "version": "1.0.0", "license": "MIT", "source": source, "manifest_path": manifest})
        };
        let packages = [package("own", None), package("linked", Some("r")), package("macro", Some("r"))];
        let tree = "own v1.0.0 (/src/own)\nlinked v1.0.0\nlinked v1.0.0 (*)\n\nlinked v2.0.0\n";
        let found = of_metadata(&serde_json::json!({ "packages": packages }).to_string(), tree).unwrap();
        assert_eq!(found.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["linked"]);
        assert_eq!(found.first().unwrap().folder, Path::new("/src/linked"));
    }
}
