//! `offload-bundle explain` and `offload-bundle check`.

use std::path::PathBuf;
use std::str::FromStr;

use clap::{Args, ValueEnum};
use offload_bundle::arch::UnknownArch;
use offload_bundle::coverage::{
    self, AmdGpu, CheckOptions, CheckReport, Driver, ExplainReport, Jit, Runtime, Severity, UnknownAmdGpu,
};
use offload_bundle::{CudaRelease, GpuArch};

use crate::error::{Error, Result};
use crate::input;
use crate::output::{self, CommandOutput};

/// Exit code for a file whose fatbins can be read, but do not run or have errors.
const UNFIT: u8 = 2;

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PtxJit {
    /// PTX is compiled where no machine code fits
    Allowed,
    /// Machine code is ignored
    Forced,
    /// PTX is not compiled
    Disabled,
}

impl From<PtxJit> for Jit {
    fn from(jit: PtxJit) -> Self {
        match jit {
            PtxJit::Allowed => Jit::Allowed,
            PtxJit::Forced => Jit::Forced,
            PtxJit::Disabled => Jit::Disabled,
        }
    }
}

/// A GPU of either vendor.
#[derive(Debug, Clone)]
enum Gpu {
    Nvidia(GpuArch),
    Amd(AmdGpu),
}

impl FromStr for Gpu {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        match text.starts_with("gfx") {
            true => text.parse().map(Gpu::Amd).map_err(|error: UnknownAmdGpu| error.to_string()),
            false => text.parse().map(Gpu::Nvidia).map_err(|error: UnknownArch| error.to_string()),
        }
    }
}

#[derive(Args)]
pub struct ExplainArguments {
    /// A fatbin, a HIP bundle, or an ELF object, executable or library with a section .nv_fatbin, __nv_relfatbin or .hip_fatbin, or an
    /// archive of those
    file: PathBuf,
    /// Only this GPU, such as sm_86, gfx90a or gfx90a:xnack+; by default, all from sm_75 to sm_121 and all of AMD's
    #[arg(long)]
    gpu: Option<Gpu>,
    /// The driver's version, such as 580 or 580.159.04; by default, one that is new enough
    #[arg(long)]
    driver: Option<Driver>,
    /// Whether the driver compiles PTX, as with CUDA_FORCE_PTX_JIT=1 (forced) or CUDA_DISABLE_PTX_JIT=1 (disabled)
    #[arg(long, value_enum, default_value = "allowed")]
    ptx_jit: PtxJit,
    /// Only containers in this section, .nv_fatbin, __nv_relfatbin or .hip_fatbin, each as if the program contained no other
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Print the outcome alone: `sass 90a`, `ptx 80`, `link ptx 80`, `code gfx90a`, `spirv amdgcnspirv`, `no-binary`
    #[arg(long, requires = "gpu", conflicts_with = "json")]
    brief: bool,
    /// A table for each container, also where they are equal
    #[arg(long, conflicts_with_all = ["json", "brief"])]
    full: bool,
    /// Print a JSON object instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct CheckArguments {
    /// A fatbin, a HIP bundle, or an ELF object, executable or library with a section .nv_fatbin, __nv_relfatbin or .hip_fatbin, or an
    /// archive of those
    file: PathBuf,
    /// The oldest driver that must be able to load it, such as 580; by default, one that is new enough
    #[arg(long)]
    driver: Option<Driver>,
    /// The CUDA toolkit that the file should come from, such as 12.9; by default, that of its oldest machine code
    #[arg(long)]
    toolkit: Option<CudaRelease>,
    /// The findings of each fatbin, also where they are equal
    #[arg(long, conflicts_with = "json")]
    full: bool,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

pub fn explain(arguments: &ExplainArguments) -> Result<CommandOutput> {
    let (fatbins, bundles) = input::read(&arguments.file, |data, read_thin| {
        Ok((coverage::containers(data, &mut *read_thin)?, coverage::hip_bundles(data, read_thin)?))
    })?;
    let file = arguments.file.clone();
    if fatbins.is_empty() && bundles.is_empty() {
        return Err(Error::NoContainer { file });
    }
    // A GPU loads the containers of its vendor.
    let (nvidia, amd) = match &arguments.gpu {
        None => (Some(None), Some(None)),
        Some(Gpu::Nvidia(gpu)) => (Some(Some(*gpu)), None),
        Some(Gpu::Amd(gpu)) => (None, Some(Some(gpu))),
    };
    let runtime = Runtime { driver: arguments.driver.unwrap_or_default(), jit: arguments.ptx_jit.into() };
    let fatbins = if nvidia.is_some() { fatbins.as_slice() } else { &[] };
    let bundles = if amd.is_some() { bundles.as_slice() } else { &[] };
    let report = ExplainReport::of_sections(fatbins, nvidia.flatten(), runtime, &arguments.section);
    let report = report.with_bundles(bundles, amd.flatten(), &arguments.section);
    if report.containers.is_empty() {
        if !arguments.section.is_empty() {
            return Err(Error::NoFatbinInSection { file, sections: arguments.section.clone() });
        }
        return Err(Error::NoContainerFor { file, vendor: if amd.is_some() { "AMD" } else { "NVIDIA" } });
    }
    let text = match (arguments.json, arguments.brief) {
        (true, _) => output::json(&report)?,
        (_, true) => report.brief(),
        _ if arguments.full => report.full_text(),
        _ => report.text(),
    };
    Ok(CommandOutput { text, exit_code: if report.runs() { 0 } else { UNFIT }, errors: Vec::new() })
}

pub fn check(arguments: &CheckArguments) -> Result<CommandOutput> {
    let (containers, bundles, forgotten) = input::read(&arguments.file, |data, read_thin| {
        let containers = coverage::containers(data, &mut *read_thin)?;
        Ok((containers, coverage::hip_bundles(data, read_thin)?, coverage::forgotten_link(data)))
    })?;
    if containers.is_empty() && bundles.is_empty() && forgotten.is_none() {
        return Err(Error::NoContainer { file: arguments.file.clone() });
    }
    let driver = arguments.driver.unwrap_or_default();
    let options = CheckOptions { driver, toolkit: arguments.toolkit, ..CheckOptions::default() };
    let report =
        CheckReport::new(&containers, &options).with_bundles(&bundles).with_findings(Vec::from_iter(forgotten));
    let text = match (arguments.json, arguments.full) {
        (true, _) => output::json(&report)?,
        (_, true) => report.full_text(),
        _ => report.text(),
    };
    let is_unfit = report.worst() == Some(Severity::Error);
    Ok(CommandOutput { text, exit_code: if is_unfit { UNFIT } else { 0 }, errors: Vec::new() })
}
