//! One cell of the matrix: a file with one driver on one GPU.

use serde::Serialize;

use super::super::findings::FindingCode;
use super::requirement::{JitRule, KernelRule, Rung};

/// What becomes of a file. Later ones are worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CellVerdict {
    /// No such machine exists, or the file has no code of this vendor: there is nothing to judge.
    Absent,
    /// Machine code for all kernels.
    Runs,
    /// All kernels run, and the driver compiles PTX for some of them.
    Jit,
    /// Some kernels run and some do not.
    Partly,
    /// What the driver does is not known.
    Unknown,
    /// Nothing runs.
    Fails,
}

impl CellVerdict {
    /// Its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            CellVerdict::Absent => "-",
            CellVerdict::Runs => "runs",
            CellVerdict::Jit => "jit",
            CellVerdict::Partly => "partly",
            CellVerdict::Unknown => "unknown",
            CellVerdict::Fails => "fails",
        }
    }

    /// Whether it is what was required.
    pub fn passes(self, jit: JitRule, kernels: KernelRule) -> bool {
        match self {
            CellVerdict::Absent | CellVerdict::Runs => true,
            CellVerdict::Jit => jit == JitRule::Allowed,
            CellVerdict::Partly => kernels == KernelRule::Any,
            CellVerdict::Unknown | CellVerdict::Fails => false,
        }
    }
}

/// What becomes of a file with one driver on one GPU. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Cell {
    /// `sm_90`, `gfx90a`.
    pub gpu: String,
    /// `580`; `None` for a driver that is new enough, and for HIP's runtime.
    pub driver: Option<u32>,
    /// What becomes of it.
    pub verdict: CellVerdict,
    /// Whether that is what was required.
    pub passes: bool,
    /// What the verdict stands on.
    pub rung: Rung,
    /// What runs: `sass 90`, or `ptx 80, sass 90`, if fatbins differ.
    pub outcome: String,
    /// Why it is not what was required, or why nothing is judged.
    pub reason: String,
    /// How many kernels do not run. Those of several fatbins count for each.
    pub lacking: usize,
    /// The first of them.
    pub kernels: Vec<String>,
    /// The time in milliseconds that ptxas took to assemble what the driver compiles, which is about that of the first start.
    pub compile_ms: Option<u64>,
    /// The finding that says why it fails, if that is a special one.
    #[serde(skip)]
    pub(super) fault: Option<FindingCode>,
    /// Whether there is nothing to judge because the GPU goes with other processors than the file's.
    #[serde(skip)]
    pub(super) is_of_other_host: bool,
    /// The PTX that the driver compiles: container and entry.
    #[serde(skip)]
    pub jit: Vec<(usize, usize)>,
}

impl Cell {
    /// A cell of which there is nothing to judge.
    pub(super) fn absent(gpu: String, driver: Option<u32>, reason: String) -> Self {
        Self::new(gpu, driver, CellVerdict::Absent, reason)
    }

    pub(super) fn new(gpu: String, driver: Option<u32>, verdict: CellVerdict, reason: String) -> Self {
        Self {
            gpu,
            driver,
            verdict,
            passes: true,
            rung: Rung::Documented,
            outcome: String::new(),
            reason,
            lacking: 0,
            kernels: Vec::new(),
            compile_ms: None,
            fault: None,
            is_of_other_host: false,
            jit: Vec::new(),
        }
    }
}
