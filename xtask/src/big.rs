//! `cargo xtask test --big`: links programs with a fatbin of gigabytes. The default run leaves it out, because it needs 6 GB of
//! disk and a minute.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder, write_file};
use crate::step::{Progress, step};
use crate::toolchain::{LLVM, Toolchain};
use crate::{dist, setup};

/// More than 32-bit relocations reach.
const IMAGE_BYTES: u64 = 2_300_000_000;
/// The registration object and the program hold one image each; GNU ld needs space beside them.
const DISK_BYTES: u64 = 6_000_000_000;
/// Memory that a link may allocate: less than half of the image.
const MEMORY_BYTES: u64 = 1 << 30;

const PTX: &str = "\
.version 8.0
.target sm_90
.address_size 64
.visible .entry kernel() { ret; }
";

/// An ordinary CUDA object, without relocatable device code; it has a section .nv_fatbin, too.
const ORDINARY: &str = "\
#include <cuda_runtime.h>
__global__ void ordinary(int *out) { *out = 1; }
void launch(int *out) { ordinary<<<1, 1>>>(out); }
";

/// Code, constants, data and zeroed data that reference each other, and a call of the CUDA runtime.
const MAIN: &str = "\
#include <cstdio>
#include <cuda_runtime.h>
static int zeros[1000];
int data = 5;
const char *const words[] = {\"none\", \"started\"};
int main(int count, char **) {
  int devices = 0;
  cudaGetDeviceCount(&devices);
  std::puts(words[data + zeros[count] == 5]);
}
";

/// The expected output of the program.
const STARTED: &str = "started\n";

/// Linkers, each with its diagnostic for a relocation that is out of range.
const LINKERS: [(&str, &str); 2] = [("lld", "out of range"), ("bfd", "relocation truncated to fit")];

struct Big {
    folder: PathBuf,
    dist: PathBuf,
    cuda: PathBuf,
    environment: Environment,
}

/// Stops at the first step that fails; always removes its files.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    let big = Big::new(repository, &toolchain)?;
    dist::build(repository, &toolchain)?;
    step("a padded cubin, an ordinary CUDA object, a program", |progress| big.make_inputs(progress).map(|()| ""))?;
    step("the image is not copied in memory", |progress| big.bundle_in_little_memory(progress).map(|()| ""))?;
    let mut passed = 1;
    for (linker, overflow) in LINKERS {
        step(&format!("{linker}, default section: a relocation overflow"), |progress| {
            big.overflows(progress, linker, overflow).map(|()| "")
        })?;
        for inputs in [&["main.o"][..], &["ordinary.o", "main.o"], &["-static", "main.o"]] {
            let title = format!("{linker}, large section, {}: the program starts", inputs.join(" "));
            step(&title, |progress| big.starts(progress, linker, inputs).map(|()| ""))?;
        }
        passed += 4;
    }
    println!("{passed} passed, 0 failed, 0 skipped");
    Ok(())
}

