//! `--offload-report`: what the link put into the program, of what, and what each GPU will run of it.

use std::fmt::Write;
use std::path::Path;

use offload_bundle::coverage::{Driver, ExplainReport, Finding, FoundContainer, GpuReport};
use offload_bundle::fatbin::{Compression, FatbinEntry, FatbinWriter};
use serde::Serialize;

use crate::cli::options::Options;
use crate::cli::values::{ReportForm, ReportRequest};
use crate::device::recorded_ptx_flags::{self, FileWishes};
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::image::fatbin::Checked;
use crate::plan::backend::BackendDecision;
use crate::plan::image_policy::Entry;
use crate::sys::temp_files;

/// The report. The field names are the keys of the JSON form.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ImageReport {
    /// The program, library or bundle.
    pub output: String,
    /// What was asked for.
    pub policy: PolicyReport,
    /// The device links, highest target first.
    pub targets: Vec<TargetReport>,
    /// Bytes of the whole fatbin.
    pub bytes: u64,
    /// Its entries, in order.
    pub entries: Vec<EntryReport>,
    /// What a driver that is new enough runs on each GPU.
    pub gpus: Vec<GpuReport>,
    /// What is worth knowing of the image.
    pub findings: Vec<Finding>,
}

/// The options that decide what goes in, and how.
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
    /// What was linked.
    pub images: Vec<InputReport>,
    /// What each file wished for, about PTX of this target.
    pub wishes: Vec<WishReport>,
    /// What made the machine code; none where nothing had to be made.
    pub backend: Option<BackendReport>,
}

/// One device image that was linked.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct InputReport {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// Its place in the file; none inside bitcode.
    pub offset: Option<u64>,
    /// `bitcode`, `cubin`, `ptx` or `lto-ir`.
    pub code: &'static str,
}

/// A file's wish.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WishReport {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// `include`, `exclude` or `silent`.
    pub ptx: &'static str,
}

/// What makes machine code, and why it was chosen.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BackendReport {
    /// As `--offload-backend` names it.
    pub name: &'static str,
    /// Its file; nvlink's where nothing but that was needed.
    pub file: String,
    /// Its release of CUDA, if it is known.
    pub cuda: Option<String>,
    /// Why this one.
    pub reason: String,
}

impl BackendReport {
    /// Of what was chosen.
    pub fn new(choice: &BackendDecision) -> Self {
        BackendReport {
            name: choice.backend.option(),
            file: choice.path.display().to_string(),
            cuda: choice.release.map(|release| release.to_string()),
            reason: choice.reason.clone(),
        }
    }
}

/// One entry of the fatbin.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct EntryReport {
    /// `sass 90a`.
    pub name: String,
    /// Bytes as stored.
    pub bytes: u64,
    /// `none`, `zstd`, `lz4`.
    pub compression: String,
    /// Bytes before compression; none where there was none.
    pub uncompressed_bytes: Option<u64>,
    /// The target whose code it is made of; none where somebody else has linked it.
    pub made_of: Option<String>,
}

/// What was linked, for the report.
#[derive(Clone, Copy, Default)]
pub struct Linked<'a> {
    /// The device links.
    pub targets: &'a [TargetImages<'a>],
    /// Machine code and PTX that was decided on.
    pub sass: &'a [Entry],
    /// As of machine code.
    pub ptx: &'a [Entry],
    /// What the files wished for.
    pub wishes: &'a [FileWishes],
    /// What made the machine code of each target.
    pub choices: &'a [BackendDecision],
}

impl ImageReport {
    /// The report of a link without CUDA code.
    pub fn empty(output: &Path, options: &Options) -> Self {
        let policy = PolicyReport {
            ptx: options.ptx_policy.to_string(),
            sass: options.sass_policy.to_string(),
            compress: options.compress.name(),
            section: options.fatbin_section.name(),
        };
        ImageReport { output: output.display().to_string(), policy, ..ImageReport::default() }
    }

    /// Prints the report, or writes it to the file.
    ///
    /// # Errors
    /// Those of the file system.
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

    /// Adds the finished image and what it was made of.
    pub fn with_image(mut self, linked: Linked<'_>, fatbin: &FatbinWriter<'_>, checked: Checked) -> Self {
        let stored = fatbin.entries().unwrap_or_default();
        self.targets = linked.targets.iter().map(|target| TargetReport::new(target, linked)).collect();
        self.bytes = fatbin.size();
        self.entries =
            stored.iter().zip(&checked.codes).map(|(stored, code)| entry(stored, code.name(), linked)).collect();
        self.gpus = gpus(&checked);
        self.findings = checked.findings;
        self
    }

    /// For people.
    fn text(&self) -> String {
        let PolicyReport { ptx, sass, compress, section } = &self.policy;
        let mut out = format!("offload report: {}\n", self.output);
        let _ = writeln!(out, "policy: machine code {sass}, PTX {ptx}, compression {compress}, section {section}");
        self.targets.iter().for_each(|target| target.print(&mut out));
        if self.entries.is_empty() {
            return out + "image: none, there is no CUDA code\n";
        }
        let _ = writeln!(out, "image: {} bytes", self.bytes);
        self.entries.iter().for_each(|entry| entry.print(&mut out));
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

/// The rows for all GPUs.
fn gpus(checked: &Checked) -> Vec<GpuReport> {
    let found = FoundContainer::whole(checked.codes.clone());
    let report = ExplainReport::new(&[found], None, Driver::default());
    report.containers.into_iter().flat_map(|container| container.gpus).collect()
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
        let wishes = recorded_ptx_flags::about(target.arch, linked.wishes);
        let wish = |(file, ptx): (&str, &'static str)| WishReport { file: file.to_owned(), ptx };
        TargetReport {
            target: target.arch.to_string(),
            images: target.images.iter().map(input).collect(),
            wishes: wishes.by_file().map(wish).collect(),
            backend: backend.map(BackendReport::new),
        }
    }

    fn print(&self, out: &mut String) {
        let _ = writeln!(out, "target {}:", self.target);
        for image in &self.images {
            let offset = image.offset.map(|offset| format!(" at offset {offset:#x}")).unwrap_or_default();
            let _ = writeln!(out, "  {}{offset}: {}", image.file, image.code);
        }
        for wish in self.wishes.iter().filter(|wish| wish.ptx != "silent") {
            let _ = writeln!(out, "  wish of {}: {} PTX", wish.file, wish.ptx);
        }
        if let Some(BackendReport { name, file, cuda, reason }) = &self.backend {
            let cuda = cuda.as_ref().map(|cuda| format!(" of CUDA {cuda}")).unwrap_or_default();
            let _ = writeln!(out, "  backend: {name} ({file}{cuda}): {reason}");
        }
    }
}

fn input(image: &DeviceImage<'_>) -> InputReport {
    let code = match image.code {
        Code::Bitcode => "bitcode",
        Code::Cubin => "cubin",
        Code::Ptx => "ptx",
        Code::LtoIr => "lto-ir",
    };
    InputReport { file: image.origin.file.clone(), offset: image.origin.offset, code }
}
