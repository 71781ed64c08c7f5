//! `offload-bundle load-modules`, the process in which `check --load` loads modules: the driver may crash or hang on one.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle_driver::{Driver, Module};
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::output::CommandOutput;

/// The driver's library by the name under which all CUDA programs load it.
#[cfg(windows)]
const LIBRARY: &str = "nvcuda.dll";
#[cfg(not(windows))]
const LIBRARY: &str = "libcuda.so.1";

#[derive(Args)]
pub struct LoadModulesArguments {
    /// A folder with files N.fatbin and N.kernels, which has a name in each line
    folder: PathBuf,
    /// How many there are
    count: usize,
}

/// The first line of the output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// 90 of sm_90.
    pub gpu: u32,
    /// `NVIDIA H100 80GB HBM3`.
    pub name: String,
    /// 13000 of CUDA 13.0.
    pub cuda: i32,
}

/// A further line, for each module.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// What the driver could not do; `None` if all kernels are loaded.
    pub failure: Option<String>,
    /// How many kernels were looked up.
    pub kernels: usize,
    /// The lowest version of PTX and of machine code that the driver reports of them, as in `cudaFuncAttributes`.
    pub versions: Option<(i32, i32)>,
}

/// The names of the files of a module.
pub fn paths(folder: &Path, number: usize) -> (PathBuf, PathBuf) {
    (folder.join(format!("{number}.fatbin")), folder.join(format!("{number}.kernels")))
}

pub fn run(arguments: &LoadModulesArguments) -> Result<CommandOutput> {
    let failed = |error: offload_bundle_driver::Error| Error::Driver(error.to_string());
    let driver = Driver::start(Path::new(LIBRARY)).map_err(failed)?;
    let gpu = driver.capability().map_err(|failure| Error::Driver(failure.to_string()))?;
    line(&Machine { gpu, name: driver.gpu_name(), cuda: driver.cuda_version() })?;
    for number in 0..arguments.count {
        let (fatbin, kernels) = paths(&arguments.folder, number);
        let read = |path: &Path| std::fs::read(path).map_err(|source| Error::Io { path: path.to_owned(), source });
        let (image, names) = (read(&fatbin)?, read(&kernels)?);
        line(&loaded(&driver, &image, &String::from_utf8_lossy(&names)))?;
    }
    Ok(CommandOutput::success(String::new()))
}

fn loaded(driver: &Driver, image: &[u8], names: &str) -> Loaded {
    let nothing = |failure: String| Loaded { failure: Some(failure), kernels: 0, versions: None };
    let module: Module<'_> = match driver.load(image) {
        Ok(module) => module,
        Err(failure) => return nothing(failure.to_string()),
    };
    let mut report = Loaded { failure: None, kernels: 0, versions: None };
    for name in names.lines() {
        match module.kernel(name) {
            Ok(kernel) => {
                let own = (kernel.ptx_version, kernel.binary_version);
                report.versions = Some(report.versions.map_or(own, |known| known.min(own)));
                report.kernels += 1;
            }
            Err(failure) => return Loaded { failure: Some(format!("{failure} for {name}")), ..report },
        }
    }
    report
}

/// Each line at once: what comes behind may end the process.
fn line(value: &impl Serialize) -> Result<()> {
    let text = serde_json::to_string(value)? + "\n";
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(Error::StandardOutput)
}
