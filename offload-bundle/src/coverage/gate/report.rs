//! The verdict on files that one process needs together.

use std::collections::BTreeMap;

use serde::Serialize;

use super::super::findings::{Finding, FindingCode};
use super::super::text::OfFile;
use super::cell::{Cell, CellVerdict};
use super::claims::Claims;
use super::judge::FileGate;
use super::requirement::{JitRule, Requirement, Rung};

/// What becomes of files together. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateReport {
    /// Whether all of them run as required, and are what is claimed.
    pub passes: bool,
    /// Whether the driver may compile PTX.
    pub jit_allowed: bool,
    /// The worst of all files, in the order of the cells of each.
    pub together: Vec<SetCell>,
    /// The GPUs on which all files run as required with all drivers that know them.
    pub serves: Vec<String>,
    /// What is wrong.
    pub findings: Vec<GateFinding>,
    /// Each file.
    pub files: Vec<OfFile<FileGate>>,
    /// Objects and archives that were passed over: no process loads them.
    pub unlinked: usize,
    /// What assembled the PTX: `ptxas 13.0`.
    pub assemblers: Vec<String>,
    /// Why files could not be read, so that nothing is known of them.
    pub unreadable: Vec<String>,
}

/// What becomes of all files with one driver on one GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct SetCell {
    /// `sm_90`, `gfx90a`.
    pub gpu: String,
    /// `580`; `None` for a driver that is new enough, and for HIP's runtime.
    pub driver: Option<u32>,
    /// The worst verdict.
    pub verdict: CellVerdict,
    /// Whether that is what was required.
    pub passes: bool,
    /// The weakest of what the files' verdicts stand on.
    pub rung: Rung,
    /// How many files are not what was required.
    pub failing: usize,
    /// The time in milliseconds that ptxas took for all that the driver compiles.
    pub compile_ms: Option<u64>,
}

/// What is wrong with one file, or with all of them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateFinding {
    /// The file, if it is one.
    pub file: Option<String>,
    /// What is wrong.
    #[serde(flatten)]
    pub finding: Finding,
}

impl GateReport {
    /// Judges files together. `unlinked` is the number of objects and archives that were passed over.
    pub fn new(files: Vec<OfFile<FileGate>>, requirement: &Requirement, claims: &[Claims], unlinked: usize) -> Self {
        let together = together(&files, requirement);
        let mut findings: Vec<GateFinding> = files.iter().flat_map(of_file).collect();
        findings.extend(unserved(&files, &together, requirement));
        let claimed = claims.iter().flat_map(|claims| claims.findings(&files));
        findings.extend(claimed.map(|(file, finding)| GateFinding { file, finding }));
        let serves = requirement.gpus.names().into_iter().filter(|gpu| serves(&together, gpu)).collect();
        let jit_allowed = requirement.jit == JitRule::Allowed;
        Self {
            passes: findings.is_empty(),
            jit_allowed,
            together,
            serves,
            findings,
            files,
            unlinked,
            assemblers: Vec::new(),
            unreadable: Vec::new(),
        }
    }

    /// The same with the reasons why other files could not be read: what is not known fails.
    #[must_use]
    pub fn with_unreadable(self, unreadable: Vec<String>) -> Self {
        match unreadable.is_empty() {
            true => self,
            false => Self { passes: false, serves: Vec::new(), unreadable, ..self },
        }
    }

    /// The same with the names of what assembled the PTX.
    #[must_use]
    pub fn with_assemblers(self, assemblers: Vec<String>) -> Self {
        Self { assemblers, ..self }
    }
}

fn serves(together: &[SetCell], gpu: &str) -> bool {
    let mut cells = together.iter().filter(|cell| cell.gpu == gpu).peekable();
    let is_judged = together.iter().any(|cell| cell.gpu == gpu && cell.verdict != CellVerdict::Absent);
    cells.peek().is_some() && is_judged && cells.all(|cell| cell.passes)
}

