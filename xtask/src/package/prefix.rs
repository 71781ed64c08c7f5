//! What a package installs into a prefix that other software shares, such as `/usr` or a virtual environment.
//!
//! Names that belong to other software, such as `ld` and `clang-linker-wrapper`, are in `lib/fatlink`; `fatlink-folders.cmake` knows
//! both layouts.

use std::path::{Path, PathBuf};

use crate::failure::{Failure, Result};

/// The programs, which are in `bin`.
const PROGRAMS: [&str; 4] = ["fatlink", "offload-bundle", "fatlink-slurm", "fatlink-reapi"];

/// Other names of fatlink, with what a link there contains.
pub const NAMES: [(&str, &str); 8] = [
    ("bin/ld.fatlink", "fatlink"),
    ("lib/fatlink/bin/clang-linker-wrapper", "../../../bin/fatlink"),
    ("lib/fatlink/bin/ld.fatlink", "../../../bin/fatlink"),
    ("lib/fatlink/gcc/ld", "../../../bin/fatlink"),
    ("lib/fatlink/gcc/ld.bfd", "../../../bin/fatlink"),
    ("lib/fatlink/gcc/ld.gold", "../../../bin/fatlink"),
    ("lib/fatlink/gcc/ld.lld", "../../../bin/fatlink"),
    ("lib/fatlink/gcc/ld.mold", "../../../bin/fatlink"),
];

/// A text in `lib/fatlink`. pip removes a folder of its own only if a file is directly in it.
pub const README: (&str, &str) = ("lib/fatlink/README", include_str!("README-prefix"));

/// A file of dist/ and its place in the prefix.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Placed {
    /// In dist/.
    pub from: PathBuf,
    /// Relative to the prefix.
    pub to: PathBuf,
}

/// The programs.
pub fn programs(dist: &Path) -> Vec<Placed> {
    PROGRAMS.iter().map(|name| Placed { from: dist.join("bin").join(name), to: Path::new("bin").join(name) }).collect()
}

/// The CMake package.
pub fn cmake(dist: &Path) -> Result<Vec<Placed>> {
    all_of(dist, "lib/cmake/fatlink", "lib/cmake/fatlink")
}

/// Man pages and completions, by the folders of most systems.
pub fn pages(dist: &Path) -> Result<Vec<Placed>> {
    let folders = [
        "share/man/man1",
        "share/bash-completion/completions",
        "share/fish/vendor_completions.d",
        "share/zsh/site-functions",
    ];
    Ok(folders.into_iter().map(|folder| all_of(dist, folder, folder)).collect::<Result<Vec<_>>>()?.concat())
}

/// libnvfatbin, apart from NVIDIA's library of the same name.
pub fn library(dist: &Path) -> Vec<Placed> {
    let names = [
        ("lib/libnvfatbin.so.13", "lib/fatlink/lib/libnvfatbin.so.13"),
        ("include/nvFatbin.h", "lib/fatlink/include/nvFatbin.h"),
    ];
    names.into_iter().map(|(from, to)| Placed { from: dist.join(from), to: to.into() }).collect()
}

/// The same to link in, in a package of its own: it is larger than all the rest.
pub fn static_library(dist: &Path) -> Placed {
    let name = "libnvfatbin_static.a";
    Placed { from: dist.join("lib").join(name), to: Path::new("lib/fatlink/lib").join(name) }
}

/// The link beside it that linkers look for.
pub const LIBRARY_LINK: (&str, &str) = ("lib/fatlink/lib/libnvfatbin.so", "libnvfatbin.so.13");

/// The files of a folder.
fn all_of(dist: &Path, folder: &str, to: &str) -> Result<Vec<Placed>> {
    let path = dist.join(folder);
    let entries = std::fs::read_dir(&path).map_err(|error| Failure::file("read", &path, &error))?;
    let mut placed: Vec<Placed> = entries
        .flatten()
        .map(|entry| Placed { from: entry.path(), to: Path::new(to).join(entry.file_name()) })
        .collect();
    placed.sort_by(|one, other| one.to.cmp(&other.to));
    Ok(placed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_the_program() {
        for (place, target) in NAMES {
            let mut folders: Vec<&str> = place.split('/').collect();
            folders.pop();
            for part in target.split('/') {
                if part == ".." {
                    folders.pop();
                } else {
                    folders.push(part);
                }
            }
            assert_eq!(folders.join("/"), "bin/fatlink", "{place}");
        }
    }
}
