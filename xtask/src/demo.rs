//! `cargo xtask demo`: fatlink at work, from a bare machine to programs on the GPU and on an OpenMP device.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::step::{Progress, in_parallel, shown, step};
use crate::toolchain::{LLVM, Toolchain};
use crate::{dist, setup};

struct Step {
    title: &'static str,
    sample: &'static Sample,
    /// Returns the text to print below the step's line.
    work: fn(&Demo, &Sample, &Progress) -> Result<String>,
}

/// After the set-up and the build, which have their own lines.
const STEPS: [Step; 9] = [
    Step { title: "compile samples/cuda with clang", sample: &CUDA, work: compile },
    Step { title: "put its library's objects into libfields.a", sample: &CUDA, work: archive },
    Step { title: "link with clang and fatlink", sample: &CUDA, work: link },
    Step { title: "list the device code inside", sample: &CUDA, work: list },
    Step { title: "run the program", sample: &CUDA, work: execute },
    Step { title: "compile samples/openmp with clang", sample: &OPENMP, work: compile },
    Step { title: "put its library's objects into libforces.a", sample: &OPENMP, work: archive },
    Step { title: "link with clang and fatlink", sample: &OPENMP, work: link },
    Step { title: "run the program, offload mandatory", sample: &OPENMP, work: execute },
];

/// A sample of the working tree.
pub struct Sample {
    /// Relative to the root.
    pub folder: &'static str,
    device: Device,
    /// With device code.
    pub sources: &'static [&'static str],
    /// Without device code.
    pub host_sources: &'static [&'static str],
    library: &'static str,
    /// With device code, in the library.
    pub library_sources: &'static [&'static str],
    program: &'static str,
}

#[derive(PartialEq)]
enum Device {
    Cuda,
    OpenMp,
}

/// The sample for GPUs of NVIDIA.
pub const CUDA: Sample = Sample {
    folder: "samples/cuda",
    device: Device::Cuda,
    sources: &["main.cu", "diffuse.cu", "particles.cu", "forces.cu"],
    host_sources: &["reference.cpp"],
    library: "libfields.a",
    library_sources: &["fields/screened.cu", "fields/drag.cu", "fields/kick.cu", "fields/magnetic.cu"],
    program: "plate",
};

const OPENMP: Sample = Sample {
    folder: "samples/openmp",
    device: Device::OpenMp,
    sources: &["main.cpp", "motion.cpp", "energy.cpp"],
    host_sources: &["reference.cpp"],
    library: "libforces.a",
    library_sources: &["forces/spring.cpp", "forces/drag.cpp"],
    program: "chain",
};

/// The host processor is the device, so that the target regions run on every machine.
const OPENMP_OPTIONS: [&str; 2] = ["-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"];

/// Exit code of the CUDA sample on a machine without a GPU.
pub const EXIT_NO_GPU: i32 = 77;

/// Its paths are relative to the working tree where they lie in it: the commands shown can be typed there.
struct Demo {
    root: PathBuf,
    /// Objects and programs, a folder for each sample.
    folder: PathBuf,
    dist: PathBuf,
    cuda: PathBuf,
    architectures: Vec<String>,
}

/// Stops at the first step that fails.
pub fn run(repository: &Repository) -> Result<()> {
    let (repository, toolchain) = (repository.for_demo(), setup::install_to_link(repository)?);
    dist::build_local_linker(&repository, &toolchain)?;
    let demo = Demo::new(&repository, &toolchain);
    for Step { title, sample, work } in STEPS {
        let below = step(title, |progress| work(&demo, sample, progress))?;
        below.lines().for_each(|line| println!("      {line}"));
    }
    Ok(())
}

impl Demo {
    fn new(repository: &Repository, toolchain: &Toolchain) -> Self {
        let relative = |path: PathBuf| path.strip_prefix(&repository.root).map_or(path.clone(), Path::to_owned);
        Self {
            root: repository.root.clone(),
            folder: relative(repository.target.join("demo")),
            dist: relative(repository.dist()),
            cuda: relative(toolchain.cuda()),
            architectures: architectures(),
        }
    }

    fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.root);
        command
    }

    /// The path of an output file of a sample.
    fn output(&self, sample: &Sample, name: &str) -> PathBuf {
        self.folder.join(Path::new(sample.folder).file_name().unwrap_or_default()).join(name)
    }

    /// The path of a source's object.
    fn object(&self, sample: &Sample, source: &str) -> PathBuf {
        let name = Path::new(source).file_name().unwrap_or_default().to_string_lossy();
        self.output(sample, &name).with_extension("o")
    }

    fn library(&self, sample: &Sample) -> PathBuf {
        self.output(sample, sample.library)
    }

    fn program(&self, sample: &Sample) -> PathBuf {
        self.output(sample, sample.program)
    }
}

/// Two common architectures, and that of this machine's GPU.
fn architectures() -> Vec<String> {
    let mut architectures = vec!["sm_80".to_owned(), "sm_90".to_owned()];
    // It fails where there is no GPU, which is no error here.
    if let Ok(output) = Command::new(Path::new(LLVM).join("bin/nvptx-arch")).output() {
        let found = String::from_utf8_lossy(&output.stdout);
        architectures.extend(found.lines().filter(|line| line.starts_with("sm_")).map(str::to_owned));
    }
    architectures.sort();
    architectures.dedup();
    architectures
}

