//! `check`: faults of fatbins and bundles.

use offload_bundle::CudaRelease;
use offload_bundle::coverage::{self, CheckOptions, CheckReport};
use pyo3::prelude::*;

use crate::error::Failure;
use crate::explain::{driver, platform};
use crate::source::{Source, search};

/// What was found in one fatbin or bundle.
#[pyclass(frozen, get_all, eq, module = "fatlink")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckedContainer {
    number: usize,
    member: Option<String>,
    section: Option<String>,
    offset: u64,
    platform: &'static str,
    findings: Vec<Finding>,
    driver_branch: Option<u32>,
}

/// A fault or remark.
#[pyclass(frozen, get_all, eq, module = "fatlink")]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    code: &'static str,
    severity: String,
    entries: Vec<usize>,
    gpus: Vec<String>,
    message: String,
    advice: &'static str,
    bytes: Option<u64>,
}

impl From<coverage::CheckedContainer> for CheckedContainer {
    fn from(checked: coverage::CheckedContainer) -> Self {
        Self {
            number: checked.place.container,
            member: checked.place.member,
            section: checked.place.section.map(std::borrow::Cow::into_owned),
            offset: checked.place.offset,
            platform: platform(checked.platform),
            findings: checked.findings.into_iter().map(Finding::from).collect(),
            driver_branch: checked.needs.branch,
        }
    }
}

impl From<coverage::Finding> for Finding {
    fn from(finding: coverage::Finding) -> Self {
        Self {
            code: finding.code.name(),
            severity: finding.severity.to_string(),
            entries: finding.entries,
            gpus: finding.gpus,
            message: finding.message,
            advice: finding.advice,
            bytes: finding.bytes,
        }
    }
}

#[pymethods]
impl CheckedContainer {
    fn __repr__(&self) -> String {
        format!("<fatlink.CheckedContainer {}: {} findings>", self.number, self.findings.len())
    }
}

#[pymethods]
impl Finding {
    fn __repr__(&self) -> String {
        format!("<fatlink.Finding {} {}: {}>", self.code, self.severity, self.message)
    }
}

/// Returns what is wrong with the file itself, and what was found in each of its containers.
#[pyfunction]
#[pyo3(signature = (source, *, driver = None, toolkit = None, scan = false))]
pub fn check(
    py: Python<'_>,
    source: Source,
    driver: Option<&str>,
    toolkit: Option<&str>,
    scan: bool,
) -> PyResult<(Vec<Finding>, Vec<CheckedContainer>)> {
    let toolkit = toolkit.map(release).transpose()?;
    let options = CheckOptions { driver: self::driver(driver)?, toolkit, ..CheckOptions::default() };
    let report = source.parse(py, |data, read_thin| {
        let fatbins = coverage::compared_containers(data, &mut *read_thin, search(scan))?;
        let report = CheckReport::new(&fatbins, &options).with_bundles(&coverage::hip_bundles(data, &mut *read_thin)?);
        let mut of_host = coverage::check_host_code(data, read_thin)?;
        of_host.extend(coverage::shared_kernels(data, &fatbins, &options));
        of_host.extend(coverage::uneven_targets(&fatbins, &options));
        Ok(report.with_findings(of_host))
    })?;
    let of_file = report.findings.into_iter().map(Finding::from).collect();
    Ok((of_file, report.containers.into_iter().map(CheckedContainer::from).collect()))
}

fn release(text: &str) -> Result<CudaRelease, Failure> {
    text.parse().map_err(|error| Failure::Argument(format!("{error}")))
}
