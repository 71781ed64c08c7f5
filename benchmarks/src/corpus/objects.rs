//! Compiles the units; an object is kept until something that it depends on changes.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::sources::Unit;
use xtask::failure::Result;
use xtask::repository::{Repository, create_folder, read_text, write_file};
use xtask::step::{Progress, in_parallel, shown};
use xtask::toolchain::{LLVM, Toolchain};

/// Makes the kernels of CUB and Thrust visible, by CUB's own macro: they are hidden by default, and clang-linker-wrapper 22
/// silently drops hidden kernels in device LTO.
const VISIBLE_KERNELS: &str = "-DCCCL_DETAIL_KERNEL_ATTRIBUTES=__global__ __attribute__((visibility(\"default\")))";

/// AMD's device libraries: Debian's rocm-device-libs.
const DEVICE_LIBRARIES: &str = "/usr/lib/x86_64-linux-gnu/amdgcn/bitcode";

/// GPU architectures that objects are compiled for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Targets {
    /// sm_90.
    One,
    /// sm_80 and sm_90.
    Two,
    /// gfx90a, by HIP.
    Amd,
}

impl Targets {
    /// Their names, as clang takes them.
    pub fn architectures(self) -> &'static [&'static str] {
        match self {
            Targets::One => &["sm_90"],
            Targets::Two => &["sm_80", "sm_90"],
            Targets::Amd => &["gfx90a"],
        }
    }

    fn folder(self) -> &'static str {
        match self {
            Targets::One => "objects",
            Targets::Two => "objects-two",
            Targets::Amd => "objects-hip",
        }
    }
}

/// Compiles units into one folder, each at most once.
pub struct Compiler {
    folder: PathBuf,
    include: PathBuf,
    cuda: PathBuf,
    /// The versions of the toolkit's headers, for the keys.
    toolkit: &'static str,
}

impl Compiler {
    /// Writes below `folder`.
    pub fn new(repository: &Repository, toolchain: &Toolchain, folder: &Path) -> Self {
        Self {
            folder: folder.to_owned(),
            include: repository.root.join("benchmarks/include"),
            cuda: toolchain.cuda(),
            toolkit: xtask::cuda::PINS,
        }
    }

    /// Compiles units for sm_90.
    pub fn for_one(&self, progress: &Progress, units: &[Unit]) -> Result<Vec<PathBuf>> {
        self.objects(progress, units, Targets::One, "")
    }

    /// Compiles the units whose objects are missing or stale, and returns the paths of all objects in the order of the units.
    /// `variant` is a suffix of their folder, which tells versions of the same units apart.
    pub fn objects(
        &self,
        progress: &Progress,
        units: &[Unit],
        targets: Targets,
        variant: &str,
    ) -> Result<Vec<PathBuf>> {
        let folder = self.folder.join(format!("{}{variant}", targets.folder()));
        create_folder(&folder)?;
        let object = |unit: &Unit| folder.join(&unit.name).with_extension("o");
        let mut stale = Vec::new();
        for unit in units {
            let (source, object) = (folder.join(&unit.name).with_extension("cu"), object(unit));
            let command = self.clang(unit, &source, &object, targets);
            let key = self.key(unit, &command)?;
            if !object.is_file() || std::fs::read_to_string(key_file(&object)).ok() != Some(key.clone()) {
                write_file(&source, &unit.source)?;
                stale.push((command, object, key));
            }
        }
        in_parallel(stale, |(mut command, object, key)| {
            progress.run(&mut command)?;
            write_file(&key_file(&object), &key)
        })?;
        Ok(units.iter().map(object).collect())
    }

    fn clang(&self, unit: &Unit, source: &Path, object: &Path, targets: Targets) -> Command {
        let mut command = Command::new(Path::new(LLVM).join("bin/clang++"));
        if targets == Targets::Amd {
            command.args(["-x", "hip", "-fgpu-rdc", "--offload-new-driver", "-nogpuinc"]);
            // Debian's libraries are of that version.
            command.arg(format!("--rocm-device-lib-path={DEVICE_LIBRARIES}")).arg("-mcode-object-version=5");
        } else {
            command.args(["-x", "cuda", "-fgpu-rdc", "-foffload-lto", VISIBLE_KERNELS]);
            command.arg(format!("--cuda-path={}", self.cuda.display()));
            command.arg(format!("-I{}", self.cuda.join("include/cccl").display()));
        }
        command.args(["-std=c++17", "-O2", "-w"]).arg(format!("-I{}", self.include.display()));
        command.args(targets.architectures().iter().map(|architecture| format!("--offload-arch={architecture}")));
        // By default clang derives it from the path, and the objects would depend on the location of the working tree.
        command.arg(format!("-cuid={}", unit.name)).arg("-c").arg(source).arg("-o").arg(object);
        command
    }

    /// Everything that an object depends on, as text; the location of the working tree is no part of it.
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
            let header = read_text(&path)?;
            self.add_headers(&header, seen, text)?;
            *text += &header;
        }
        Ok(())
    }
}

fn key_file(object: &Path) -> PathBuf {
    object.with_extension("key")
}
