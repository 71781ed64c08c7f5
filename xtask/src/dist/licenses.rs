//! The licenses of everything that is linked into the programs and libraries of dist/. Nothing of NVIDIA's is.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, write_file};
use crate::step::Progress;

/// The packages whose dependencies are linked in.
const ROOTS: [&str; 6] = [
    "linker-wrapper",
    "offload-bundle",
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
struct Package {
    name: String,
    version: String,
    /// SPDX expression.
    license: String,
    folder: PathBuf,
}

/// Copies all license files into a folder for each component, and lists the components.
pub fn collect(repository: &Repository, progress: &Progress, folder: &Path) -> Result<()> {
    let mut cargo = repository.cargo("metadata");
    cargo.args(["--format-version=1", "--locked", "--filter-platform=x86_64-unknown-linux-gnu"]);
    let metadata = progress.run(&mut cargo)?;
    let start = metadata.find('{').unwrap_or_default();
    let metadata: Value = serde_json::from_str(&metadata[start..])
        .map_err(|error| Failure::new(format!("cannot read the output of cargo metadata: {error}")))?;
    let packages = linked(&metadata).ok_or_else(|| Failure::new("cargo metadata has an unknown form"))?;
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
fn linked(metadata: &Value) -> Option<BTreeSet<Package>> {
    let packages: BTreeMap<&str, &Value> = metadata["packages"]
        .as_array()?
        .iter()
        .filter_map(|package| Some((package["id"].as_str()?, package)))
        .collect();
    let nodes: BTreeMap<&str, &Value> =
        metadata["resolve"]["nodes"].as_array()?.iter().filter_map(|node| Some((node["id"].as_str()?, node))).collect();
    let is_root = |id: &&str| ROOTS.iter().any(|root| packages[id]["name"] == *root);
    let mut waiting: Vec<&str> = packages.keys().copied().filter(is_root).collect();
    let mut seen: BTreeSet<&str> = waiting.iter().copied().collect();
    let mut found = BTreeSet::new();
    while let Some(id) = waiting.pop() {
        let package = packages.get(id)?;
        if !package["source"].is_null() {
            found.insert(of_json(package)?);
        }
        for dependency in nodes.get(id)?["deps"].as_array()? {
            let dependency_id = dependency["pkg"].as_str()?;
            let is_normal = dependency["dep_kinds"].as_array()?.iter().any(|kind| kind["kind"].is_null());
            if is_normal && !is_macro(packages.get(dependency_id)?) && seen.insert(dependency_id) {
                waiting.push(dependency_id);
            }
        }
    }
    Some(found)
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

fn is_macro(package: &Value) -> bool {
    let targets = package["targets"].as_array().into_iter().flatten();
    targets.flat_map(|target| target["kind"].as_array().into_iter().flatten()).any(|kind| kind == "proc-macro")
}

/// Returns how many there were.
fn copy_licenses(from: &Path, to: &Path) -> Result<usize> {
    let entries = std::fs::read_dir(from).map_err(|error| Failure::file("read", from, &error))?;
    let mut copied = 0;
    for path in entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().to_uppercase();
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
    let texts = from.join("licenses");
    let entries = std::fs::read_dir(&texts).map_err(|error| Failure::file("read", &texts, &error))?;
    entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).try_for_each(|path| copy(&path, to))
}

fn copy(file: &Path, folder: &Path) -> Result<()> {
    copy_file(file, &folder.join(file.file_name().unwrap_or_default()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_linked_counts() {
        let package = |name: &str, source: Option<&str>, kind: &str| {
            serde_json::json!({
                "id": name, "name": name, "version": "1.0.0", "license": "MIT", "source": source,
                "manifest_path": format!("/src/{name}/Cargo.toml"), "targets": [{"kind": [kind]}],
            })
        };
        let dependency =
            |name: &str, kind: Option<&str>| serde_json::json!({"pkg": name, "dep_kinds": [{"kind": kind}]});
        let metadata = serde_json::json!({
            "packages": [
                package("linker-wrapper", None, "bin"),
                package("library", None, "lib"),
                package("linked", Some("registry"), "lib"),
                package("macro", Some("registry"), "proc-macro"),
                package("build", Some("registry"), "lib"),
                package("unrelated", Some("registry"), "lib"),
            ],
            "resolve": {"nodes": [
                {"id": "linker-wrapper", "deps": [dependency("library", None), dependency("build", Some("build"))]},
                {"id": "library", "deps": [dependency("linked", None), dependency("macro", None)]},
                {"id": "linked", "deps": []},
            ]},
        });
        let found = linked(&metadata).unwrap();
        assert_eq!(found.iter().map(|package| package.name.as_str()).collect::<Vec<_>>(), ["linked"]);
        assert_eq!(found.first().unwrap().folder, Path::new("/src/linked"));
    }
}
