//! The fatbin of a link: what goes into it, highest architecture first, and a last look at it before it is written
//! anywhere.

use offload_bundle::arch::GpuArch;
use offload_bundle::arch::table::KNOWN;
use offload_bundle::coverage::{self, CheckOptions, Code, Finding, FindingCode, Severity};
use offload_bundle::fatbin::{FatbinWriter, Options};

use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::lto::products::LinkedTarget;

/// Machine code and PTX, from where they are: images may be large.
#[derive(Debug, Clone, Default)]
pub struct Parts<'l> {
    sass: Vec<(GpuArch, &'l [u8])>,
    ptx: Vec<(GpuArch, &'l [u8])>,
}

impl<'l> Parts<'l> {
    /// All that the device links made. Of a dry run nothing is left: it made nothing.
    pub fn of_targets(linked: &'l [LinkedTarget]) -> Self {
        let sass = linked.iter().flat_map(|target| &target.sass);
        let ptx = linked.iter().flat_map(|target| &target.ptx);
        Parts { sass: highest_first(sass), ptx: highest_first(ptx) }
    }

    /// One cubin that somebody else has linked.
    pub fn of_cubin(arch: GpuArch, bytes: &'l [u8]) -> Self {
        Parts { sass: vec![(arch, bytes)], ptx: Vec::new() }
    }

    /// The fatbin of all of them. The driver's compiler gets `ptx_options` for the PTX.
    ///
    /// # Errors
    /// Machine code or PTX that is not what it should be.
    pub fn bundle(&self, options: Options, ptx_options: &str) -> Result<FatbinWriter<'l>, Errors> {
        let mut writer = FatbinWriter::new(options);
        for (arch, cubin) in &self.sass {
            writer
                .add_cubin(*arch, *cubin, "")
                .map_err(|error| Errors::one(format_args!("the cubin linked for {arch} is damaged: {error}")))?;
        }
        for (arch, text) in &self.ptx {
            writer.add_ptx(*arch, text, "", ptx_options).map_err(|error| {
                Errors::one(format_args!("the PTX made for {} is damaged: {error}", arch.virtual_name()))
            })?;
        }
        Ok(writer)
    }
}

fn highest_first<'l>(entries: impl Iterator<Item = &'l (GpuArch, Vec<u8>)>) -> Vec<(GpuArch, &'l [u8])> {
    let made = entries.filter(|(_, bytes)| !bytes.is_empty());
    let mut entries: Vec<_> = made.map(|(arch, bytes)| (*arch, &bytes[..])).collect();
    entries.sort_by_key(|(arch, _)| std::cmp::Reverse(*arch));
    entries
}

/// A fatbin that was looked at as a driver would.
#[derive(Debug, Clone)]
pub struct Checked {
    /// What its entries are.
    pub codes: Vec<Code>,
    /// What is worth knowing of it, the worst first; no errors.
    pub findings: Vec<Finding>,
}

/// Looks at the finished fatbin: what some GPU would fail on is an error of the link, and what is probably not meant is a
/// warning. What is only worth knowing (no PTX for later GPUs, say, which is the default) is for the report.
///
/// # Errors
/// Every finding of that severity, with what to do.
pub fn check(fatbin: &FatbinWriter<'_>, program: &str) -> Result<Checked, Errors> {
    let entries =
        fatbin.entries().map_err(|error| Errors::one(format_args!("the finished fatbin is damaged: {error}")))?;
    let codes = coverage::inspect(&entries);
    let mut findings = coverage::check(&codes, &CheckOptions::default());
    if codes.is_empty() || codes.iter().any(|code| !KNOWN.knows(code.arch)) {
        // A dry run made nothing; and GPUs that came after this program may well run what is for them.
        findings.retain(|finding| finding.code != FindingCode::RunsNowhere);
    }
    let mut errors = Errors::default();
    for finding in &findings {
        let text = format!("the finished fatbin: {}: {}; {}", finding.code, finding.message, finding.advice);
        match finding.severity {
            Severity::Error => errors.push(text),
            Severity::Warning => warn(program, text),
            Severity::Note => {}
        }
    }
    errors.or(Checked { codes, findings })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_that_no_driver_can_read_is_an_error_with_advice() {
        let arch = GpuArch::plain(90);
        let ptx = |text: &'static str| Parts { sass: Vec::new(), ptx: vec![(arch, text.as_bytes())] };
        let sound = ptx(".version 8.0\n.target sm_90\n").bundle(Options::default(), "").unwrap();
        assert_eq!(check(&sound, "fatlink").unwrap().codes.len(), 1);
        let damaged = ptx("ret;\n.version 8.0\n.target sm_90\n").bundle(Options::default(), "").unwrap();
        let errors = format!("{:?}", check(&damaged, "fatlink").unwrap_err());
        assert!(errors.contains("the finished fatbin: FB002: entry 1 (ptx 90): damaged"), "{errors}");
        assert!(errors.contains("build the image again"), "{errors}");
    }
}
