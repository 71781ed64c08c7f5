//! What a plan has to know of the tools: plain values, each looked up when it is first read.

use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

use offload_bundle::CudaRelease;

use crate::cli::values::{NamedParts, Part};
use crate::diag::error::Errors;
use crate::toolchain::ptxas::Ptxas;
use crate::toolchain::tools::Tools;

/// A value, or why there is none. The first reader looks it up; others wait for that reader alone.
pub type Fact<T> = LazyLock<Result<T, Errors>, Box<dyn FnOnce() -> Result<T, Errors> + Send>>;

/// A library in a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LibraryFacts {
    /// The file.
    pub path: PathBuf,
    /// The CUDA release that it belongs to, if it reports one.
    pub release: Option<CudaRelease>,
}

/// The tools of a link, as plain values.
pub struct ToolFacts {
    /// Where ptxas is. Does not run it.
    pub ptxas_path: Fact<PathBuf>,
    /// ptxas with its version.
    pub ptxas: Fact<Ptxas>,
    /// Where nvlink is.
    pub nvlink: Fact<PathBuf>,
    /// The folder of the optimizer that nvlink loads for LTO-IR.
    pub nvvm: Fact<PathBuf>,
    /// libnvJitLink, which can be loaded.
    pub nvjitlink: Fact<LibraryFacts>,
    /// The CUDA driver, which can be loaded. A build container has none.
    pub driver: Fact<LibraryFacts>,
    /// The parts that the user named by options of their own.
    pub named: NamedParts,
}

impl ToolFacts {
    /// The facts about `tools`. Looks nothing up yet.
    pub fn of(tools: &Arc<Tools>) -> Self {
        let nvjitlink = |tools: &Tools| {
            let library = tools.nvjitlink()?;
            Ok(LibraryFacts { path: library.path().to_owned(), release: Some(library.release()) })
        };
        let driver = |tools: &Tools| {
            let driver = tools.driver()?;
            Ok(LibraryFacts { path: driver.path().to_owned(), release: driver.release() })
        };
        ToolFacts {
            ptxas_path: fact(tools, |tools| Ok(tools.toolchain().part(Part::Ptxas)?.path)),
            ptxas: fact(tools, |tools| tools.ptxas().cloned()),
            nvlink: fact(tools, Tools::nvlink),
            nvvm: fact(tools, Tools::nvvm),
            nvjitlink: fact(tools, nvjitlink),
            driver: fact(tools, driver),
            named: tools.toolchain().named_parts().clone(),
        }
    }
}

fn fact<T>(tools: &Arc<Tools>, look_up: impl FnOnce(&Tools) -> Result<T, Errors> + Send + 'static) -> Fact<T> {
    let tools = Arc::clone(tools);
    Fact::new(Box::new(move || look_up(&tools)))
}

#[cfg(test)]
pub mod testing {
    //! Facts about tools that need not exist.

    use super::*;

    /// The releases of the tools; `None` for a tool that was not found.
    #[derive(Debug, Clone, Copy, Default)]
    pub struct KnownTools {
        pub ptxas: Option<CudaRelease>,
        pub nvlink: bool,
        /// nvlink has its optimizer.
        pub nvvm: bool,
        pub nvjitlink: Option<CudaRelease>,
        /// The driver, with the release that it reports.
        pub driver: Option<Option<CudaRelease>>,
    }

    impl KnownTools {
        /// The same as facts.
        pub fn facts(self) -> ToolFacts {
            fn known<T: Send + 'static>(name: &str, value: Option<T>) -> Fact<T> {
                let missing = format!("{name} not found");
                Fact::new(Box::new(move || value.ok_or_else(|| std::io::Error::other(missing).into())))
            }
            let library = |path: &str, release| LibraryFacts { path: path.into(), release };
            let ptxas = |release| Ptxas { path: "ptxas".into(), release, version: String::new() };
            ToolFacts {
                ptxas_path: known("ptxas", self.ptxas.map(|_| "ptxas".into())),
                ptxas: known("ptxas", self.ptxas.map(ptxas)),
                nvlink: known("nvlink", self.nvlink.then(|| "nvlink".into())),
                nvvm: known("libnvvm", self.nvvm.then(|| "nvvm".into())),
                nvjitlink: known("nvJitLink", self.nvjitlink.map(|release| library("libnvJitLink.so", Some(release)))),
                driver: known("driver", self.driver.map(|release| library("libcuda.so.1", release))),
                named: NamedParts::default(),
            }
        }
    }
}
