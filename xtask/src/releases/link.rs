//! Compiles the two units of a kind, links them by dist/ and runs the program.

use std::path::Path;
use std::process::Command;

use super::compilers::Clang;
use crate::failure::{Failure, Result};
use crate::step::Progress;

/// A column of the table.
pub struct Kind {
    /// For folders.
    pub name: &'static str,
    pub title: &'static str,
    /// Under lit-tests/.
    source: &'static str,
    options: Vec<String>,
    /// A runtime that records what is registered, under lit-tests/. OpenMP on the processor has a real one.
    runtime: Option<&'static str>,
    /// The first release that compiles the units.
    pub since: u32,
    /// Whether the program needs a libomptarget, whose release decides what is registered.
    pub is_openmp: bool,
    /// Whether its compiler needs a code generator for NVIDIA's GPUs.
    pub needs_gpu_code: bool,
    /// What the program prints, in any order.
    expected: &'static [&'static str],
}

/// What became of two units.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The program ran, and everything in it is registered.
    Works,
    /// fatlink rejected them.
    Rejected(String),
    /// Nothing that can be installed makes them.
    Untried,
}

/// The columns.
pub fn kinds(cuda: &Path) -> [Kind; 5] {
    let nvidia = [
        "-x cuda --offload-arch=sm_80 -fgpu-rdc --offload-new-driver -nocudainc -nocudalib -Wno-unknown-cuda-version -O1",
    ];
    let words = |texts: &[&str]| texts.iter().flat_map(|text| text.split(' ')).map(str::to_owned).collect::<Vec<_>>();
    let cuda_options = |more: &[&str]| {
        let mut options = words(&nvidia);
        options.push(format!("--cuda-path={}", cuda.display()));
        options.extend(words(more));
        options
    };
    let of_cuda = |name, title, options, needs_gpu_code| Kind {
        name,
        title,
        source: "releases/cuda.cu",
        options,
        runtime: Some("tests/Inputs/runtime.c"),
        since: 15,
        is_openmp: false,
        needs_gpu_code,
        expected: &[
            "kernel _Z7kernel1Pi",
            "kernel _Z7kernel2Pi",
            "variable variable of 4 bytes",
            "variable fixed of 4 bytes",
            "launch of _Z7kernel1Pi",
            "launch of _Z7kernel2Pi",
        ],
    };
    [
        of_cuda("cubin", "CUDA, machine code", cuda_options(&[]), true),
        of_cuda("lto", "CUDA, `-foffload-lto`", cuda_options(&["-foffload-lto"]), false),
        Kind {
            name: "hip",
            title: "HIP",
            source: "releases/hip.hip",
            options: words(&["-x hip --offload-arch=gfx90a -fgpu-rdc --offload-new-driver -nogpuinc -nogpulib -O1"]),
            runtime: Some("tests/hip/Inputs/runtime.c"),
            since: 15,
            is_openmp: false,
            needs_gpu_code: false,
            expected: &["_Z7kernel1Pi", "_Z7kernel2Pi", " variable ", " fixed ", "launch"],
        },
        Kind {
            name: "openmp",
            title: "OpenMP on x86-64",
            source: "releases/openmp.c",
            options: words(&["-x c -fopenmp -fopenmp-targets=x86_64-pc-linux-gnu -O1"]),
            runtime: None,
            since: 15,
            is_openmp: true,
            needs_gpu_code: false,
            expected: &["value 11"],
        },
        Kind {
            name: "openmp-gpu",
            title: "OpenMP on GPUs",
            source: "releases/openmp.c",
            options: [
                words(&[
                    "-x c -DBARE -fopenmp --offload-arch=sm_80 -foffload-lto -nogpulib -Wno-unknown-cuda-version -O1",
                ]),
                vec![format!("--cuda-path={}", cuda.display())],
            ]
            .concat(),
            runtime: Some("releases/openmp-runtime.c"),
            // The first that knows ompx_bare. Other kernels need the device runtime of their release, which no package has.
            since: 19,
            is_openmp: true,
            needs_gpu_code: false,
            expected: &["image 0 is ELF", "entry variable", "launch of __omp_offloading_"],
        },
    ]
}

/// Where the units are.
pub struct Place<'p> {
    pub folder: &'p Path,
    pub sources: &'p Path,
    pub dist: &'p Path,
    pub cuda: &'p Path,
}

impl Place<'_> {
    /// Compiles both units and the runtime.
    pub fn compile(&self, progress: &Progress, clang: &Clang, kind: &Kind) -> Result<()> {
        for (unit, options) in [("first.o", None), ("second.o", Some("-DSECOND"))] {
            let mut command = clang.command(&self.cuda.join("bin"));
            command.current_dir(self.folder).args(&kind.options).args(options);
            progress.run(command.arg("-c").arg(self.sources.join(kind.source)).args(["-o", unit]))?;
        }
        let Some(runtime) = kind.runtime else { return Ok(()) };
        let mut command = Command::new("gcc");
        command.current_dir(self.folder).args(["-w", "-c"]);
        progress.run(command.arg(self.sources.join(runtime)).args(["-o", "runtime.o"])).map(drop)
    }

    /// Links them with a driver, and runs the program. An error other than fatlink's own, or a program that lacks something, is a failure.
    pub fn link(&self, progress: &Progress, driver: &Clang, kind: &Kind, openmp: Option<&Path>) -> Result<Outcome> {
        let mut command = driver.command(&self.cuda.join("bin"));
        command.current_dir(self.folder).env("CUDA_PATH", self.cuda).arg("-B").arg(self.dist).arg("--offload-link");
        command.args(["first.o", "second.o", "-o", "app"]);
        match openmp {
            Some(libraries) => command.arg("-L").arg(libraries).args(["-lomptarget", "-lomp"]),
            None => &mut command,
        };
        command.args(kind.runtime.map(|_| "runtime.o"));
        let (status, output) = progress.status(&mut command)?;
        if !status.success() {
            let rejected = output.lines().find_map(|line| line.strip_prefix("clang-linker-wrapper: error: "));
            return rejected
                .map(|error| Outcome::Rejected(error.to_owned()))
                .ok_or_else(|| Failure { message: format!("{} failed", self.folder.display()), output });
        }
        let mut program = Command::new(self.folder.join("app"));
        // A target region that runs on the host alone is a failure.
        program.env("OMP_TARGET_OFFLOAD", "MANDATORY");
        if let Some(libraries) = openmp {
            program.env("LD_LIBRARY_PATH", libraries);
        }
        let printed = progress.run(&mut program)?;
        match kind.expected.iter().find(|expected| !printed.contains(**expected)) {
            None => Ok(Outcome::Works),
            Some(expected) => {
                let message = format!("the program in {} does not print `{expected}`", self.folder.display());
                Err(Failure { message, output: printed })
            }
        }
    }
}
