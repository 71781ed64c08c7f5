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
    /// FB019: nothing of a file runs on a required GPU with a required driver.
    DoesNotRun,
    /// FB020: some kernels of a file do not run where they are required to.
    KernelsDoNotRun,
    /// FB021: the driver would compile PTX where only machine code is allowed.
    CompiledAtStart,
    /// FB022: what the driver does is not known.
    UnknownOutcome,
    /// FB023: something is claimed that the files do not have.
    NotShipped,
    /// FB024: the files have something that is not claimed.
    NotClaimed,
    /// FB025: no assembler that was tried assembles the PTX that the driver would compile.
    NotAssembled,
    /// FB026: the driver of this machine did not load a module.
    NotLoaded,
    /// FB027: an image whose code equals that of another one, which every GPU that runs it would run in its place.
    EqualImages,
    /// FB028: the host code registers a kernel or variable that no image has.
    MissingSymbol,
    /// FB029: the host code registers a kernel or variable that some images lack.
    PartialSymbol,
    /// FB030: two kernels are registered under one address.
    SameAddress,
    /// FB031: the start-up code registers a container that is not there.
    LostContainer,
    /// FB032: a kernel has less registers or stack than something that it calls needs.
    UncoveredCall,
    /// FB033: a device link has no kernels for a GPU, although its objects have some.
    LinkWithoutKernels,
    /// FB034: images that drivers pass over, or may, because they are parts of a concatenation.
    Concatenated,
    /// FB035: a kernel that the runtime takes from a fatbin without code for a GPU that another fatbin has code for.
    SharedKernel,
    /// FB036: fatbins of a file without code for GPUs that other fatbins of it have code for.
    UnevenTargets,
}

impl FindingCode {
    /// All, in order.
    pub const ALL: [FindingCode; 36] = [
        FindingCode::CrashesDriver,
        FindingCode::Damaged,
        FindingCode::PtxTooNew,
        FindingCode::HidesGoodEntry,
        FindingCode::LtoIr,
        FindingCode::Duplicates,
        FindingCode::WrongLabel,
        FindingCode::NoForwardPtx,
        FindingCode::NewerToolkit,
        FindingCode::SassTooNew,
        FindingCode::CompressionTooNew,
        FindingCode::UnknownKind,
        FindingCode::RunsNowhere,
        FindingCode::PartsWithoutPtx,
        FindingCode::LoweredArch,
        FindingCode::UnknownSection,
        FindingCode::ForgottenLink,
        FindingCode::FormerEntries,
        FindingCode::DoesNotRun,
        FindingCode::KernelsDoNotRun,
        FindingCode::CompiledAtStart,
        FindingCode::UnknownOutcome,
        FindingCode::NotShipped,
        FindingCode::NotClaimed,
        FindingCode::NotAssembled,
        FindingCode::NotLoaded,
        FindingCode::EqualImages,
        FindingCode::MissingSymbol,
        FindingCode::PartialSymbol,
        FindingCode::SameAddress,
        FindingCode::LostContainer,
        FindingCode::UncoveredCall,
        FindingCode::LinkWithoutKernels,
        FindingCode::Concatenated,
        FindingCode::SharedKernel,
        FindingCode::UnevenTargets,
    ];

