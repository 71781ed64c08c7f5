//! `cargo xtask env`: the variables that let a shell, or a test, use what was installed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cuda;
use crate::failure::{Failure, Result};
use crate::repository::Repository;
use crate::sarif::SARIF;
use crate::step::quoted;
use crate::sysroot;
use crate::toolchain::{LLVM, Toolchain};

/// Prints lines for `eval`, and nothing else.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = Toolchain::locate(repository)?;
    if !cuda::is_installed(&toolchain) {
        let folder = toolchain.folder().display();
        return Err(Failure::new(format!("CUDA 13.0 is not installed in {folder}: run `cargo xtask setup` first")));
    }
    print!("{}", Environment::new(repository, &toolchain).exports());
    Ok(())
}

/// Variables to set, and search paths to prepend folders to.
pub struct Environment {
    variables: Vec<(&'static str, OsString)>,
    search_paths: Vec<(&'static str, Vec<PathBuf>)>,
}

impl Environment {
    /// The programs of dist/ come before LLVM's of the same name.
    pub fn new(repository: &Repository, toolchain: &Toolchain) -> Self {
        let (cuda, llvm) = (toolchain.cuda(), Path::new(LLVM));
        let programs = vec![repository.dist().join("path"), cuda.join("bin"), llvm.join("bin")];
        // Linked programs find libomptarget and NVIDIA's libraries there at run time.
        let libraries = vec![llvm.join("lib"), cuda.join("lib")];
        Self {
            variables: vec![
                ("CUDA_PATH", cuda.into_os_string()),
                // For tests: programs that run on it.
                ("FATLINK_SYSROOT", sysroot::X86_64.place(toolchain).into_os_string()),
                // And a schema that they check files with.
                ("FATLINK_SARIF", SARIF.place(toolchain).into_os_string()),
            ],
            search_paths: vec![("PATH", programs), ("LD_LIBRARY_PATH", libraries)],
        }
    }

    /// The same with another variable.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: &str) -> Self {
        self.variables.push((name, value.into()));
        self
    }

    /// Sets them for a tool.
    pub fn apply(&self, command: &mut Command) {
        for (name, value) in &self.variables {
            command.env(name, value);
        }
        for (name, folders) in &self.search_paths {
            command.env(name, in_front(folders, std::env::var_os(name)));
        }
    }

    /// The commands that set them in a POSIX shell.
    fn exports(&self) -> String {
        let mut text = String::new();
        for (name, value) in &self.variables {
            text += &format!("export {name}={}\n", quoted(value));
        }
        for (name, folders) in &self.search_paths {
            let folders: Vec<String> = folders.iter().map(|folder| quoted(folder.as_os_str())).collect();
            // An empty entry would stand for the current folder.
            text += &format!("export {name}={}\"${{{name}:+:${name}}}\"\n", folders.join(":"));
        }
        text
    }
}

fn in_front(folders: &[PathBuf], inherited: Option<OsString>) -> OsString {
    let inherited = inherited.filter(|inherited| !inherited.is_empty());
    let mut value = OsString::new();
    for entry in folders.iter().map(|folder| folder.as_os_str()).chain(inherited.as_deref()) {
        if !value.is_empty() {
            value.push(":");
        }
        value.push(entry);
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exports_are_quoted_and_keep_what_was_there() {
        let environment = Environment {
            variables: vec![("CUDA_PATH", "/a dir/cuda".into())],
            search_paths: vec![("PATH", vec!["/a dir/bin".into(), "/llvm/bin".into()])],
        };
        assert_eq!(
            environment.exports(),
            "export CUDA_PATH='/a dir/cuda'\nexport PATH='/a dir/bin':/llvm/bin\"${PATH:+:$PATH}\"\n"
        );
    }

    #[test]
    fn no_empty_entry_comes_into_a_search_path() {
        assert_eq!(in_front(&["/a".into(), "/b".into()], None), "/a:/b");
        assert_eq!(in_front(&["/a".into()], Some(OsString::new())), "/a");
        assert_eq!(in_front(&["/a".into()], Some("/c:/d".into())), "/a:/c:/d");
    }
}
