//! The reports of `offload-bundle explain` and `offload-bundle check`, for JSON and for [text](super::text).

use std::collections::{BTreeSet, HashSet};

use serde::Serialize;

use super::check::CheckOptions;
use super::check_link::check_in;
use super::code::Code;
use super::containers::{ContainerPlace, FoundContainer, Role};
use super::driver::{Driver, Runtime};
use super::equal::droppable;
use super::findings::{Finding, Severity};
use super::hip::{self, AmdGpu, FoundBundle};
use super::needs::{DriverNeeds, driver_needs};
use super::relink::outcome_in_program;
use super::select::{LinkPart, Outcome};
use super::text::{self, Detail};
use crate::GpuArch;
use crate::arch::table::KNOWN;

/// What a driver does with each fatbin of a file, and HIP's runtime with each bundle. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ExplainReport {
    /// The driver that was named, and what it supports.
    pub driver: String,
    /// One for each fatbin and bundle.
    pub containers: Vec<ContainerReport>,
}

/// What a driver does with one fatbin.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct ContainerReport {
    /// Where it is.
    #[serde(flatten)]
    pub place: ContainerPlace,
    /// Whose runtime loads it.
    pub platform: Platform,
    /// What the prediction rests on.
    pub basis: Basis,
    /// What it is for.
    #[serde(flatten)]
    pub role: RoleReport,
    /// Its entries, by name: `sass 90a`.
    pub entries: Vec<String>,
    /// One for each GPU; none of a part of a device link of this file, as the driver does not load that by itself.
    pub gpus: Vec<GpuReport>,
}

/// Whose runtime loads a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Platform {
    /// CUDA's driver: the container is a fatbin.
    Cuda,
    /// HIP's runtime: the container is a bundle.
    Hip,
}

/// What a prediction rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Basis {
    /// What was seen on a GPU.
    Observed,
    /// What is documented.
    Documented,
}

/// What a fatbin is for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoleReport {
    /// `whole`, `linked` (by nvcc's device link), `object` (a part of one) or `data` (outside of the sections for device code).
    pub role: &'static str,
    /// Of an object: the name of its source file, if its id has it.
    pub module: Option<String>,
    /// Of a linked one: the numbers of its objects' fatbins.
    pub objects: Vec<usize>,
}

impl RoleReport {
    fn new(role: &Role) -> Self {
        let (word, module, objects) = match role {
            Role::Whole => ("whole", None, Vec::new()),
            Role::Linked(objects) => ("linked", None, objects.clone()),
            Role::Object(module) => ("object", module.clone(), Vec::new()),
            Role::Data => ("data", None, Vec::new()),
        };
        Self { role: word, module, objects }
    }
}

/// What a driver does with one fatbin on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuReport {
    /// `sm_90`.
    pub gpu: String,
    /// What runs (`sass 90a`, `ptx 80 #2`), or why nothing does (`no-binary`), or cannot fail (`no-kernels`).
    pub outcome: String,
    /// Whether a kernel can be launched, or there is none.
    pub runs: bool,
    /// The driver's name for the error.
    pub error: Option<&'static str>,
    /// The entry that the driver takes, from 1, whether it runs or not.
    pub entry: Option<usize>,
    /// The reason.
    pub reason: String,
    /// Why the driver passes over the other entries.
    pub passed_over: Vec<PassedOverReport>,
    /// The entries of the objects' fatbins that the driver links again.
    pub parts: Vec<PartReport>,
}

/// The entry of an object's fatbin that the driver links.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PartReport {
    /// The fatbin's number.
    pub container: usize,
    /// The entry's number in it, from 1.
    pub entry: usize,
    /// `ptx 80`.
    pub name: String,
}

/// Why a driver does not take an entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct PassedOverReport {
    /// Its number, from 1.
    pub entry: usize,
    /// Why not.
    pub why: String,
}