impl Drop for Big {
    fn drop(&mut self) {
        // What cannot be removed now is removed by the next run.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Big {
    fn new(repository: &Repository, toolchain: &Toolchain) -> Result<Self> {
        let folder = repository.target.join("big");
        // A run that was killed leaves its files.
        let _ = std::fs::remove_dir_all(&folder);
        create_folder(&folder.join("tmp"))?;
        let big = Big {
            folder,
            dist: repository.dist(),
            cuda: toolchain.cuda(),
            environment: Environment::new(repository, toolchain),
        };
        let free = free_bytes(&big.folder)?;
        if free < DISK_BYTES {
            return Err(Failure::new(format!(
                "{} has {:.1} GB free, and this test needs {:.0}: let CARGO_TARGET_DIR name a folder on a larger disk",
                big.folder.display(),
                free as f64 / 1e9,
                DISK_BYTES as f64 / 1e9
            )));
        }
        Ok(big)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        self.environment.apply(&mut command);
        // fatlink's temporary files are as large as the image.
        command.current_dir(&self.folder).env("TMPDIR", self.folder.join("tmp"));
        command
    }

    fn make_inputs(&self, progress: &Progress) -> Result<()> {
        for (name, text) in [("kernel.ptx", PTX), ("ordinary.cu", ORDINARY), ("main.cpp", MAIN)] {
            let path = self.folder.join(name);
            write_file(&path, text)?;
        }
        let mut ptxas = self.command(self.cuda.join("bin/ptxas"));
        progress.run(ptxas.args(["-arch=sm_90", "kernel.ptx", "-o", "big.cubin"]))?;
        let cubin = self.folder.join("big.cubin");
        // The padding is a hole: the file stays small on disk.
        let padded = File::options().write(true).open(&cubin).and_then(|file| file.set_len(IMAGE_BYTES));
        padded.map_err(|error| Failure::file("pad", &cubin, &error))?;
        let mut clang = self.command(Path::new(LLVM).join("bin/clang++"));
        clang.args(["-x", "cuda", "-Wno-unknown-cuda-version", "--offload-arch=sm_90", "-c", "ordinary.cu"]);
        progress.run(clang.arg(format!("--cuda-path={}", self.cuda.display())))?;
        let mut clang = self.command(Path::new(LLVM).join("bin/clang++"));
        progress.run(clang.args(["-O1", "-c", "main.cpp", "-I"]).arg(self.cuda.join("include"))).map(drop)
    }

    fn bundle_in_little_memory(&self, progress: &Progress) -> Result<()> {
        let mut bundle = self.command("prlimit");
        bundle.arg(format!("--data={MEMORY_BYTES}")).arg(self.dist.join("bin/fatlink"));
        progress.run(bundle.args(["--emit-fatbin-only", "--override-image=cuda=big.cubin", "-o", "big.fatbin"]))?;
        let path = self.folder.join("big.fatbin");
        let size = path.metadata().map_err(|error| Failure::file("find", &path, &error))?.len();
        std::fs::remove_file(&path).map_err(|error| Failure::file("remove", &path, &error))?;
        if size < IMAGE_BYTES { Err(Failure::new(format!("the fatbin has only {size} bytes"))) } else { Ok(()) }
    }

    fn link(&self, linker: &str, section: &str, inputs: &[&str]) -> Command {
        let mut clang = self.command(Path::new(LLVM).join("bin/clang++"));
        clang.arg("-B").arg(self.dist.join("bin")).args(["--offload-link", "-Wl,--override-image=cuda=big.cubin"]);
        clang.arg(format!("-fuse-ld={linker}")).arg(format!("-Wl,--offload-fatbin-section={section}"));
        clang.args(inputs).arg("-L").arg(self.cuda.join("lib"));
        clang.args(["-lcudart_static", "-ldl", "-lrt", "-lpthread", "-o", "program"]);
        clang
    }

    fn overflows(&self, progress: &Progress, linker: &str, overflow: &str) -> Result<()> {
        let (status, output) = progress.status(&mut self.link(linker, "default", &["main.o"]))?;
        if status.success() || !output.contains(overflow) {
            let message = format!("the link should have failed with '{overflow}', and ended with {status}");
            return Err(Failure { message, output });
        }
        Ok(())
    }

    fn starts(&self, progress: &Progress, linker: &str, inputs: &[&str]) -> Result<()> {
        progress.run(&mut self.link(linker, "large", inputs))?;
        let output = progress.run(&mut self.command("./program"))?;
        if output != STARTED {
            return Err(Failure { message: format!("the program did not print {STARTED:?}"), output });
        }
        let program = self.folder.join("program");
        std::fs::remove_file(&program).map_err(|error| Failure::file("remove", &program, &error))
    }
}

fn free_bytes(folder: &Path) -> Result<u64> {
    let output = Command::new("df").args(["--output=avail", "-B1"]).arg(folder).output();
    let output = output.map_err(|error| Failure::new(format!("cannot run df: {error}")))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let free = text.lines().nth(1).and_then(|line| line.trim().parse().ok());
    free.ok_or_else(|| Failure::new(format!("df does not print how much space is free in {}", folder.display())))
}