fn compile(demo: &Demo, sample: &Sample, progress: &Progress) -> Result<String> {
    create_folder(&demo.root.join(demo.output(sample, "")))?;
    let sources = sample.sources.iter().chain(sample.host_sources).chain(sample.library_sources);
    in_parallel(sources.collect(), |source| progress.run(&mut compile_one(demo, sample, source)).map(drop))?;
    Ok(shown(&compile_one(demo, sample, sample.sources[0])))
}

fn compile_one(demo: &Demo, sample: &Sample, source: &str) -> Command {
    let mut command = demo.command("clang++-22");
    match sample.device {
        _ if sample.host_sources.contains(&source) => {}
        Device::Cuda => {
            command.args(["-x", "cuda", "-Wno-unknown-cuda-version", "-fgpu-rdc", "-foffload-lto"]);
            command.arg(format!("--cuda-path={}", demo.cuda.display()));
            command.args(demo.architectures.iter().map(|architecture| format!("--offload-arch={architecture}")));
        }
        Device::OpenMp => {
            command.args(OPENMP_OPTIONS);
        }
    }
    command.args(["-O2", "-c"]).arg(Path::new(sample.folder).join(source));
    command.arg("-o").arg(demo.object(sample, source));
    command
}

fn archive(demo: &Demo, sample: &Sample, progress: &Progress) -> Result<String> {
    // llvm-ar would add members to an existing archive.
    remove_file(&demo.root.join(demo.library(sample)))?;
    let mut command = demo.command(Path::new(LLVM).join("bin/llvm-ar"));
    command.arg("rcs").arg(demo.library(sample));
    command.args(sample.library_sources.iter().map(|source| demo.object(sample, source)));
    progress.run(&mut command).map(|_| String::new())
}

fn link(demo: &Demo, sample: &Sample, progress: &Progress) -> Result<String> {
    // A program of an earlier demo must not be taken for this one's.
    let program = demo.root.join(demo.program(sample));
    remove_file(&program)?;
    let mut command = demo.command("clang++-22");
    command.arg("-B").arg(demo.dist.join("bin"));
    match sample.device {
        Device::Cuda => command.arg("--offload-link").arg(format!("--cuda-path={}", demo.cuda.display())),
        Device::OpenMp => command.args(OPENMP_OPTIONS),
    };
    command.args(sample.sources.iter().chain(sample.host_sources).map(|source| demo.object(sample, source)));
    command.arg(demo.library(sample));
    if sample.device == Device::Cuda {
        command.arg(format!("-L{}", demo.cuda.join("lib").display()));
        command.args(["-lcudart_static", "-ldl", "-lrt", "-lpthread"]);
    }
    command.arg("-o").arg(demo.program(sample));
    progress.run(&mut command)?;
    match program.is_file() {
        true => Ok(shown(&command)),
        false => Err(Failure::new(format!("`{}` succeeded without writing its output", shown(&command)))),
    }
}

fn list(demo: &Demo, sample: &Sample, progress: &Progress) -> Result<String> {
    let mut command = demo.command(demo.root.join(&demo.cuda).join("bin/cuobjdump"));
    let output = progress.run(command.arg("--list-elf").arg(demo.program(sample)))?;
    match demo.architectures.iter().find(|architecture| !output.contains(architecture.as_str())) {
        None => Ok(output),
        Some(missing) => Err(Failure {
            message: format!("the program has no code for {missing}, which it was compiled for"),
            output,
        }),
    }
}

fn execute(demo: &Demo, sample: &Sample, progress: &Progress) -> Result<String> {
    let program = demo.program(sample);
    let mut command = demo.command(demo.root.join(&program));
    if sample.device == Device::OpenMp {
        // Without an image for the device, the regions would quietly run on the host instead.
        command.env("OMP_TARGET_OFFLOAD", "MANDATORY").env("LD_LIBRARY_PATH", Path::new(LLVM).join("lib"));
    }
    let (status, output) = progress.status(&mut command)?;
    if sample.device == Device::Cuda && status.code() == Some(EXIT_NO_GPU) {
        return Ok(format!("{output}linked, but not run here: {} runs where there is a GPU", program.display()));
    }
    if status.success() && output.lines().last() == Some("PASS") {
        return Ok(output);
    }
    Err(Failure { message: format!("{} ended with {status}, not with PASS", program.display()), output })
}

fn remove_file(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file("remove", path, &error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_source_of_the_samples_is_compiled() {
        for sample in [CUDA, OPENMP] {
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(sample.folder);
            let all: Vec<_> = [sample.sources, sample.host_sources, sample.library_sources].concat();
            for source in &all {
                assert!(folder.join(source).is_file(), "{source} is gone");
            }
            let library = folder.join(sample.library_sources[0]);
            assert_eq!(count(&folder) + count(library.parent().unwrap()), all.len(), "{}", sample.folder);
        }
    }

    /// Sources in a folder.
    fn count(folder: &Path) -> usize {
        let entries = std::fs::read_dir(folder).unwrap();
        let is_source = |path: &Path| path.extension().is_some_and(|end| end == "cu" || end == "cpp");
        entries.filter(|entry| is_source(&entry.as_ref().unwrap().path())).count()
    }
}
