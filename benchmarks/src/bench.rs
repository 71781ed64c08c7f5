//! What the cases share: the linkers, the compiler of the corpora, and the folder for everything that is written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::code::{self, Code};
use crate::corpus::Compiler;
use crate::link::{Link, Linkers, Side};
use crate::measure::{self, Memory, Sample};
use xtask::environment::Environment;
use xtask::failure::{Failure, Result};
use xtask::llvm_release::LlvmRelease;
use xtask::repository::{Repository, copy_file, create_folder, files_in, name_of, write_file};
use xtask::step::{Progress, step};
use xtask::toolchain::LLVM;
use xtask::{dist, setup};

/// What the cases share.
pub struct Bench {
    /// Everything that is written lies in it.
    pub folder: PathBuf,
    pub compiler: Compiler,
    pub linkers: Linkers,
    /// Instead of a case's own number.
    pub rounds: Option<usize>,
    /// An object without device code.
    pub host_object: PathBuf,
    /// Runs of the peer by what it linked and how, for cases that need the same.
    pub peer_samples: BTreeMap<String, Vec<Sample>>,
}

/// The folder for everything that is written.
pub fn folder(repository: &Repository) -> PathBuf {
    repository.target.join("bench")
}

impl Bench {
    /// Installs what is missing, and builds fatlink unless `dist` names a folder with its programs.
    pub fn prepare(repository: &Repository, dist: Option<&Path>) -> Result<Self> {
        let toolchain = setup::install(repository)?;
        let dist = match dist {
            Some(dist) => std::path::absolute(dist).map_err(|error| Failure::file("find", dist, &error))?,
            None => dist::build(repository, &toolchain, LlvmRelease::default()).map(|()| repository.dist())?,
        };
        let folder = folder(repository);
        let (host_object, linkers) = step("prepare", |progress| {
            let object = compile_host(&folder, progress)?;
            let environment = Environment::new(repository, &toolchain);
            let linkers = Linkers::new(progress, &object, dist, toolchain.cuda(), environment)?;
            Ok((object, linkers))
        })?;
        Ok(Self {
            linkers,
            compiler: Compiler::new(repository, &toolchain, &folder),
            folder,
            rounds: None,
            host_object,
            peer_samples: BTreeMap::new(),
        })
    }

    /// Links once; the program is at [`Bench::output`].
    pub fn link(&self, side: Side, link: &Link, memory: Memory) -> Result<Sample> {
        measure::run(&mut self.command(side, link)?, &self.log(), memory)
    }

    /// The command of that link.
    pub fn command(&self, side: Side, link: &Link) -> Result<Command> {
        let output = self.output(side);
        // A program of an earlier link must not be taken for this one's.
        remove(&output)?;
        Ok(self.linkers.command(side, link, &output))
    }

    /// The program that a side's last link wrote.
    pub fn output(&self, side: Side) -> PathBuf {
        self.folder.join(format!("program.{}", side.name()))
    }

    /// The output of the last program that was run.
    pub fn log(&self) -> PathBuf {
        self.folder.join("output.log")
    }

    /// How many kernels the last program has, over all architectures.
    pub fn kernels(&self, side: Side) -> Result<usize> {
        Ok(self.code(side)?.values().map(|code| code.kernels().count()).sum())
    }

    /// The machine code of the last program, by architecture.
    pub fn code(&self, side: Side) -> Result<BTreeMap<String, Code>> {
        code::of_program(&self.output(side))
    }

    /// The folder for fatlink's cache.
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// The option that has fatlink use it.
    pub fn cache_option(&self) -> String {
        format!("--offload-cache={}", self.cache().display())
    }

    fn kept_cache(&self, side: Side) -> PathBuf {
        self.folder.join(format!("cache-kept.{}", side.name()))
    }

    pub fn empty_cache(&self) -> Result<()> {
        remove(&self.cache())?;
        create_folder(&self.cache())
    }

    /// Fails if the last link did not use its cache at all.
    pub fn cache_is_used(&self) -> Result<()> {
        if files_in(&self.cache())?.is_empty() {
            return Err(Failure::new("fatlink left nothing in the cache that --offload-cache= named"));
        }
        Ok(())
    }

    /// Keeps the contents of the cache for [`Bench::restore_cache`].
    pub fn keep_cache(&self, side: Side) -> Result<()> {
        remove(&self.kept_cache(side))?;
        copy_folder(&self.cache(), &self.kept_cache(side))
    }

    pub fn restore_cache(&self, side: Side) -> Result<()> {
        remove(&self.cache())?;
        copy_folder(&self.kept_cache(side), &self.cache())
    }
}

fn compile_host(folder: &Path, progress: &Progress) -> Result<PathBuf> {
    create_folder(folder)?;
    let (source, object) = (folder.join("host.c"), folder.join("host.o"));
    write_file(&source, "int main(void) { return 0; }\n")?;
    let mut clang = Command::new(Path::new(LLVM).join("bin/clang"));
    progress.run(clang.arg("-c").arg(&source).arg("-o").arg(&object))?;
    Ok(object)
}

/// Removes a file or a folder, if it exists.
pub fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file("remove", path, &error)),
        _ => Ok(()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    create_folder(to)?;
    for path in files_in(from)? {
        let copy = to.join(name_of(&path));
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            copy_file(&path, &copy)?;
        }
    }
    Ok(())
}