impl ExplainReport {
    /// The outcomes for one GPU, or for all that the newest CUDA release generates code for.
    pub fn new(containers: &[FoundContainer], gpu: Option<GpuArch>, runtime: impl Into<Runtime>) -> Self {
        Self::of_sections(containers, gpu, runtime, &[])
    }

    /// The same for the fatbins in these sections alone, as if each were all of its program; for all of them, if `sections` is empty.
    pub fn of_sections(
        containers: &[FoundContainer],
        gpu: Option<GpuArch>,
        runtime: impl Into<Runtime>,
        sections: &[String],
    ) -> Self {
        let runtime = runtime.into();
        let gpus = gpu.map_or_else(|| gpus(containers, runtime), |gpu| vec![gpu]);
        let parts = parts_of_links(containers);
        let row = |found: &FoundContainer, gpu: &GpuArch| GpuReport::of_machine(found, containers, *gpu, runtime);
        let report = |found: &FoundContainer| ContainerReport {
            place: found.place.clone(),
            platform: Platform::Cuda,
            basis: Basis::Observed,
            role: RoleReport::new(&found.role),
            entries: found.codes.iter().map(Code::name).collect(),
            gpus: match sections.is_empty() && parts.contains(&found.place.container) {
                true => Vec::new(),
                false => gpus.iter().map(|gpu| row(found, gpu)).collect(),
            },
        };
        let shown = containers.iter().filter(|found| found.place.is_in(sections));
        Self { driver: runtime.driver.description(), containers: shown.map(report).collect() }
    }

    /// The same with the outcomes for HIP bundles, on one GPU or on all that are known; for those in these sections alone, unless there are
    /// none.
    #[must_use]
    pub fn with_bundles(mut self, bundles: &[FoundBundle], gpu: Option<&AmdGpu>, sections: &[String]) -> Self {
        let gpus = gpu.map_or_else(AmdGpu::all, |gpu| vec![gpu.clone()]);
        let before = self.containers.len();
        let shown = bundles.iter().filter(|bundle| bundle.place.is_in(sections));
        self.containers.extend(shown.map(|bundle| hip::report::container(bundle, &gpus, before)));
        self
    }

    /// Whether each fatbin runs on at least one of the selected GPUs, but for those that the program's own code chooses among.
    pub fn runs(&self) -> bool {
        let is_loaded = |container: &&ContainerReport| !container.gpus.is_empty() && container.role.role != "data";
        let mut loaded = self.containers.iter().filter(is_loaded);
        loaded.all(|container| container.gpus.iter().any(|gpu| gpu.runs))
    }

    /// Formats the report as tables under headings: one for all containers with the same outcomes, or one for each.
    pub fn text(&self, detail: Detail) -> String {
        text::explain(&[(None, self)], detail)
    }

    /// Formats a line with the outcomes for each fatbin; if there are several, the line starts with the fatbin.
    pub fn brief(&self) -> String {
        text::brief(self)
    }
}

/// The GPUs that the newest CUDA release generates code for, former ones that these fatbins serve, and those that only these fatbins know.
fn gpus(containers: &[FoundContainer], runtime: Runtime) -> Vec<GpuArch> {
    /// A damaged file could name any number of them.
    const MOST_UNKNOWN: usize = 8;
    let loadable = containers.iter().flat_map(|found| &found.codes).filter(|code| code.is_loadable());
    let unknown = loadable.map(|code| GpuArch::plain(code.arch.number)).filter(|arch| !KNOWN.knows(*arch));
    let unknown: BTreeSet<GpuArch> = unknown.collect();
    let is_served = |gpu: &GpuArch| {
        let mut rows = containers.iter().map(|found| GpuReport::of_machine(found, containers, *gpu, runtime));
        rows.any(|row| row.runs && (row.entry.is_some() || !row.parts.is_empty()))
    };
    let others = KNOWN.former_gpus().filter(is_served).chain(unknown.into_iter().take(MOST_UNKNOWN));
    let mut all: Vec<GpuArch> = KNOWN.current_gpus().chain(others).collect();
    all.sort();
    all
}

