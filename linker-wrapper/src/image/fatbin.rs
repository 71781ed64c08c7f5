//! Builds the fatbin of a link, highest architecture first, and checks it before it is written anywhere.

use std::io::Write;

use offload_bundle::arch::GpuArch;
use offload_bundle::arch::table::KNOWN;
use offload_bundle::audit::ReadImages;
use offload_bundle::coverage::{self, CheckOptions, Code, Driver, Finding, FindingCode, Severity};
use offload_bundle::fatbin::{BuilderOptions, FatbinWriter};

use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::host::registration_object::Image;
use crate::image::error::Error;
use crate::lto::products::LinkedTarget;
use crate::machines::nvptx::products::LinkedCode;
use crate::sys::process::Mode;

impl Image for FatbinWriter<'_> {
    fn size(&self) -> u64 {
        FatbinWriter::size(self)
    }

    fn write_to(&self, mut file: &mut dyn Write) -> std::io::Result<()> {
        FatbinWriter::write_to(self, &mut file)
    }
}

/// The machine code and PTX of a fatbin. Borrowed, because images may be large.
#[derive(Debug, Clone, Default)]
pub struct Parts<'l> {
    sass: Vec<(GpuArch, &'l [u8])>,
    ptx: Vec<(GpuArch, &'l [u8])>,
}

impl<'l> Parts<'l> {
    /// Collects the products of the device links. A dry run has none that tools make.
    pub fn of_targets(linked: &'l [LinkedTarget<LinkedCode>], mode: Mode) -> Self {
        let is_made = |(_, bytes): &&(GpuArch, Vec<u8>)| !(mode.dry && bytes.is_empty());
        let sass = linked.iter().flat_map(|target| &target.code.sass).filter(is_made);
        let ptx = linked.iter().flat_map(|target| &target.code.ptx).filter(is_made);
        Parts { sass: highest_first(sass), ptx: highest_first(ptx) }
    }

    /// Takes the PTX out, for a fatbin of its own.
    pub fn take_ptx(&mut self) -> Self {
        Parts { sass: Vec::new(), ptx: std::mem::take(&mut self.ptx) }
    }

    /// Whether there is no code.
    pub fn is_empty(&self) -> bool {
        self.sass.is_empty() && self.ptx.is_empty()
    }

    /// The entries, in the order of the fatbin: the kind by its name, the target and the bytes.
    pub fn entries(&self) -> impl Iterator<Item = (&'static str, GpuArch, &'l [u8])> {
        let sass = self.sass.iter().map(|(arch, bytes)| ("cubin", *arch, *bytes));
        sass.chain(self.ptx.iter().map(|(arch, bytes)| ("ptx", *arch, *bytes)))
    }

    /// Wraps a finished cubin from outside this link.
    pub fn of_cubin(arch: GpuArch, bytes: &'l [u8]) -> Self {
        Parts { sass: vec![(arch, bytes)], ptx: Vec::new() }
    }

    /// Builds the fatbin. `ptx_options` are stored with the PTX for the driver's compiler.
    ///
    /// # Errors
    /// Damaged machine code or PTX.
    pub fn bundle(&self, options: BuilderOptions, ptx_options: &str) -> Result<FatbinWriter<'l>, Errors> {
        let mut writer = FatbinWriter::new(options);
        for (arch, cubin) in &self.sass {
            writer.add_cubin(*arch, *cubin, "").map_err(|source| Error::DamagedCubin { arch: *arch, source })?;
        }
        for (arch, text) in &self.ptx {
            let added = writer.add_ptx(*arch, text, "", ptx_options);
            added.map_err(|source| Error::DamagedPtx { arch: *arch, source })?;
        }
        Ok(writer)
    }
}

fn highest_first<'l>(entries: impl Iterator<Item = &'l (GpuArch, Vec<u8>)>) -> Vec<(GpuArch, &'l [u8])> {
    let mut entries: Vec<_> = entries.map(|(arch, bytes)| (*arch, &bytes[..])).collect();
    entries.sort_by_key(|(arch, _)| std::cmp::Reverse(*arch));
    entries
}

/// The result of checking a fatbin as a driver would.
#[derive(Debug, Clone)]
pub struct Checked {
    /// The entries.
    pub codes: Vec<Code>,
    /// Warnings and notes, the most severe first.
    pub findings: Vec<Finding>,
    /// What the audit of the program need not read again.
    pub read: ReadImages,
}

impl Checked {
    /// Whether there was a warning.
    pub fn warns(&self) -> bool {
        self.findings.iter().any(|finding| finding.severity == Severity::Warning)
    }
}

/// Checks the finished fatbin, for this driver and later ones. A fault that makes some GPU fail is an error of the link, and a probable mistake is a warning.
/// Notes, such as missing PTX for later GPUs (the default), are left to the report.
///
/// # Errors
/// A fatbin that cannot be read, and each finding whose severity is error, with what to do.
pub fn check(fatbin: &FatbinWriter<'_>, driver: Driver, program: &str) -> Result<Checked, Errors> {
    let entries = fatbin.entries().map_err(|source| Error::DamagedFatbin { source })?;
    let (codes, read) = coverage::inspect_for_audit(&entries);
    let options = CheckOptions { driver, ..CheckOptions::default() };
    let mut findings = coverage::check(&codes, &options);
    findings.extend(coverage::check_equal(&entries, &codes, options.targets));
    if codes.is_empty() || codes.iter().any(|code| !KNOWN.knows(code.arch)) {
        // A dry run has no entries, nor has a program whose PTX is in its units, and a GPU that is newer than this program may well run an unknown target.
        findings.retain(|finding| finding.code != FindingCode::RunsNowhere);
    }
    let mut errors = Errors::default();
    for finding in &findings {
        let Finding { code, message, advice, .. } = finding.clone();
        let fault = Error::Finding { code, message, advice };
        match finding.severity {
            Severity::Error => errors.extend(fault),
            Severity::Warning => warn(program, fault),
            Severity::Note => {}
        }
    }
    errors.or(Checked { codes, findings, read })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_no_driver_can_read_is_an_error_with_advice() {
        let arch = GpuArch::plain(90);
        let ptx = |text: &'static str| Parts { sass: Vec::new(), ptx: vec![(arch, text.as_bytes())] };
        let sound = ptx(".version 8.0\n.target sm_90\n").bundle(BuilderOptions::default(), "").unwrap();
        assert_eq!(check(&sound, Driver::NewEnough, "fatlink").unwrap().codes.len(), 1);
        let damaged = ptx("ret;\n.version 8.0\n.target sm_90\n").bundle(BuilderOptions::default(), "").unwrap();
        let errors = check(&damaged, Driver::NewEnough, "fatlink").unwrap_err().to_string();
        assert!(errors.contains("the finished fatbin: FB002: entry 1 (ptx 90): damaged"), "{errors}");
        assert!(errors.contains("build the image again"), "{errors}");
    }
}
