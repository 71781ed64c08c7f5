//! The findings of [`check`](super::check), each with its code, severity and advice.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::GpuArch;

/// The severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// Worth knowing.
    Note,
    /// Works, but perhaps not as intended.
    Warning,
    /// Fails on some GPU.
    Error,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        })
    }
}

/// The kind of a finding; the codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum FindingCode {
    /// FB001: machine code on which the driver crashes.
    CrashesDriver,
    /// FB002: an image that cannot be read.
    Damaged,
    /// FB003: PTX that the named driver cannot compile.
    PtxTooNew,
    /// FB004: an entry that fails is chosen before one that would run.
    HidesGoodEntry,
    /// FB005: LTO-IR in an image that is no input of a link.
    LtoIr,
    /// FB006: several entries of one kind and architecture.
    Duplicates,
    /// FB007: an image for another architecture than its label says.
    WrongLabel,
    /// FB008: no PTX that later GPUs can compile.
    NoForwardPtx,
    /// FB009: an entry of a newer toolkit than the others, or than the one named.
    NewerToolkit,
    /// FB010: machine code of a toolkit that the named driver does not know.
    SassTooNew,
    /// FB011: a compression that the named driver does not know.
    CompressionTooNew,
    /// FB012: an entry of a kind that no driver is known to load.
    UnknownKind,
    /// FB013: no GPU runs anything.
    RunsNowhere,
    /// FB014: some objects of a device link have PTX and others have none.
    PartsWithoutPtx,
    /// FB015: a device link lowered the virtual architecture.
    LoweredArch,
    /// FB016: a cubin's section of an unknown name.
    UnknownSection,
    /// FB017: the host code has offload entries, and nothing registers images for them.
    ForgottenLink,
    /// FB018: the host code has offload entries in the form of clang 15 to 20.
    FormerEntries,
}

impl FindingCode {
    /// `FB001` and so on.
    pub fn name(self) -> &'static str {
        self.text().0
    }

    /// Advice.
    pub fn advice(self) -> &'static str {
        self.text().1
    }

    fn text(self) -> (&'static str, &'static str) {
        match self {
            FindingCode::CrashesDriver => ("FB001", "build the image again, and never load this one"),
            FindingCode::Damaged => ("FB002", "build the image again"),
            FindingCode::PtxTooNew => (
                "FB003",
                "ship PTX of an older version (an older toolkit's, or with clang's --cuda-feature=+ptxNN), or ask for a newer driver",
            ),
            FindingCode::HidesGoodEntry => {
                ("FB004", "remove or repair the entry that fails: the driver takes one entry and tries no other")
            }
            FindingCode::LtoIr => (
                "FB005",
                "link it and ship the result: no driver loads it, and drivers before that of CUDA 12.0 refused some images with it",
            ),
            FindingCode::Duplicates => {
                ("FB006", "leave one of them: the others never run on any GPU, or run by accident")
            }
            FindingCode::WrongLabel => ("FB007", "give the image the architecture that it was compiled for"),
            FindingCode::NoForwardPtx => {
                ("FB008", "add PTX without a suffix (--offload-arch or code=compute_NN) if later GPUs are to run it")
            }
            FindingCode::NewerToolkit => {
                ("FB009", "compile all with one toolkit, or ask for the driver that the newest needs")
            }
            FindingCode::SassTooNew => ("FB010", "compile with an older toolkit, or ask for a newer driver"),
            FindingCode::CompressionTooNew => {
                ("FB011", "compress with --compress-mode=speed (LZ4) or not at all, or ask for a newer driver")
            }
            FindingCode::UnknownKind => ("FB012", "remove it, or check on a GPU what becomes of it"),
            FindingCode::RunsNowhere => {
                ("FB013", "add code for the GPUs that it is for: machine code, or PTX for NVIDIA's")
            }
            FindingCode::PartsWithoutPtx => (
                "FB014",
                "compile all objects with the same -gencode options: the driver links the program again for other GPUs, as far as each object has an image for them",
            ),
            FindingCode::LoweredArch => (
                "FB015",
                "link it for an architecture that all parts, libcudadevrt too, have code for: CUB and Thrust ask the CUDA runtime for this number, and launch nothing if it is lower than the one that they were compiled for",
            ),
            FindingCode::UnknownSection => (
                "FB016",
                "build the image again if the name looks damaged: the driver skips sections that it does not know",
            ),
            FindingCode::ForgottenLink => {
                ("FB017", "link it with clang's --offload-link, or with fatlink as the linker (-fuse-ld=fatlink)")
            }
            FindingCode::FormerEntries => (
                "FB018",
                "compile it with clang 22, or link it with the clang-linker-wrapper of the clang that compiled it",
            ),
        }
    }
}

impl fmt::Display for FindingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl Serialize for FindingCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

/// A fault or remark about a fatbin. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// Its kind.
    pub code: FindingCode,
    /// Its severity.
    pub severity: Severity,
    /// The numbers of the entries concerned, from 1.
    pub entries: Vec<usize>,
    /// The GPUs concerned, if not all: `sm_90`.
    pub gpus: Vec<String>,
    /// The message.
    pub message: String,
    /// The advice.
    pub advice: &'static str,
}

impl Finding {
    pub(super) fn new(code: FindingCode, severity: Severity, entries: Vec<usize>, message: String) -> Self {
        Self { code, severity, entries, gpus: Vec::new(), message, advice: code.advice() }
    }

    #[must_use]
    pub(super) fn on(mut self, gpus: &[GpuArch]) -> Self {
        self.gpus = gpus.iter().map(GpuArch::to_string).collect();
        self
    }
}