fn together(files: &[OfFile<FileGate>], requirement: &Requirement) -> Vec<SetCell> {
    let count = files.first().map_or(0, |of| of.report.cells.len());
    let column = |index: usize| files.iter().filter_map(move |of| of.report.cells.get(index));
    let cell = |index: usize| {
        let first = column(index).next()?;
        let verdict = column(index).map(|cell| cell.verdict).max()?;
        let judged = || column(index).filter(|cell| cell.verdict != CellVerdict::Absent);
        let times: Vec<u64> = column(index).filter_map(|cell| cell.compile_ms).collect();
        Some(SetCell {
            gpu: first.gpu.clone(),
            driver: first.driver,
            verdict,
            passes: verdict.passes(requirement.jit, requirement.kernels) && column(index).all(|cell| cell.passes),
            rung: judged().map(|cell| cell.rung).min().unwrap_or(Rung::Documented),
            failing: column(index).filter(|cell| !cell.passes).count(),
            compile_ms: (!times.is_empty()).then(|| times.iter().sum()),
        })
    };
    (0..count).filter_map(cell).collect()
}

/// GPUs of which nothing could be judged: no file has code of the vendor, or none of the drivers knows the GPU.
fn unserved(files: &[OfFile<FileGate>], together: &[SetCell], requirement: &Requirement) -> Option<GateFinding> {
    let is_judged = |gpu: &String| together.iter().any(|cell| cell.gpu == *gpu && cell.verdict != CellVerdict::Absent);
    // The GPU of a range that no machine has which runs the files.
    let cells = || files.iter().flat_map(|of| &of.report.cells);
    let is_excused = |gpu: &String| {
        !requirement.named.contains(gpu) && cells().any(|cell| cell.gpu == *gpu && cell.is_of_other_host)
    };
    let mut nothing = requirement.gpus.names();
    nothing.retain(|gpu| !is_judged(gpu) && !is_excused(gpu));
    if nothing.is_empty() || together.is_empty() {
        return None;
    }
    let message = "no file has kernels for this GPU's vendor and processor, or none of the drivers runs it".to_owned();
    Some(GateFinding { file: None, finding: Finding::error_on(FindingCode::DoesNotRun, message, nothing) })
}

/// The cells of a file that are not what was required, those with the same reason together.
fn of_file(of: &OfFile<FileGate>) -> Vec<GateFinding> {
    let mut groups: BTreeMap<(FindingCode, String), Vec<&Cell>> = BTreeMap::new();
    for cell in of.report.cells.iter().filter(|cell| !cell.passes) {
        groups.entry((code(cell), message(cell, of.report.kernels))).or_default().push(cell);
    }
    let finding = |((code, message), cells): ((FindingCode, String), Vec<&Cell>)| {
        let finding = Finding::error_on(code, format!("{}{message}", with_drivers(&cells)), gpus(&cells));
        GateFinding { file: Some(of.file.clone()), finding }
    };
    groups.into_iter().map(finding).collect()
}

fn code(cell: &Cell) -> FindingCode {
    match cell.verdict {
        CellVerdict::Jit => FindingCode::CompiledAtStart,
        CellVerdict::Partly => FindingCode::KernelsDoNotRun,
        CellVerdict::Unknown => FindingCode::UnknownOutcome,
        _ => cell.fault.unwrap_or(FindingCode::DoesNotRun),
    }
}

fn message(cell: &Cell, kernels: usize) -> String {
    match cell.verdict {
        CellVerdict::Jit => format!("no machine code: the driver compiles {} at the first start", cell.outcome),
        CellVerdict::Partly if cell.lacking > 0 => {
            let more = if cell.lacking > cell.kernels.len() { ", ..." } else { "" };
            let named = cell.kernels.join(", ");
            format!("{} of {kernels} kernels do not run ({named}{more}): {}", cell.lacking, cell.reason)
        }
        _ => cell.reason.clone(),
    }
}

/// `with driver 535, 580: `.
fn with_drivers(cells: &[&Cell]) -> String {
    let mut drivers: Vec<u32> = cells.iter().filter_map(|cell| cell.driver).collect();
    drivers.sort_unstable();
    drivers.dedup();
    let names: Vec<String> = drivers.iter().map(u32::to_string).collect();
    match names.as_slice() {
        [] => String::new(),
        [one] => format!("with driver {one}: "),
        more => format!("with drivers {}: ", more.join(", ")),
    }
}

fn gpus(cells: &[&Cell]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for cell in cells {
        if !names.contains(&cell.gpu) {
            names.push(cell.gpu.clone());
        }
    }
    names
}
