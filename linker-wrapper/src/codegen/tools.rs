//! The tools of one link, each looked up when it is first needed and at most once.

use std::path::PathBuf;
use std::sync::OnceLock;

use crate::cli::values::Part;
use crate::codegen::cuda_driver::CudaDriver;
use crate::codegen::nvjitlink::NvJitLink;
use crate::diag::error::Errors;
use crate::toolchain::ptxas;
use crate::toolchain::{Ptxas, Toolchain};

/// Programs and libraries that generate code.
pub struct Tools<'a> {
    toolchain: &'a Toolchain,
    ptxas: OnceLock<Result<Ptxas, Errors>>,
    nvjitlink: OnceLock<Result<NvJitLink, Errors>>,
    driver: OnceLock<Result<CudaDriver, Errors>>,
}

impl<'a> Tools<'a> {
    /// Looks nothing up yet.
    pub fn new(toolchain: &'a Toolchain) -> Self {
        Tools { toolchain, ptxas: OnceLock::new(), nvjitlink: OnceLock::new(), driver: OnceLock::new() }
    }

    /// Where the parts of the toolkit are.
    pub fn toolchain(&self) -> &'a Toolchain {
        self.toolchain
    }

    /// ptxas with its version.
    ///
    /// # Errors
    /// It was not found, or it does not report a CUDA release.
    pub fn ptxas(&self) -> Result<&Ptxas, Errors> {
        let probed = self.ptxas.get_or_init(|| ptxas::probe(&self.toolchain.part(Part::Ptxas)?.path));
        probed.as_ref().map_err(Clone::clone)
    }

    /// The path of nvlink.
    ///
    /// # Errors
    /// It was not found.
    pub fn nvlink(&self) -> Result<PathBuf, Errors> {
        self.toolchain.part(Part::Nvlink).map(|part| part.path)
    }

    /// libnvJitLink, loaded.
    ///
    /// # Errors
    /// It was not found, or it cannot be loaded.
    pub fn nvjitlink(&self) -> Result<&NvJitLink, Errors> {
        let opened = self.nvjitlink.get_or_init(|| NvJitLink::open(&self.toolchain.part(Part::NvJitLink)?.path));
        opened.as_ref().map_err(Clone::clone)
    }

    /// The CUDA driver, loaded.
    ///
    /// # Errors
    /// It was not found, or it cannot be loaded.
    pub fn driver(&self) -> Result<&CudaDriver, Errors> {
        let opened = self.driver.get_or_init(|| CudaDriver::open(&self.toolchain.part(Part::Driver)?.path));
        opened.as_ref().map_err(Clone::clone)
    }
}
