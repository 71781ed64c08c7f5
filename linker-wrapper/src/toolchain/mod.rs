//! The parts of CUDA that a device link uses: where they are, how they were found, and of which version.
//!
//! One toolkit is the toolkit of a link: the one that is named, else the first that the search meets. Its parts come from it
//! alone, because a cubin of one release is nothing for the nvlink of an older one. The libraries that stand for themselves,
//! nvJitLink and the driver, may come from elsewhere. Every part can be named by itself.

pub mod identity;
pub mod print;
pub mod ptxas;
mod search;
mod versions;

use std::path::{Path, PathBuf};

use crate::diag::error::Errors;
use crate::sys::process;
use search::Tree;

pub use ptxas::Ptxas;
pub use versions::NVJITLINK_CREATE;

/// A part of CUDA.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The assembler.
    Ptxas,
    /// The linker of cubins.
    Nvlink,
    /// The bitcode of CUDA's mathematical functions.
    Libdevice,
    /// NVIDIA's device runtime, `libcudadevrt.a`.
    Cudadevrt,
    /// `libnvJitLink.so`.
    NvJitLink,
    /// The driver, `libcuda.so.1`.
    Driver,
}

/// All of them, in the order in which they are shown.
pub const PARTS: [Part; 6] =
    [Part::Ptxas, Part::Nvlink, Part::Libdevice, Part::Cudadevrt, Part::NvJitLink, Part::Driver];

impl Part {
    /// Its name among people.
    pub fn name(self) -> &'static str {
        match self {
            Part::Ptxas => "ptxas",
            Part::Nvlink => "nvlink",
            Part::Libdevice => "libdevice",
            Part::Cudadevrt => "libcudadevrt",
            Part::NvJitLink => "nvJitLink",
            Part::Driver => "driver",
        }
    }

    /// The option that names it.
    pub fn option(self) -> &'static str {
        match self {
            Part::Ptxas => "--ptxas-path=",
            Part::Nvlink => "--nvlink-path=",
            Part::Libdevice => "--libdevice-path=",
            Part::Cudadevrt => "--cudadevrt-path=",
            Part::NvJitLink => "--nvjitlink-path=",
            Part::Driver => "--libcuda-path=",
        }
    }

    /// What a link needs it for.
    pub fn purpose(self) -> &'static str {
        match self {
            Part::Ptxas => "it turns PTX into machine code (--offload-backend=ptxas)",
            Part::Nvlink => {
                "it joins relocatable cubins, and the partitions of large links, for --offload-backend=ptxas"
            }
            Part::Libdevice => "device code that calls CUDA's mathematical functions needs it",
            Part::Cudadevrt => "kernels that launch kernels need it",
            Part::NvJitLink => "--offload-backend=nvjitlink and NVIDIA's LTO-IR need it",
            Part::Driver => "--offload-backend=driver alone needs it",
        }
    }

    fn is_program(self) -> bool {
        matches!(self, Part::Ptxas | Part::Nvlink)
    }
}

/// The parts that were named one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedParts(Vec<(Part, PathBuf)>);

impl NamedParts {
    /// The last name given counts.
    pub fn set(&mut self, part: Part, path: PathBuf) {
        self.0.retain(|(other, _)| *other != part);
        self.0.push((part, path));
    }

    /// The name given.
    pub fn get(&self, part: Part) -> Option<&Path> {
        self.0.iter().find(|(other, _)| *other == part).map(|(_, path)| path.as_path())
    }

    /// Checks that what was named is there.
    ///
    /// # Errors
    /// One for each that is not.
    pub fn check(&self) -> Result<(), Errors> {
        let mut errors = Errors::default();
        for (part, path) in &self.0 {
            let there = if part.is_program() { process::is_program(path) } else { path.is_file() };
            if !there {
                let kind = if part.is_program() { "program" } else { "file" };
                errors.push(format_args!(
                    "{}{}: no such {kind}; name {} itself, not its folder",
                    part.option(),
                    path.display(),
                    part.name()
                ));
            }
        }
        errors.or(())
    }
}

