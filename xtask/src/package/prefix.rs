//! What a package installs into a prefix that other software shares, such as `/usr` or a virtual environment.
//!
//! Names that belong to other software, such as `ld` and `clang-linker-wrapper`, are in `lib/fatlink`; `fatlink-folders.cmake` knows
//! both layouts.

use std::path::{Path, PathBuf};

use crate::dist;
use crate::failure::Result;
use crate::repository::{files_in, name_of};

/// The other names of fatlink, with what a link there contains.
pub fn names() -> Vec<(String, &'static str)> {
    let aside = dist::LINKS.map(|(place, _)| (format!("lib/fatlink/{place}"), "../../../bin/fatlink"));
    std::iter::once(("bin/ld.fatlink".to_owned(), "fatlink")).chain(aside).collect()
}

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
    [dist::PROGRAMS, dist::DISTRIBUTORS].concat().iter().map(|(_, name)| placed(dist, &format!("bin/{name}"))).collect()
}

/// A file that has the same place in both.
fn placed(dist: &Path, name: &str) -> Placed {
    Placed { from: dist.join(name), to: name.into() }
}

/// The CMake package.
pub fn cmake(dist: &Path) -> Result<Vec<Placed>> {
    all_of(dist, "lib/cmake/fatlink")
}

/// Man pages and completions, by the folders of most systems.
pub fn pages(dist: &Path) -> Result<Vec<Placed>> {
    let folders = [
        "share/man/man1",
        "share/bash-completion/completions",
        "share/fish/vendor_completions.d",
        "share/zsh/site-functions",
    ];
    Ok(folders.into_iter().map(|folder| all_of(dist, folder)).collect::<Result<Vec<_>>>()?.concat())
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
fn all_of(dist: &Path, folder: &str) -> Result<Vec<Placed>> {
    let files = files_in(&dist.join(folder))?;
    Ok(files.iter().map(|path| placed(dist, &format!("{folder}/{}", name_of(path)))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_the_program() {
        for (place, target) in names() {
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
