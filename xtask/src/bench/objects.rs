//! Sources written and compiled; an object is kept until something that it depends on changes.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use super::sources::Unit;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::step::{Progress, shown};
use crate::toolchain::{LLVM, Toolchain};

/// CUB and Thrust hide their kernels, and clang-linker-wrapper 22 drops hidden kernels in device LTO without a word:
/// both linkers get them visible, as CUB's own macro allows.
const VISIBLE_KERNELS: &str = "-DCCCL_DETAIL_KERNEL_ATTRIBUTES=__global__ __attribute__((visibility(\"default\")))";

/// GPU architectures that objects are compiled for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets {
    /// sm_90.
    One,
    /// sm_80 and sm_90.
    Two,
}

impl Targets {
    /// Their names, as clang takes them.
    pub fn architectures(self) -> &'static [&'static str] {
        match self {
            Targets::One => &["sm_90"],
            Targets::Two => &["sm_80", "sm_90"],
        }
    }

    /// The numbers alone, as nvcc's -gencode takes them.
    pub fn numbers(self) -> impl Iterator<Item = &'static str> {
        self.architectures().iter().map(|name| name.trim_start_matches("sm_"))
    }

    fn folder(self) -> &'static str {
        match self {
            Targets::One => "objects",
            Targets::Two => "objects-two",
        }
    }
}

/// Compiles units into one folder, each at most once.
pub struct Compiler {
    folder: PathBuf,
    include: PathBuf,
    cuda: PathBuf,
    /// What the toolkit's headers are, for the keys.
    toolkit: &'static str,
}

impl Compiler {
    /// Writes below `folder`.
    pub fn new(repository: &Repository, toolchain: &Toolchain, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            include: repository.root.join("benchmarks/include"),
            cuda: toolchain.cuda(),
            toolkit: crate::cuda::PINS,
        }
    }

    /// Where the objects of the units are, in their order, after those that are missing or stale are compiled.
    /// `variant` sets versions of the same units apart.
    pub fn objects(
        &self,
        progress: &Progress,
        units: &[Unit],
        targets: Targets,
        variant: &str,
    ) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(format!("{}{variant}", targets.folder()));
        self.compile_all(progress, units, &folder, |unit, source, object| self.clang(unit, source, object, targets))
    }

    /// The same by nvcc, with its own intermediate code for -dlto.
    pub fn nvcc_objects(
        &self,
        progress: &Progress,
        units: &[Unit],
        targets: Targets,
        variant: &str,
    ) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(format!("{}-nvcc{variant}", targets.folder()));
        self.compile_all(progress, units, &folder, |_, source, object| self.nvcc(source, object, targets))
    }

    fn compile_all(
        &self,
        progress: &Progress,
        units: &[Unit],
        folder: &Path,
        command: impl Fn(&Unit, &Path, &Path) -> Command,
    ) -> Result<Vec<PathBuf>> {
        create_folder(folder)?;
        let object = |unit: &Unit| folder.join(&unit.name).with_extension("o");
        let mut stale = Vec::new();
        for unit in units {
            let (source, object) = (folder.join(&unit.name).with_extension("cu"), object(unit));
            let command = command(unit, &source, &object);
            let key = self.key(unit, &command)?;
            if !object.is_file() || std::fs::read_to_string(key_file(&object)).ok() != Some(key.clone()) {
                write(&source, &unit.source)?;
                stale.push((command, object, key));
            }
        }
        compile(progress, stale)?;
        Ok(units.iter().map(object).collect())
    }

    fn clang(&self, unit: &Unit, source: &Path, object: &Path, targets: Targets) -> Command {
        let mut command = Command::new(Path::new(LLVM).join("bin/clang++"));
        command.args(["-x", "cuda", "-std=c++17", "-O2", "-fgpu-rdc", "-foffload-lto", "-w"]);
        command.args(targets.architectures().iter().map(|architecture| format!("--offload-arch={architecture}")));
        command.arg(format!("--cuda-path={}", self.cuda.display()));
        command.arg(format!("-I{}", self.cuda.join("include/cccl").display()));
        command.arg(format!("-I{}", self.include.display()));
        // By default it is made from the path: the objects would depend on where the working tree lies.
        command.arg(format!("-cuid={}", unit.name)).arg(VISIBLE_KERNELS);
        command.arg("-c").arg(source).arg("-o").arg(object);
        command
    }

    fn nvcc(&self, source: &Path, object: &Path, targets: Targets) -> Command {
        let mut command = Command::new(self.cuda.join("bin/nvcc"));
        command.args(["-std=c++17", "-O2", "-dc", "-w"]);
        command.args(targets.numbers().map(|name| format!("-gencode=arch=compute_{name},code=lto_{name}")));
        command.arg(format!("-I{}", self.cuda.join("include/cccl").display()));
        command.arg(format!("-I{}", self.include.display()));
        command.arg(source).arg("-o").arg(object);
        command
    }

    /// All that an object depends on, as text; where the working tree lies is not part of it.
    fn key(&self, unit: &Unit, command: &Command) -> Result<String> {
        let mut command = shown(command);
        for (path, name) in [(&self.folder, "FOLDER"), (&self.include, "INCLUDE"), (&self.cuda, "CUDA")] {
            command = command.replace(&*path.to_string_lossy(), name);
        }
        let mut text = format!("{command}\n{}\n{}", self.toolkit, unit.source);
        let mut seen = Vec::new();
        self.add_headers(&unit.source, &mut seen, &mut text)?;
        Ok(text)
    }

    fn add_headers(&self, source: &str, seen: &mut Vec<String>, text: &mut String) -> Result<()> {
        for name in source.lines().filter_map(|line| line.strip_prefix("#include \"")?.strip_suffix('"')) {
            if seen.iter().any(|seen| seen == name) {
                continue;
            }
            seen.push(name.to_owned());
            let path = self.include.join(name);
            let header = std::fs::read_to_string(&path).map_err(|error| Failure::file("read", &path, &error))?;
            self.add_headers(&header, seen, text)?;
            *text += &header;
        }
        Ok(())
    }
}

fn key_file(object: &Path) -> PathBuf {
    object.with_extension("key")
}

fn write(path: &Path, text: &str) -> Result<()> {
    std::fs::write(path, text).map_err(|error| Failure::file("write", path, &error))
}

/// As many compilers at once as there are cores.
fn compile(progress: &Progress, stale: Vec<(Command, PathBuf, String)>) -> Result<()> {
    let workers = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(stale.into_iter());
    let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    let work = || -> Result<()> {
        while let Some((mut command, object, key)) = next() {
            progress.run(&mut command)?;
            write(&key_file(&object), &key)?;
        }
        Ok(())
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..workers).map(|_| scope.spawn(work)).collect();
        threads.into_iter().try_for_each(|thread| {
            thread.join().unwrap_or_else(|_| Err(Failure::new("xtask itself failed: see the panic above")))
        })
    })
}
