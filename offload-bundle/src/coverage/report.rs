//! What `offload-bundle explain` and `offload-bundle check` have to say of a file, for JSON and for [text](super::text).

use serde::Serialize;

use super::GPUS;
use super::check::{CheckOptions, check};
use super::code::Code;
use super::containers::{FoundContainer, Place};
use super::driver::Driver;
use super::findings::{Finding, Severity};
use super::needs::{DriverNeeds, driver_needs};
use super::select::{Outcome, outcome};
use super::text;
use crate::GpuArch;

/// What a driver does with each fatbin of a file. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Report {
    /// The driver that was asked for, and what it knows.
    pub driver: String,
    /// One for each fatbin.
    pub containers: Vec<ContainerReport>,
}

/// What a driver does with one fatbin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerReport {
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// Its entries, by name: `sass 90a`.
    pub entries: Vec<String>,
    /// One for each GPU.
    pub gpus: Vec<GpuReport>,
}

/// What a driver does with one fatbin on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuReport {
    /// `sm_90`.
    pub gpu: String,
    /// What runs (`sass 90a`, `ptx 80 #2`), or why nothing does (`no-binary`).
    pub outcome: String,
    /// Whether a kernel can be launched.
    pub runs: bool,
    /// The driver's name of the error.
    pub error: Option<&'static str>,
    /// The entry that the driver takes, from 1, whether it runs or not.
    pub entry: Option<usize>,
    /// Why.
    pub reason: String,
    /// Why not the other entries.
    pub passed_over: Vec<PassedOverReport>,
}

/// Why a driver does not take an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassedOverReport {
    /// Its number, from 1.
    pub entry: usize,
    /// Why not.
    pub why: String,
}

impl Report {
    /// The outcomes for one GPU, or for all of [`GPUS`].
    pub fn new(containers: &[FoundContainer], gpu: Option<GpuArch>, driver: Driver) -> Self {
        let gpus = gpu.map_or_else(|| GPUS.map(GpuArch::plain).to_vec(), |gpu| vec![gpu]);
        let report = |found: &FoundContainer| ContainerReport {
            place: found.place.clone(),
            entries: found.codes.iter().map(Code::name).collect(),
            gpus: gpus.iter().map(|gpu| GpuReport::new(&outcome(&found.codes, *gpu, driver))).collect(),
        };
        Self { driver: driver.description(), containers: containers.iter().map(report).collect() }
    }

    /// Whether each fatbin runs on at least one of the GPUs asked for.
    pub fn runs(&self) -> bool {
        self.containers.iter().all(|container| container.gpus.iter().any(|gpu| gpu.runs))
    }

    /// As tables under headings.
    pub fn text(&self) -> String {
        text::report(self)
    }

    /// For each fatbin a line with no more than the outcomes; if there are several, with the fatbin in front.
    pub fn brief(&self) -> String {
        text::brief(self)
    }
}

impl GpuReport {
    fn new(outcome: &Outcome<'_>) -> Self {
        let passed_over = outcome.passed_over.iter();
        Self {
            gpu: outcome.gpu.to_string(),
            outcome: outcome.brief(),
            runs: outcome.verdict.runs(),
            error: outcome.verdict.error_name(),
            entry: outcome.code.map(|code| code.number),
            reason: outcome.reason.clone(),
            passed_over: passed_over
                .map(|other| PassedOverReport { entry: other.code.number, why: other.why.to_string() })
                .collect(),
        }
    }
}

/// What [`check`] found in each fatbin of a file. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The driver that was asked for, and what it knows.
    pub driver: String,
    /// One for each fatbin.
    pub containers: Vec<CheckedContainer>,
}

/// What [`check`] found in one fatbin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedContainer {
    /// Where it is.
    #[serde(flatten)]
    pub place: Place,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// The drivers that load all of it.
    pub needs: DriverNeeds,
}

impl CheckReport {
    /// Checks each fatbin.
    pub fn new(containers: &[FoundContainer], options: &CheckOptions) -> Self {
        let report = |found: &FoundContainer| CheckedContainer {
            place: found.place.clone(),
            findings: check(&found.codes, options),
            needs: driver_needs(&found.codes),
        };
        Self { driver: options.driver.description(), containers: containers.iter().map(report).collect() }
    }

    /// How bad the worst finding is.
    pub fn worst(&self) -> Option<Severity> {
        self.containers.iter().flat_map(|container| &container.findings).map(|finding| finding.severity).max()
    }

    /// A paragraph for each finding, or a note that there is none.
    pub fn text(&self) -> String {
        text::check_report(self)
    }
}
