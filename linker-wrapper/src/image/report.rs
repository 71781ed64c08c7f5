//! `--offload-report`: the inputs of each device link, the entries of the fatbin and of the HIP bundle, and the entry that each of
//! NVIDIA's GPUs will run.

use std::fmt::Write;
use std::path::Path;

use offload_bundle::coverage::{CheckOptions, CheckReport, Driver, ExplainReport, Finding, FoundContainer, GpuReport};
use offload_bundle::fatbin::{Compression, FatbinEntry, FatbinWriter};
use serde::Serialize;

use crate::cli::options::Options;
use crate::cli::values::{ReportForm, ReportRequest};
use crate::device::recorded_ptx_flags::{self, RecordedFlags};
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::image::fatbin::Checked;
use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::image_policy::Entry;
use crate::sys::temp_files;

/// The report. The field names are the keys of the JSON form.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImageReport {
    /// The program, library or bundle that the link writes.
    pub output: String,
    /// The options that decide on the image.
    pub policy: PolicyReport,
    /// The device links, highest target first.
    pub targets: Vec<TargetReport>,
    /// Size of the fatbin or the bundle in bytes.
    pub bytes: u64,
    /// The entries of the fatbin or the bundle, in order.
    pub entries: Vec<EntryReport>,
    /// Number of fatbins that the driver can link again: of nvcc's units, and one with clang's PTX.
    pub prelinked: usize,
    /// The entry that a driver runs on each GPU, if the driver is new enough for all entries.
    pub gpus: Vec<GpuReport>,
    /// Findings of the check of the finished fatbin.
    pub findings: Vec<Finding>,
}

/// The options that decide on the entries and on their form.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct PolicyReport {
    /// `--offload-ptx`.
    pub ptx: String,
    /// `--offload-sass`.
    pub sass: String,
    /// `--offload-compress`.
    pub compress: &'static str,
    /// `--offload-fatbin-section`.
    pub section: &'static str,
}

/// One device link.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TargetReport {
    /// `sm_90`.
    pub target: String,
    /// The images that were linked.
    pub images: Vec<InputReport>,
    /// The PTX flag of each file for this target.
    #[serde(rename = "wishes")]
    pub ptx_flags: Vec<PtxFlagReport>,
    /// The backend; none if no machine code had to be generated.
    pub backend: Option<BackendReport>,
}

/// One device image that was linked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputReport {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// Offset in the file; none for an image inside bitcode.
    pub offset: Option<u64>,
    /// `bitcode`, `cubin`, `ptx` or `lto-ir`.
    pub code: &'static str,
}

/// The PTX flag that a file records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PtxFlagReport {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// `include`, `exclude` or `silent`.
    pub ptx: &'static str,
}

/// A backend and the reason for it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendReport {
    /// Its name, as in `--offload-backend=`.
    pub name: &'static str,
    /// Its program or library; nvlink if no PTX had to be assembled.
    pub file: String,
    /// Its CUDA release, if known.
    pub cuda: Option<String>,
    /// The reason for the choice.
    pub reason: String,
}

impl BackendReport {
    /// Describes a chosen backend.
    pub fn new(choice: &BackendDecision) -> Self {
        BackendReport {
            name: choice.backend.option(),
            file: choice.path.display().to_string(),
            cuda: choice.release.map(|release| release.to_string()),
            reason: choice.reason(),
        }
    }
}

/// One entry of the fatbin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EntryReport {
    /// Kind and target, such as `sass 90a` or `code object gfx90a`.
    pub name: String,
    /// Size in bytes as stored; in a bundle, which is compressed as a whole, the size before compression.
    pub bytes: u64,
    /// `none`, `zstd` or `lz4`.
    pub compression: String,
    /// Size in bytes before compression; none for an entry that is stored uncompressed.
    pub uncompressed_bytes: Option<u64>,
    /// The target whose code it was generated from; none for a finished image from `--override-image`.
    pub made_of: Option<String>,
}

/// The facts about the device links that the report shows.
#[derive(Clone, Copy, Default)]
pub struct Linked<'a> {
    /// The device links.
    pub targets: &'a [TargetImages<'a>],
    /// The machine code that the image policy selected.
    pub sass: &'a [Entry],
    /// The PTX that the image policy selected.
    pub ptx: &'a [Entry],
    /// The PTX flags that the files record.
    pub flags: &'a [RecordedFlags],
    /// The backend of each target.
    pub choices: &'a [BackendDecision],
    /// The fatbins that the driver can link again, if units of nvcc are linked.
    pub prelinked: &'a [&'a [u8]],
}

impl ImageReport {
    /// Creates the report of a link without an image.
    pub fn empty(output: &Path, options: &Options) -> Self {
        let policy = PolicyReport {
            ptx: options.ptx_policy.to_string(),
            sass: options.sass_policy.to_string(),
            compress: options.compress.name(),
            section: options.image_section.name(),
        };
        ImageReport { output: output.display().to_string(), policy, ..ImageReport::default() }
    }

