//! The tools of one link, each looked up when it is first needed and at most once.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::cli::values::Part;
use crate::diag::error::Errors;
use crate::sys::cache::Cache;
use crate::toolchain::Toolchain;
use crate::toolchain::error::Error;
use crate::toolchain::libraries::{CudaDriver, NvJitLink};
use crate::toolchain::ptxas::{self, Ptxas};

/// NVIDIA's optimizer in its folder.
const NVVM: &str = "lib64/libnvvm.so";

/// Programs and libraries that generate code.
pub struct Tools {
    toolchain: Toolchain,
    /// Keeps the versions of tools.
    cache: Option<Cache>,
    ptxas: OnceLock<Result<Ptxas, Errors>>,
    nvjitlink: OnceLock<Result<NvJitLink, Errors>>,
    driver: OnceLock<Result<CudaDriver, Errors>>,
}

impl Tools {
    /// Looks nothing up yet.
    pub fn new(toolchain: Toolchain, cache: Option<Cache>) -> Self {
        Tools { toolchain, cache, ptxas: OnceLock::new(), nvjitlink: OnceLock::new(), driver: OnceLock::new() }
    }

    /// Where the parts of the toolkit are.
    pub fn toolchain(&self) -> &Toolchain {
        &self.toolchain
    }

    /// ptxas with its version.
    ///
    /// # Errors
    /// It was not found, or it does not report a CUDA release.
    pub fn ptxas(&self) -> Result<&Ptxas, Errors> {
        let probed =
            self.ptxas.get_or_init(|| ptxas::probe(&self.toolchain.part(Part::Ptxas)?.path, self.cache.as_ref()));
        probed.as_ref().map_err(Clone::clone)
    }

    /// The path of nvlink.
    ///
    /// # Errors
    /// It was not found.
    pub fn nvlink(&self) -> Result<PathBuf, Errors> {
        self.toolchain.part(Part::Nvlink).map(|part| part.path)
    }

    /// The folder of NVIDIA's optimizer, which nvlink loads for LTO-IR.
    ///
    /// # Errors
    /// There is none beside nvlink.
    pub fn nvvm(&self) -> Result<PathBuf, Errors> {
        let nvlink = self.nvlink()?;
        let real = nvlink.canonicalize().unwrap_or_else(|_| nvlink.clone());
        let candidates = [&nvlink, &real].into_iter().filter_map(|path| Some(path.parent()?.parent()?.join("nvvm")));
        let found = candidates.into_iter().find(|folder| folder.join(NVVM).is_file());
        found.ok_or_else(|| Error::NoNvvm { nvlink, library: NVVM }.into())
    }

    /// libnvJitLink, loaded.
    ///
    /// # Errors
    /// It was not found, or it cannot be loaded.
    pub fn nvjitlink(&self) -> Result<&NvJitLink, Errors> {
        let open = || Ok(NvJitLink::open(&self.toolchain.part(Part::NvJitLink)?.path)?);
        self.nvjitlink.get_or_init(open).as_ref().map_err(Clone::clone)
    }

    /// The CUDA driver, loaded.
    ///
    /// # Errors
    /// It was not found, or it cannot be loaded.
    pub fn driver(&self) -> Result<&CudaDriver, Errors> {
        let open = || Ok(CudaDriver::open(&self.toolchain.part(Part::Driver)?.path)?);
        self.driver.get_or_init(open).as_ref().map_err(Clone::clone)
    }
}
