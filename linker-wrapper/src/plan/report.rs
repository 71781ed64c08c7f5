//! `--offload-plan`: prints the plan of the device links before they run. The field names are the keys of the JSON form.

use std::sync::{Mutex, PoisonError};

use llvm_passes::partition::Partition;
use serde::{Serialize, Serializer};

use crate::cli::values::{PlanRequest, ReportForm};
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::sys::temp_files;

/// The plan of a link.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PlanReport {
    /// The program, library or bundle that the link writes.
    pub output: String,
    /// The archive members whose device code is linked.
    pub members: Vec<MemberReport>,
    /// Which kernels the program can launch; none if all that are linked are compiled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernels: Option<KernelsReport>,
    /// The device links, by kind.
    pub targets: Vec<TargetReport>,
}

/// An archive member and the reason for linking it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MemberReport {
    /// `archive(member)`.
    pub file: String,
    /// A referenced symbol that it defines; none if it may define one that LTO-IR references, whose symbols cannot be read.
    pub symbol: Option<String>,
    /// Whether that is a `host` or a `device` symbol.
    pub of: &'static str,
}

/// What `--offload-gc=host` found.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct KernelsReport {
    /// Why all kernels are kept, if that is so.
    pub keeps_all: Option<String>,
    /// Kernels that the program cannot launch. Those that other device code refers to are compiled all the same.
    pub dead: Vec<String>,
    /// The others that are registered.
    pub alive: Vec<LiveKernel>,
}

/// A kernel that the program can launch.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct LiveKernel {
    /// Its name.
    pub kernel: String,
    /// The way to its stub: what makes the first section part of the program, and sections with their files.
    pub path: Vec<String>,
}

/// The device link of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TargetReport {
    /// `cuda`, `hip` or `openmp`.
    pub platform: &'static str,
    /// `sm_90`, or the triple of a host target.
    pub target: String,
    /// The images, in link order.
    pub images: Vec<ImageReport>,
    /// Whether the result is in the cache, so that nothing is read or compiled.
    pub cached: bool,
    /// The prevailing definition of each symbol.
    pub symbols: Vec<SymbolReport>,
    /// What is generated from this target's code.
    #[serde(flatten, serialize_with = "as_fields")]
    pub outputs: Vec<Outputs>,
    /// The backend that generates machine code.
    pub backend: Option<BackendReport>,
    /// Why the program is compiled in one piece, if there is a reason other than its size.
    pub not_cut: Option<String>,
    /// Kernels that the program cannot launch and that are compiled all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub dead_but_kept: Vec<DeadKernel>,
    /// Kernels that are not compiled because another one is equal.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub folded: Vec<FoldedKernel>,
    /// Why equal kernels are compiled nevertheless, if `--offload-icf=` requests otherwise.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_folded: Vec<String>,
    /// The jobs that run, in the order of the partitions.
    pub jobs: Vec<JobReport>,
}

/// Code of one form that is generated from a target's code.
#[derive(Debug, Clone, PartialEq)]
pub struct Outputs {
    /// Its key in the JSON form.
    pub key: &'static str,
    /// Its name in the text.
    pub name: &'static str,
    /// What it is generated for.
    pub targets: Vec<String>,
}

fn as_fields<S: Serializer>(outputs: &[Outputs], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(outputs.iter().map(|output| (output.key, &output.targets)))
}

/// A kernel that the program cannot launch and that is compiled all the same.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DeadKernel {
    /// Its name.
    pub kernel: String,
    /// Why it is compiled, as a sentence without a full stop.
    pub reason: String,
}

/// A kernel that is not compiled because another one is equal.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FoldedKernel {
    /// Its name.
    pub kernel: String,
    /// The kernel that is compiled.
    pub equal: String,
}

/// A device image.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ImageReport {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// Offset in the file; none for an image inside bitcode.
    pub offset: Option<u64>,
    /// The form of the code.
    pub code: &'static str,
}

/// A symbol and its prevailing definition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct SymbolReport {
    /// Its name.
    pub symbol: String,
    /// The image whose definition prevails, as an index into `images`.
    pub image: usize,
    /// Whether it stays visible in the linked code.
    pub visible: bool,
}

/// A backend and the reason for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendReport {
    /// Its name, as in `--offload-backend=`.
    pub name: &'static str,
    /// Its program or library.
    pub file: String,
    /// The reason for the choice.
    pub reason: String,
}

/// The compilation of one partition.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct JobReport {
    /// `worker`, or `thread` for a program that is compiled in this process.
    pub runs_in: &'static str,
    /// The kernels. Empty for a monolithic link, and for a partition of functions that the kernels of others share.
    pub kernels: Vec<String>,
    /// Instructions before optimization; for a monolithic link, an estimate from the size of the bitcode.
    pub instructions: u64,
    /// Number of units that it takes code from.
    pub units: usize,
}

/// Collects the plans of all kinds, which run in parallel, and prints them together when the last has arrived.
pub struct PlanPrinter<'a> {
    program: &'a str,
    requested: Option<&'a PlanRequest>,
    state: Mutex<State>,
}

struct State {
    report: PlanReport,
    /// Number of kinds whose plans have not arrived.
    missing: usize,
}

impl JobReport {
    /// Describes the job of a partition; one without parts is a program in one piece with this many `units`.
    pub fn of(partition: &Partition, units: usize) -> Self {
        let is_whole = partition.parts.is_empty();
        JobReport {
            runs_in: if is_whole { "thread" } else { "worker" },
            kernels: partition.kernels.clone(),
            instructions: partition.instructions,
            units: if is_whole { units } else { partition.parts.len() },
        }
    }
}

impl<'a> PlanPrinter<'a> {
    /// Creates a printer that waits for the targets of `kinds` kinds and adds them to `report`. Without a request it
    /// prints nothing.
    pub fn new(program: &'a str, requested: Option<&'a PlanRequest>, report: PlanReport, kinds: usize) -> Self {
        PlanPrinter { program, requested, state: Mutex::new(State { report, missing: kinds }) }
    }

    /// Adds the plan of one kind. `targets` is called only if the plan was requested.
    ///
    /// # Errors
    /// The file that the plan goes to cannot be written.
    pub fn add(&self, targets: impl FnOnce() -> Vec<TargetReport>) -> Result<(), Errors> {
        let Some(requested) = self.requested else { return Ok(()) };
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.report.targets.extend(targets());
        state.missing = state.missing.saturating_sub(1);
        if state.missing > 0 {
            return Ok(());
        }
        // The kinds finish in any order.
        state.report.targets.sort_by(|one, other| one.platform.cmp(other.platform));
        print(self.program, requested, &state.report)
    }
}

/// Prints a plan, or writes it to its file.
///
/// # Errors
/// The file cannot be written.
pub fn print(program: &str, requested: &PlanRequest, plan: &PlanReport) -> Result<(), Errors> {
    let text = match requested.report.form {
        ReportForm::Json => serde_json::to_string_pretty(plan).unwrap_or_default() + "\n",
        ReportForm::Text if requested.full => plan.full_text(),
        ReportForm::Text => plan.text(),
    };
    match &requested.report.file {
        Some(file) => temp_files::write_output(file, text.as_bytes()),
        None => {
            messages::report(program, &text);
            Ok(())
        }
    }
}
