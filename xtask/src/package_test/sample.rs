//! The CUDA sample in a system that has g++ and no clang: compiled outside against that system's headers, linked inside.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::install::Form;
use crate::chroot::Chroot;
use crate::demo;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder};
use crate::step::{Progress, in_parallel};
use crate::toolchain::{LLVM, Toolchain};

/// CUDA's tools inside.
pub const CUDA: &str = "/opt/cuda";

/// The parts of the toolkit that a link needs.
const TOOLKIT: [&str; 5] =
    ["bin/ptxas", "bin/nvlink", "lib/libcudart_static.a", "lib/libcudadevrt.a", "nvvm/libdevice/libdevice.10.bc"];

/// The sample's objects inside.
const OBJECTS: &str = "/root/sample";

const PROGRAM: &str = "/tmp/plate";

/// Compiles the sample, and copies the tools.
pub fn prepare(repository: &Repository, toolchain: &Toolchain, progress: &Progress, chroot: &Chroot) -> Result<()> {
    for part in TOOLKIT {
        let (from, to) = (toolchain.cuda().join(part), chroot.path(CUDA).join(part));
        create_folder(to.parent().unwrap_or(&to))?;
        copy_file(&from, &to)?;
    }
    create_folder(&chroot.path(OBJECTS))?;
    let compile = |(source, is_cuda): (&str, bool)| {
        let mut clang = Command::new(Path::new(LLVM).join("bin/clang++"));
        clang.arg("--sysroot").arg(chroot.root()).args(["-O2", "-c"]);
        if is_cuda {
            clang.args([
                "-x",
                "cuda",
                "-Wno-unknown-cuda-version",
                "-fgpu-rdc",
                "-foffload-lto",
                "--offload-arch=sm_90",
            ]);
            clang.arg(format!("--cuda-path={}", toolchain.cuda().display()));
        }
        clang.arg(repository.root.join(demo::CUDA.folder).join(source)).arg("-o").arg(chroot.path(&object(source)));
        progress.run(&mut clang).map(drop)
    };
    let (cuda, host) = (demo::CUDA.sources.iter().chain(demo::CUDA.library_sources), demo::CUDA.host_sources.iter());
    let jobs = cuda.map(|source| (*source, true)).chain(host.map(|source| (*source, false)));
    in_parallel(jobs.collect(), compile)
}

/// The object of a source, inside.
fn object(source: &str) -> String {
    let name = Path::new(source).file_stem().unwrap_or_default().to_string_lossy();
    format!("{OBJECTS}/{name}.o")
}

/// Links the sample by gcc with a package's folder, and looks at the program with the package's own tools.
pub fn link_and_explain(progress: &Progress, chroot: &Chroot, form: &Form<'_>) -> Result<()> {
    let all = demo::CUDA.sources.iter().chain(demo::CUDA.host_sources).chain(demo::CUDA.library_sources);
    let mut gcc = chroot.command("g++");
    gcc.env("CUDA_PATH", CUDA).arg("-B").arg(form.gcc).args(all.map(|source| object(source)));
    gcc.args([&format!("-L{CUDA}/lib"), "-lcudart_static", "-ldl", "-lrt", "-lpthread", "-o", PROGRAM]);
    progress.run(&mut gcc)?;
    let program = |name: &str| -> PathBuf { Path::new(form.programs).join(name) };
    expect(
        progress,
        chroot.command(program("offload-bundle")).args(["explain", "--brief", "--gpu=sm_90", PROGRAM]),
        "sass 90",
    )?;
    // The name is the one that it was started by, also through a launcher.
    for (folder, name) in [(form.programs, "fatlink"), (form.clang, "clang-linker-wrapper")] {
        let mut command = chroot.command(Path::new(folder).join(name));
        expect(progress, command.arg("--version"), &format!("{name} version"))?;
    }
    for distributor in ["fatlink-slurm", "fatlink-reapi"] {
        expect(progress, chroot.command(program(distributor)).arg("--version"), distributor)?;
    }
    if let Some(python) = form.python {
        let text = format!("import fatlink; print(fatlink.explain('{PROGRAM}', 'sm_90')[0].outcomes[0].outcome)");
        expect(progress, chroot.command(python).args(["-c", &text]), "sass 90")?;
    }
    start(progress, chroot)?;
    let program = chroot.path(PROGRAM);
    std::fs::remove_file(&program).map_err(|error| Failure::file("remove", &program, &error))
}

/// The program reaches the CUDA runtime; a system in a folder has no driver.
fn start(progress: &Progress, chroot: &Chroot) -> Result<()> {
    let (status, output) = progress.status(&mut chroot.command(PROGRAM))?;
    match status.code() {
        Some(0 | demo::EXIT_NO_GPU) => Ok(()),
        _ => Err(Failure { message: format!("the program ended with {status}"), output }),
    }
}

fn expect(progress: &Progress, command: &mut Command, text: &str) -> Result<()> {
    let output = progress.run(command)?;
    match output.contains(text) {
        true => Ok(()),
        false => Err(Failure { message: format!("`{}` does not print {text}", crate::step::shown(command)), output }),
    }
}