/// The numbers of the fatbins that a device link of the same file has taken in.
fn parts_of_links(all: &[FoundContainer]) -> HashSet<usize> {
    let parts = |found: &FoundContainer| match &found.role {
        Role::Linked(objects) => objects.clone(),
        _ => Vec::new(),
    };
    all.iter().flat_map(parts).collect()
}

impl GpuReport {
    /// What becomes of a fatbin on a machine with this GPU.
    fn of_machine(found: &FoundContainer, all: &[FoundContainer], gpu: GpuArch, runtime: Runtime) -> Self {
        match runtime.driver.on(gpu) {
            Ok(driver) => {
                let mut row = Self::new(&outcome_in_program(found, all, gpu, Runtime { driver, ..runtime }));
                if let (Driver::NewEnough, Driver::Branch(last)) = (runtime.driver, driver) {
                    row.reason += &format!("; {last} was the last driver for it");
                }
                row
            }
            Err(reason) => Self::new(&Outcome::without_machine(gpu, reason)),
        }
    }

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
            parts: outcome.parts.iter().map(PartReport::new).collect(),
        }
    }
}

impl PartReport {
    fn new(part: &LinkPart<'_>) -> Self {
        Self { container: part.container, entry: part.code.number, name: part.code.name() }
    }
}

/// What [`super::check()`] found in each fatbin and bundle of a file. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckReport {
    /// The driver that was named, and what it supports.
    pub driver: String,
    /// One for each fatbin and bundle.
    pub containers: Vec<CheckedContainer>,
    /// What is wrong with the file beside its fatbins.
    pub findings: Vec<Finding>,
}

/// What [`super::check()`] found in one fatbin or bundle.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct CheckedContainer {
    /// Where it is.
    #[serde(flatten)]
    pub place: ContainerPlace,
    /// Whose runtime loads it.
    pub platform: Platform,
    /// What was found, the worst first.
    pub findings: Vec<Finding>,
    /// The drivers that load all of it.
    pub needs: DriverNeeds,
}

impl CheckReport {
    /// Checks each fatbin.
    pub fn new(containers: &[FoundContainer], options: &CheckOptions) -> Self {
        let droppable = droppable(containers, options.targets);
        let report = |found: &FoundContainer| CheckedContainer {
            place: found.place.clone(),
            platform: Platform::Cuda,
            findings: check_in(found, containers, &droppable, options),
            needs: driver_needs(&found.codes),
        };
        Self {
            driver: options.driver.description(),
            containers: containers.iter().map(report).collect(),
            findings: Vec::new(),
        }
    }

    /// The same with what was found in HIP bundles.
    #[must_use]
    pub fn with_bundles(mut self, bundles: &[FoundBundle]) -> Self {
        let before = self.containers.len();
        let checked = bundles.iter().map(|bundle| CheckedContainer {
            place: ContainerPlace { container: bundle.place.container + before, ..bundle.place.clone() },
            platform: Platform::Hip,
            findings: hip::check::findings(bundle),
            needs: DriverNeeds::default(),
        });
        self.containers.extend(checked);
        self
    }

    /// The same with what was found in the file beside its fatbins.
    #[must_use]
    pub fn with_findings(self, findings: Vec<Finding>) -> Self {
        Self { findings, ..self }
    }

    /// The severity of the worst finding.
    pub fn worst(&self) -> Option<Severity> {
        let of_containers = self.containers.iter().flat_map(|container| &container.findings);
        of_containers.chain(&self.findings).map(|finding| finding.severity).max()
    }

    /// Formats a paragraph for each finding, or a note that there is none: once for all containers with the same findings, or for each.
    pub fn text(&self, detail: Detail) -> String {
        text::check(&[(None, self)], detail)
    }
}
