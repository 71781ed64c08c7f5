//! The parts of CUDA that a device link uses: where they are, how they were found, and of which version.
//!
//! One toolkit is the toolkit of a link: the one that is named, else the first that the search meets. Its parts come from it
//! alone, because an older nvlink rejects cubins of a newer release. The libraries that stand for themselves,
//! nvJitLink and the driver, may come from elsewhere. Every part can be named by itself.

mod cached_versions;
mod error;
pub mod identity;
pub mod libraries;
pub mod llvm_tools;
pub mod print;
pub mod ptxas;
mod search;
pub mod tool_facts;
pub mod tools;
mod versions;

use std::path::{Path, PathBuf};

use crate::cli::device_options::DeviceOptions;
use crate::cli::environment::DeviceEnvironment;
use crate::cli::options::Options;
use crate::cli::values::{NamedParts, Part};
use crate::diag::error::Errors;
use crate::sys::process;
use error::Error;
use search::Tree;

pub use search::Found;

/// Checks that every part that was named by itself exists.
///
/// # Errors
/// One for each that does not.
pub fn check_named(parts: &NamedParts) -> Result<(), Errors> {
    let exists = |part: Part, path: &Path| if part.is_program() { process::is_program(path) } else { path.is_file() };
    let missing = parts.iter().filter(|(part, path)| !exists(*part, path));
    missing.map(|(part, path)| Error::NamedPart { part, path: path.to_owned() }).collect::<Errors>().or(())
}

/// The CUDA of a link. Nothing but the toolkit's folder is looked for before it is wanted.
#[derive(Debug, Clone)]
pub struct Toolchain {
    named: NamedParts,
    environment: DeviceEnvironment,
    tree: Result<Tree, Errors>,
}

impl Toolchain {
    /// Looks for the toolkit: `--cuda-path`, `CUDA_PATH`, `CUDA_HOME`, beside `--ptxas-path`, `ptxas` on `PATH`, `/usr/local/cuda*`, Python
    /// packages. A place that was named is the place; no other is looked at.
    pub fn of(options: &Options, device: &DeviceOptions) -> Self {
        let (named, environment) = (options.parts.clone(), options.environment.device().clone());
        let option = options.cuda_path.as_deref().or(device.cuda_path.as_deref());
        let tree = search::toolkit(option, named.get(Part::Ptxas), &environment);
        Toolchain { named, environment, tree }
    }

    /// The part, with how it was found.
    ///
    /// # Errors
    /// It is nowhere; says what it is for and what to do.
    pub fn part(&self, part: Part) -> Result<Found, Errors> {
        if let Some(path) = self.named.get(part) {
            return Ok(Found { path: path.to_owned(), how: part.option().trim_end_matches('=') });
        }
        match part {
            Part::NvJitLink => self.nvjitlink(),
            Part::Driver => search::driver(&self.environment),
            Part::Lld => llvm_tools::lld(&self.named),
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

    /// The toolkit's folder, if there is one.
    pub fn root(&self) -> Option<&Path> {
        self.tree.as_ref().ok().map(|tree| tree.root.as_path())
    }

    /// The toolkit's folder that has this library of the CUDA runtime.
    pub fn library_folder(&self, library: &str) -> Option<PathBuf> {
        self.tree.as_ref().ok()?.libraries("cuda_runtime").find(|folder| folder.join(library).is_file())
    }

    /// The parts that the user named by options of their own.
    pub fn named_parts(&self) -> &NamedParts {
        &self.named
    }

    /// The path alone.
    pub fn path(&self, part: Part) -> Option<PathBuf> {
        self.part(part).ok().map(|found| found.path)
    }

    /// The library, as far as its file says of which release it is.
    fn nvjitlink(&self) -> Result<Found, Errors> {
        let own = self.tree.as_ref().ok().and_then(|tree| tree.part(Part::NvJitLink));
        let named = self.tree.as_ref().is_ok_and(|tree| tree.named);
        let elsewhere = || if named { None } else { search::nvjitlink(&self.environment) };
        own.or_else(elsewhere).ok_or_else(|| self.missing(Part::NvJitLink))
    }

    /// Beside ptxas: also where ptxas itself was named.
    fn nvlink(&self) -> Result<Found, Errors> {
        let ptxas = self.part(Part::Ptxas).ok();
        let beside = ptxas.as_ref().map(|ptxas| ptxas.path.with_file_name("nvlink"));
        if let Some(path) = beside.filter(|path| process::is_program(path)) {
            return Ok(Found { path, how: "beside ptxas" });
        }
        if let Some(found) = self.tree.as_ref().ok().and_then(|tree| tree.part(Part::Nvlink)) {
            return Ok(found);
        }
        Err(Error::NoNvlink { ptxas: ptxas.map(|ptxas| ptxas.path) }.into())
    }

    fn missing(&self, part: Part) -> Errors {
        Error::NoPart { part, root: self.tree.as_ref().ok().map(|tree| tree.root.clone()) }.into()
    }
}
