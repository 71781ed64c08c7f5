//! The loader of a program and the shared libraries that it loads, found as on this system.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};

use crate::error::Error;

/// What programs need besides themselves.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Libraries {
    /// The loader.
    pub loader: PathBuf,
    /// Files by the names under which programs load them, with the loader.
    pub files: BTreeMap<String, PathBuf>,
}

impl Libraries {
    /// Finds what all of these programs need. All of them have one loader.
    ///
    /// # Errors
    /// One of them is no program of this system, or lacks a library.
    pub fn of(programs: &[&Path]) -> Result<Self, Error> {
        let mut all = Libraries::default();
        for program in programs {
            let loader = loader(program)?;
            let cannot = |reason: String| Error::Libraries { file: (*program).to_owned(), reason };
            let listed = Command::new(&loader).arg("--list").arg(program).output();
            let listed = listed.map_err(|error| cannot(error.to_string()))?;
            if !listed.status.success() {
                return Err(cannot(String::from_utf8_lossy(&listed.stderr).trim().to_owned()));
            }
            all.files.extend(libraries(&String::from_utf8_lossy(&listed.stdout)));
            all.files.insert(file_name(&loader), loader.clone());
            all.loader = loader;
        }
        Ok(all)
    }

    /// The name of the loader in [`Libraries::files`].
    pub fn loader_name(&self) -> String {
        file_name(&self.loader)
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// The loader that a program names.
fn loader(program: &Path) -> Result<PathBuf, Error> {
    let content = std::fs::read(program).map_err(|source| Error::Read { file: program.to_owned(), source })?;
    interpreter(&content).ok_or_else(|| Error::NoProgram { file: program.to_owned() })
}

fn interpreter(content: &[u8]) -> Option<PathBuf> {
    let header = elf::FileHeader64::<Endianness>::parse(content).ok()?;
    let endian = header.endian().ok()?;
    let mut segments = header.program_headers(endian, content).ok()?.iter();
    let path = segments.find_map(|segment| segment.interpreter(endian, content).ok().flatten())?;
    Some(PathBuf::from(std::str::from_utf8(path).ok()?))
}

/// The lines `NAME => PATH (ADDRESS)` of the loader's list.
fn libraries(list: &str) -> impl Iterator<Item = (String, PathBuf)> {
    list.lines().filter_map(|line| {
        let (name, rest) = line.trim().split_once(" => ")?;
        let (path, _) = rest.rsplit_once(" (")?;
        // The loader itself is named by its path.
        (!name.contains('/')).then(|| (name.to_owned(), PathBuf::from(path)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_of_a_list() {
        let list = "\tlinux-vdso.so.1 (0x1)\n\tlibc.so.6 => /lib/libc.so.6 (0x2)\n\t/lib64/ld.so => /lib/ld.so (0x3)\n";
        let found: Vec<_> = libraries(list).collect();
        assert_eq!(found, [("libc.so.6".to_owned(), PathBuf::from("/lib/libc.so.6"))]);
    }

    #[test]
    fn this_test_needs_a_loader_and_the_c_library() {
        let own = std::env::current_exe().unwrap();
        let found = Libraries::of(&[&own]).unwrap();
        assert!(found.files.contains_key("libc.so.6") && found.files.contains_key(&found.loader_name()), "{found:?}");
    }

    #[test]
    fn other_files_are_no_programs() {
        for bytes in [&b""[..], b"#!/bin/sh\n", b"\x7fELF"] {
            assert_eq!(interpreter(bytes), None);
        }
    }
}
