//! The table of what fatlink links with each release of CUDA: samples/cuda by clang, samples/nvcc by nvcc, each with the tools of the release.
//! The programs stay in target/releases/cuda-RELEASE/ and test their own results on a GPU.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cuda_release::CudaRelease;
use crate::demo;
use crate::failure::{Failure, Result};
use crate::repository::Repository;
use crate::step::{Progress, in_parallel, noted_step};
use crate::toolchain::{LLVM, Toolchain, fresh_folder};

/// A column: what the units consist of.
struct Form {
    title: &'static str,
    /// For folders.
    name: &'static str,
    compiler: Compiler,
    option: &'static str,
}

#[derive(Clone, Copy, PartialEq)]
enum Compiler {
    Clang,
    Nvcc,
}

const FORMS: [Form; 5] = [
    Form { title: "clang, machine code", name: "clang", compiler: Compiler::Clang, option: "-fno-offload-lto" },
    Form { title: "clang, `-foffload-lto`", name: "clang-lto", compiler: Compiler::Clang, option: "-foffload-lto" },
    nvcc("nvcc, machine code", "nvcc", "-gencode=arch=compute_90,code=sm_90"),
    nvcc("nvcc, PTX", "nvcc-ptx", "-gencode=arch=compute_90,code=compute_90"),
    nvcc("nvcc, LTO-IR", "nvcc-lto", "-gencode=arch=compute_90,code=lto_90"),
];

const fn nvcc(title: &'static str, name: &'static str, option: &'static str) -> Form {
    Form { title, name, compiler: Compiler::Nvcc, option }
}

/// samples/nvcc: the units, and those of its library.
const PHOTO: [&str; 4] = ["main.cu", "lens.cu", "develop.cu", "solarize.cu"];
const FILM: [&str; 5] = ["film/shoulder.cu", "film/gamma.cu", "film/grain.cu", "film/histogram.cu", "film/sepia.cu"];

/// Links everything with every release, and returns the table as Markdown.
pub fn table(repository: &Repository, toolchain: &Toolchain) -> Result<String> {
    let titles = FORMS.map(|form| form.title);
    let mut text = format!("| CUDA | {} |\n|{}\n", titles.join(" | "), " --- |".repeat(titles.len() + 1));
    for release in CudaRelease::ALL {
        release.install(toolchain)?;
        let title = format!("compile and link with CUDA {}", release.name());
        let cells =
            noted_step(&title, |progress| cells(repository, toolchain, progress, release), |row| row.join(" | "))?;
        text += &format!("| {} | {} |\n", release.name(), cells.join(" | "));
    }
    Ok(text)
}

/// A word for each form. What fails to link is a failure of the whole.
fn cells(
    repository: &Repository,
    toolchain: &Toolchain,
    progress: &Progress,
    release: CudaRelease,
) -> Result<Vec<&'static str>> {
    let all = repository.target.join("releases").join(format!("cuda-{}", release.name()));
    let word = |form: &Form| {
        if form.compiler == Compiler::Nvcc && !release.has_nvcc() {
            return Ok("not available");
        }
        let folder = all.join(form.name);
        fresh_folder(&folder)?;
        let trial = Trial { form, folder, repository, cuda: release.tree(toolchain) };
        trial.link(progress).map(|()| "yes")
    };
    FORMS.iter().map(word).collect()
}

/// One program.
struct Trial<'t> {
    form: &'t Form,
    folder: PathBuf,
    repository: &'t Repository,
    cuda: PathBuf,
}