    /// What it is about, in a line.
    pub fn title(self) -> &'static str {
        match self {
            FindingCode::CrashesDriver => "Machine code on which the driver crashes",
            FindingCode::Damaged => "An image that is damaged, or lacks something that the driver needs",
            FindingCode::PtxTooNew => "PTX that the driver does not know",
            FindingCode::HidesGoodEntry => "An entry that fails is taken before one that would run",
            FindingCode::LtoIr => "LTO-IR that nothing links",
            FindingCode::Duplicates => "Several entries of one kind and architecture",
            FindingCode::WrongLabel => "An image for another architecture than its label says",
            FindingCode::NoForwardPtx => "No PTX that later GPUs can compile",
            FindingCode::NewerToolkit => "An entry of a newer toolkit than the others",
            FindingCode::SassTooNew => "Machine code that the driver does not know",
            FindingCode::CompressionTooNew => "A compression that the driver does not know",
            FindingCode::UnknownKind => "An entry of a kind that no driver is known to load",
            FindingCode::RunsNowhere => "No GPU runs anything",
            FindingCode::PartsWithoutPtx => {
                "Objects without an image for GPUs for which the driver links the others again"
            }
            FindingCode::LoweredArch => "A device link lowered the virtual architecture",
            FindingCode::UnknownSection => "A cubin's section has a name that no known tool writes",
            FindingCode::ForgottenLink => "Offload entries without a device image",
            FindingCode::FormerEntries => "Offload entries of clang 15 to 20",
            FindingCode::DoesNotRun => "Nothing runs on a required GPU",
            FindingCode::KernelsDoNotRun => "Some kernels do not run on a required GPU",
            FindingCode::CompiledAtStart => "The driver compiles PTX where machine code is required",
            FindingCode::UnknownOutcome => "What the driver does is not known",
            FindingCode::NotShipped => "Something is claimed that the files do not have",
            FindingCode::NotClaimed => "The files have something that is not claimed",
            FindingCode::NotAssembled => "PTX that ptxas rejects",
            FindingCode::EqualImages => "An image whose code equals that of another one, which would run in its place",
            FindingCode::NotLoaded => "A module that this machine's driver did not load",
            FindingCode::MissingSymbol => "A registered kernel or variable that no image has",
            FindingCode::PartialSymbol => "A registered kernel or variable that some images lack",
            FindingCode::SameAddress => "Two kernels that are registered under one address",
            FindingCode::LostContainer => "A registered container of images that is not there",
            FindingCode::UncoveredCall => "A kernel with less registers or stack than its callees need",
            FindingCode::LinkWithoutKernels => "A device link without the kernels of its objects",
            FindingCode::Concatenated => "Images that are compressed as one, which drivers pass over",
            FindingCode::SharedKernel => "A kernel of several fatbins, of which the first serves fewer GPUs",
            FindingCode::UnevenTargets => "Fatbins of one file that are for different GPUs",
        }
    }

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
            FindingCode::DoesNotRun => (
                "FB019",
                "compile for this GPU, too (machine code, or PTX of a version that the driver knows), or require less",
            ),
            FindingCode::KernelsDoNotRun => (
                "FB020",
                "compile all kernels for this GPU, or say which kernels are for which GPUs (--claims), or that the library chooses by itself (--kernels=any)",
            ),
            FindingCode::CompiledAtStart => (
                "FB021",
                "add machine code for this GPU, so that its first start does not wait for the driver's compiler",
            ),
            FindingCode::UnknownOutcome => {
                ("FB022", "link the file, update this program, or require a driver that it knows")
            }
            FindingCode::NotShipped => ("FB023", "ship what is claimed, or correct the claim"),
            FindingCode::NotClaimed => ("FB024", "claim what is shipped, or leave it out (`offload-bundle strip`)"),
            FindingCode::NotAssembled => (
                "FB025",
                "correct the PTX: the driver's compiler is of the same kind as ptxas and will most likely reject it, too",
            ),
            FindingCode::NotLoaded => {
                ("FB026", "build the image again; `offload-bundle explain` shows which one was taken")
            }
            FindingCode::FormerEntries => {
                ("FB018", "compile it with clang 22, or link it with the libomptarget of the clang that compiled it")
            }
            FindingCode::MissingSymbol => (
                "FB028",
                "link the program again with the object that has its code: a launch fails, and so does the start of an OpenMP program",
            ),
            FindingCode::PartialSymbol => (
                "FB029",
                "compile its file for the same targets as the others, without `#if __CUDA_ARCH__` around it: on GPUs that load the images without it a launch fails",
            ),
            FindingCode::SameAddress => (
                "FB030",
                "link it without `--icf=all`, or with fatlink, which keeps the stubs of kernels apart: a launch of one kernel runs the other",
            ),
            FindingCode::LostContainer => (
                "FB031",
                "link the program again: its start-up code gives the runtime an address where there are no images",
            ),
            FindingCode::UncoveredCall => (
                "FB032",
                "link its device code again: the callee overwrites what it has no room for, and a launch fails or has wrong results",
            ),
            FindingCode::LinkWithoutKernels => (
                "FB033",
                "name the GPUs of the objects in the device link, too: without `-arch`, `nvcc -dlink` links for sm_75",
            ),
            FindingCode::Concatenated => (
                "FB034",
                "store the images by themselves: build without `--concat`, or recompress the fatbin or the objects before the link (`offload-bundle recompress --mode=balance`)",
            ),
            FindingCode::UnevenTargets => {
                ("FB036", "compile all units for the same GPUs, unless the file chooses its kernels by the GPU")
            }
            FindingCode::SharedKernel => (
                "FB035",
                "compile the units for the same GPUs, or with host functions of their own (nvcc -static-global-template-stub=true, the default of CUDA 13)",
            ),
            FindingCode::EqualImages => (
                "FB027",
                "drop it (`offload-bundle strip --equal`), or build without its target: these GPUs run the other image, with the same instructions",
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
    /// Bytes of the fatbin that following the advice saves, if it is about them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
}

impl Finding {
    pub(super) fn new(code: FindingCode, severity: Severity, entries: Vec<usize>, message: String) -> Self {
        Self { code, severity, entries, gpus: Vec::new(), message, advice: code.advice(), bytes: None }
    }

    /// An error on GPUs of these names.
    pub(super) fn error_on(code: FindingCode, message: String, gpus: Vec<String>) -> Self {
        Self { gpus, ..Self::new(code, Severity::Error, Vec::new(), message) }
    }

    #[must_use]
    pub(super) fn on(mut self, gpus: &[GpuArch]) -> Self {
        self.gpus = gpus.iter().map(GpuArch::to_string).collect();
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_numbered_in_order() {
        let names = FindingCode::ALL.map(FindingCode::name);
        for (index, name) in names.iter().enumerate() {
            assert_eq!(*name, format!("FB{:03}", index + 1));
        }
        assert!(FindingCode::ALL.is_sorted());
    }
}
