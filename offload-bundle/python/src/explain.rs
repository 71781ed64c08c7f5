//! `explain`: what each GPU runs.

use offload_bundle::GpuArch;
use offload_bundle::coverage::{
    self, AmdGpu, ContainerReport, Driver, ExplainReport, GpuReport, Jit, Runtime, UnknownAmdGpu, UnknownDriver,
};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::source::{Source, search};

/// What a runtime does with one fatbin or bundle.
#[pyclass(frozen, get_all, eq, module = "fatlink")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    number: usize,
    member: Option<String>,
    section: Option<String>,
    offset: u64,
    platform: &'static str,
    role: &'static str,
    module: Option<String>,
    entries: Vec<String>,
    outcomes: Vec<Outcome>,
}

/// What a runtime does with a container on one GPU.
#[pyclass(frozen, get_all, eq, module = "fatlink")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    gpu: String,
    outcome: String,
    runs: bool,
    error: Option<&'static str>,
    entry: Option<usize>,
    reason: String,
    passed_over: Vec<(usize, String)>,
}

impl From<ContainerReport> for Container {
    fn from(report: ContainerReport) -> Self {
        Self {
            number: report.place.container,
            member: report.place.member,
            section: report.place.section.map(std::borrow::Cow::into_owned),
            offset: report.place.offset,
            platform: platform(report.platform),
            role: report.role.role,
            module: report.role.module,
            entries: report.entries,
            outcomes: report.gpus.into_iter().map(Outcome::from).collect(),
        }
    }
}

impl From<GpuReport> for Outcome {
    fn from(report: GpuReport) -> Self {
        Self {
            gpu: report.gpu,
            outcome: report.outcome,
            runs: report.runs,
            error: report.error,
            entry: report.entry,
            reason: report.reason,
            passed_over: report.passed_over.into_iter().map(|other| (other.entry, other.why)).collect(),
        }
    }
}

#[pymethods]
impl Container {
    fn __repr__(&self) -> String {
        format!("<fatlink.Container {}: {}>", self.number, self.entries.join(", "))
    }
}

#[pymethods]
impl Outcome {
    fn __repr__(&self) -> String {
        format!("<fatlink.Outcome {}: {}>", self.gpu, self.outcome)
    }
}

/// The name of a platform in JSON, too.
pub fn platform(platform: coverage::Platform) -> &'static str {
    match platform {
        coverage::Platform::Cuda => "cuda",
        coverage::Platform::Hip => "hip",
    }
}

/// Reads a driver's version; without one, a driver that is new enough.
pub fn driver(text: Option<&str>) -> Result<Driver, Failure> {
    let parse = |text: &str| text.parse().map_err(|error: UnknownDriver| Failure::Argument(error.to_string()));
    text.map_or(Ok(Driver::NewEnough), parse)
}

/// A GPU of either vendor, or all.
enum Gpus {
    All,
    Nvidia(GpuArch),
    Amd(AmdGpu),
}

impl Gpus {
    fn parse(text: Option<&str>) -> Result<Self, Failure> {
        let unknown = |error: String| Failure::Argument(error);
        match text {
            None => Ok(Gpus::All),
            Some(text) if text.starts_with("gfx") => {
                text.parse().map(Gpus::Amd).map_err(|error: UnknownAmdGpu| unknown(error.to_string()))
            }
            Some(text) => text
                .parse()
                .map(Gpus::Nvidia)
                .map_err(|error: offload_bundle::arch::UnknownArch| unknown(error.to_string())),
        }
    }
}

fn jit(text: &str) -> Result<Jit, Failure> {
    match text {
        "allowed" => Ok(Jit::Allowed),
        "forced" => Ok(Jit::Forced),
        "disabled" => Ok(Jit::Disabled),
        _ => Err(Failure::Argument(format!("ptx_jit is 'allowed', 'forced' or 'disabled', not '{text}'"))),
    }
}

/// Predicts what the CUDA driver, or HIP's runtime, does with each fatbin and bundle of a file.
#[pyfunction]
#[pyo3(signature = (source, gpu = None, *, driver = None, ptx_jit = "allowed", scan = false))]
pub fn explain(
    py: Python<'_>,
    source: Source,
    gpu: Option<&str>,
    driver: Option<&str>,
    ptx_jit: &str,
    scan: bool,
) -> PyResult<Vec<Container>> {
    let runtime = Runtime { driver: self::driver(driver)?, jit: jit(ptx_jit)? };
    let gpus = Gpus::parse(gpu)?;
    let report = source.parse(py, |data, read_thin| {
        // A GPU loads the containers of its vendor.
        let (mut fatbins, mut bundles) = (Vec::new(), Vec::new());
        if !matches!(gpus, Gpus::Amd(_)) {
            fatbins = coverage::containers(data, &mut *read_thin, search(scan))?;
        }
        if !matches!(gpus, Gpus::Nvidia(_)) {
            bundles = coverage::hip_bundles(data, read_thin)?;
        }
        let nvidia = if let Gpus::Nvidia(gpu) = &gpus { Some(*gpu) } else { None };
        let amd = if let Gpus::Amd(gpu) = &gpus { Some(gpu) } else { None };
        Ok(ExplainReport::new(&fatbins, nvidia, runtime).with_bundles(&bundles, amd, &[]))
    })?;
    Ok(report.containers.into_iter().map(Container::from).collect())
}