/// A part that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Where it is.
    pub path: PathBuf,
    /// What led there: "--cuda-path", "PATH".
    pub how: String,
}

/// The CUDA of a link. Nothing but the toolkit's folder is looked for before it is wanted.
#[derive(Debug, Clone)]
pub struct Toolchain {
    named: NamedParts,
    tree: Result<Tree, Errors>,
}

impl Toolchain {
    /// Looks for the toolkit: `--cuda-path` (`option`), `CUDA_PATH`, `CUDA_HOME`, beside `--ptxas-path`, `ptxas` on `PATH`,
    /// `/usr/local/cuda*`, Python packages. A place that was named is the place; no other is looked at.
    pub fn find(option: Option<&Path>, named: &NamedParts) -> Self {
        let tree = search::toolkit(option, named.get(Part::Ptxas));
        Toolchain { named: named.clone(), tree }
    }

    /// The part, with how it was found.
    ///
    /// # Errors
    /// It is nowhere; says what it is for and what to do.
    pub fn part(&self, part: Part) -> Result<Found, Errors> {
        if let Some(path) = self.named.get(part) {
            let how = part.option().trim_end_matches('=').to_owned();
            return Ok(Found { path: path.to_owned(), how });
        }
        match part {
            Part::NvJitLink => self.nvjitlink(),
            Part::Driver => search::driver(),
            Part::Nvlink => self.nvlink(),
            _ => {
                let tree = self.tree.as_ref().map_err(Clone::clone)?;
                tree.part(part).ok_or_else(|| match part {
                    Part::Ptxas => tree.without_ptxas(),
                    _ => self.missing(part),
                })
            }
        }
    }

    /// The path that its own option names.
    pub fn named(&self, part: Part) -> Option<&Path> {
        self.named.get(part)
    }

    /// The path alone.
    pub fn path(&self, part: Part) -> Option<PathBuf> {
        self.part(part).ok().map(|found| found.path)
    }

    /// The library, as far as its file says of which release it is.
    fn nvjitlink(&self) -> Result<Found, Errors> {
        let own = self.tree.as_ref().ok().and_then(|tree| tree.part(Part::NvJitLink));
        let named = self.tree.as_ref().is_ok_and(|tree| tree.named);
        let elsewhere = || if named { None } else { search::nvjitlink() };
        own.or_else(elsewhere).ok_or_else(|| self.missing(Part::NvJitLink))
    }

    /// Beside ptxas: also where ptxas itself was named.
    fn nvlink(&self) -> Result<Found, Errors> {
        let ptxas = self.part(Part::Ptxas).ok();
        let beside = ptxas.as_ref().map(|ptxas| ptxas.path.with_file_name("nvlink"));
        if let Some(path) = beside.filter(|path| process::is_program(path)) {
            return Ok(Found { path, how: "beside ptxas".to_owned() });
        }
        if let Some(found) = self.tree.as_ref().ok().and_then(|tree| tree.part(Part::Nvlink)) {
            return Ok(found);
        }
        let place = ptxas.map_or_else(String::new, |ptxas| format!(" beside {}", ptxas.path.display()));
        Err(Errors::one(format_args!(
            "nvlink not found{place}: it joins relocatable cubins; install the whole CUDA toolkit, name nvlink with \
             --nvlink-path=<file>, or let --offload-backend=nvjitlink join them"
        )))
    }

    fn missing(&self, part: Part) -> Errors {
        let place = match &self.tree {
            Ok(tree) => format!(" in {}", tree.root.display()),
            Err(_) => String::new(),
        };
        Errors::one(format_args!(
            "{} not found{place}: {}; install it or name it with {}<file>",
            part.name(),
            part.purpose(),
            part.option()
        ))
    }
}