    /// Prints the report, or writes it to the file.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn emit(&self, request: &ReportRequest, program: &str) -> Result<(), Errors> {
        let text = match request.form {
            ReportForm::Json => serde_json::to_string_pretty(self).unwrap_or_default() + "\n",
            ReportForm::Text => self.text(),
        };
        match &request.file {
            Some(file) => temp_files::write_output(file, text.as_bytes()),
            None => {
                messages::report(program, &text);
                Ok(())
            }
        }
    }

    /// Adds the finished fatbin and the device links that it was built from.
    pub fn with_image(mut self, linked: Linked<'_>, fatbin: &FatbinWriter<'_>, checked: Checked) -> Self {
        let stored = fatbin.entries().unwrap_or_default();
        self.targets = linked.targets.iter().map(|target| TargetReport::new(target, linked)).collect();
        self.bytes = fatbin.size();
        self.entries =
            stored.iter().zip(&checked.codes).map(|(stored, code)| entry(stored, code.name(), linked)).collect();
        let program =
            if linked.prelinked.is_empty() { None } else { FoundContainer::linked(&stored, linked.prelinked).ok() };
        self.prelinked = linked.prelinked.len();
        self.gpus = gpus(program.as_deref().unwrap_or(&[FoundContainer::whole(checked.codes)]));
        self.findings = program.map_or(checked.findings, |program| findings(&program));
        self
    }

    /// Adds the images of another kind.
    #[must_use]
    pub fn and(mut self, other: Self) -> Self {
        self.targets.extend(other.targets);
        self.bytes += other.bytes;
        self.entries.extend(other.entries);
        self.prelinked += other.prelinked;
        self.gpus.extend(other.gpus);
        self.findings.extend(other.findings);
        self
    }

    /// Formats the report for people.
    fn text(&self) -> String {
        let PolicyReport { ptx, sass, compress, section } = &self.policy;
        let mut out = format!("offload report: {}\n", self.output);
        let _ = writeln!(out, "policy: machine code {sass}, PTX {ptx}, compression {compress}, section {section}");
        self.targets.iter().for_each(|target| target.print(&mut out));
        if self.entries.is_empty() && self.prelinked == 0 {
            return out + "image: none, there is no CUDA or HIP code\n";
        }
        let _ = writeln!(out, "image: {} bytes", self.bytes);
        self.entries.iter().for_each(|entry| entry.print(&mut out));
        if self.prelinked > 0 {
            let _ = writeln!(out, "with {} fatbins that the driver can link again", self.prelinked);
        }
        let width = self.gpus.iter().map(|gpu| gpu.outcome.len()).max().unwrap_or(0);
        for gpu in &self.gpus {
            let _ = writeln!(out, "{:6} runs {:width$}  {}", gpu.gpu, gpu.outcome, gpu.reason);
        }
        for finding in &self.findings {
            let _ = writeln!(out, "{}: {}: {}", finding.severity, finding.code, finding.message);
        }
        out
    }
}

/// Determines the entry that each GPU runs.
fn gpus(containers: &[FoundContainer]) -> Vec<GpuReport> {
    let report = ExplainReport::new(containers, None, Driver::default());
    report.containers.into_iter().take(1).flat_map(|container| container.gpus).collect()
}

/// Checks a fatbin that the driver can link again.
fn findings(containers: &[FoundContainer]) -> Vec<Finding> {
    let report = CheckReport::new(containers, &CheckOptions::default());
    report.containers.into_iter().take(1).flat_map(|container| container.findings).collect()
}

fn entry(stored: &FatbinEntry<'_>, name: String, linked: Linked<'_>) -> EntryReport {
    let decided = if name.starts_with("ptx") { linked.ptx } else { linked.sass };
    let from = decided.iter().find(|entry| entry.arch == stored.arch);
    EntryReport {
        name,
        bytes: stored.stored.len() as u64,
        compression: stored.compression.to_string(),
        uncompressed_bytes: (stored.compression != Compression::None).then_some(stored.uncompressed_size),
        made_of: from.map(|entry| entry.from.to_string()),
    }
}

impl EntryReport {
    fn print(&self, out: &mut String) {
        let packed =
            self.uncompressed_bytes.map(|size| format!(", {} of {size}", self.compression)).unwrap_or_default();
        let made_of = self.made_of.as_ref().map(|from| format!(", made of the code for {from}")).unwrap_or_default();
        let _ = writeln!(out, "  {}: {} bytes{packed}{made_of}", self.name, self.bytes);
    }
}

impl TargetReport {
    fn new(target: &TargetImages<'_>, linked: Linked<'_>) -> Self {
        let backend = linked.choices.iter().find(|choice| choice.target == target.arch);
        let flags = recorded_ptx_flags::summarize(target.arch, linked.flags);
        let of_file = |(file, ptx): (&str, &'static str)| PtxFlagReport { file: file.to_owned(), ptx };
        TargetReport {
            target: target.arch.to_string(),
            images: target.images.iter().map(input).collect(),
            ptx_flags: flags.by_file().map(of_file).collect(),
            backend: backend.map(BackendReport::new),
        }
    }

    fn print(&self, out: &mut String) {
        let _ = writeln!(out, "target {}:", self.target);
        for image in &self.images {
            let offset = image.offset.map(|offset| format!(" at offset {offset:#x}")).unwrap_or_default();
            let _ = writeln!(out, "  {}{offset}: {}", image.file, image.code);
        }
        for flag in self.ptx_flags.iter().filter(|flag| flag.ptx != "silent") {
            let _ = writeln!(out, "  wish of {}: {} PTX", flag.file, flag.ptx);
        }
        if let Some(BackendReport { name, file, cuda, reason }) = &self.backend {
            let cuda = cuda.as_ref().map(|cuda| format!(" of CUDA {cuda}")).unwrap_or_default();
            let _ = writeln!(out, "  backend: {name} ({file}{cuda}): {reason}");
        }
    }
}

/// Describes an image.
pub fn input(image: &DeviceImage<'_>) -> InputReport {
    let code = match image.code {
        Code::Bitcode => "bitcode",
        Code::Cubin => "cubin",
        Code::Object => "object",
        Code::Ptx => "ptx",
        Code::LtoIr => "lto-ir",
    };
    InputReport { file: image.origin.file.clone(), offset: image.origin.offset, code }
}