impl Trial<'_> {
    fn link(&self, progress: &Progress) -> Result<()> {
        let (sample, units, library) = match self.form.compiler {
            Compiler::Clang => (demo::CUDA.folder, demo::CUDA.sources, demo::CUDA.library_sources),
            Compiler::Nvcc => ("samples/nvcc", &PHOTO[..], &FILM[..]),
        };
        let sample = self.repository.root.join(sample);
        let compile = |source: &&str| progress.run(self.compile().arg("-c").arg(sample.join(source))).map(drop);
        in_parallel(units.iter().chain(library).collect(), compile)?;
        progress.run(self.tool("clang++").args(["-O2", "-c"]).arg(sample.join("reference.cpp")))?;
        progress.run(self.tool("llvm-ar").args(["rcs", "library.a"]).args(library.iter().map(object)))?;
        let mut link = self.driver();
        link.args(units.iter().map(object)).args(["reference.o", "library.a"]);
        link.arg(format!("-L{}", self.cuda.join("lib").display()));
        link.args(["-lcudart_static", "-ldl", "-lrt", "-lpthread", "-o", "program"]);
        progress.run(&mut link)?;
        let mut explain = self.command(self.repository.dist().join("bin/offload-bundle"));
        let said = progress.run(explain.args(["explain", "program", "--gpu=sm_90", "--brief"]))?;
        match said.contains("sass 90") {
            true => Ok(()),
            false => Err(Failure { message: format!("{} has no code for sm_90", self.folder.display()), output: said }),
        }
    }

    /// The compiler of the units.
    fn compile(&self) -> Command {
        let mut command = match self.form.compiler {
            Compiler::Clang => {
                let mut clang = self.tool("clang++");
                clang.args(["-x", "cuda", "-Wno-unknown-cuda-version", "-fgpu-rdc", "--offload-arch=sm_90"]);
                clang.arg(format!("--cuda-path={}", self.cuda.display()));
                clang
            }
            Compiler::Nvcc => {
                let mut nvcc = self.command(self.cuda.join("bin/nvcc"));
                nvcc.arg("-rdc=true");
                nvcc
            }
        };
        command.args([self.form.option, "-O2"]);
        command
    }

    /// What links the program.
    fn driver(&self) -> Command {
        let dist = self.repository.dist();
        match self.form.compiler {
            Compiler::Clang => {
                let mut clang = self.tool("clang++");
                clang.arg("-B").arg(dist.join("bin")).arg("--offload-link");
                clang.arg(format!("--cuda-path={}", self.cuda.display()));
                clang
            }
            Compiler::Nvcc => {
                let mut gcc = self.command("g++");
                gcc.arg("-B").arg(dist.join("gcc")).arg(format!("-Wl,--cuda-path={}", self.cuda.display()));
                gcc.args(["-Wl,--offload-sass=sm_90", "-lcudadevrt"]);
                gcc
            }
        }
    }

    fn tool(&self, name: &str) -> Command {
        self.command(Path::new(LLVM).join("bin").join(name))
    }

    /// A tool in the folder of the program, which finds those of this release alone.
    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let path = std::env::var_os("PATH").unwrap_or_default();
        let folders = std::iter::once(self.cuda.join("bin")).chain(std::env::split_paths(&path));
        command.current_dir(&self.folder).env("CUDA_PATH", &self.cuda);
        command.env("PATH", std::env::join_paths(folders).unwrap_or(path));
        command.env("LD_LIBRARY_PATH", self.cuda.join("lib"));
        command
    }
}

/// The object that a compiler makes of a source where it runs.
fn object(source: &&str) -> PathBuf {
    Path::new(Path::new(source).file_name().unwrap_or_default()).with_extension("o")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_has_a_row_for_every_release_and_a_cell_for_every_form() {
        let page = include_str!("../../../docs/reference/platforms.md");
        let rows = super::super::table::rows(page, super::super::CUDA).expect("a table");
        assert_eq!(rows.len(), CudaRelease::ALL.len());
        for (row, release) in rows.iter().zip(CudaRelease::ALL) {
            assert!(row.starts_with(&format!("| {} |", release.name())), "{row}");
            assert_eq!(row.matches(" | ").count(), FORMS.len(), "{row}");
        }
    }
}
