//! `--offload-require=`: the GPUs and drivers that the image has to serve, judged as `offload-bundle check --gpus` judges files: once by the
//! plan, before any code is generated, and once by the finished fatbin.

use offload_bundle::PtxVersion;
use offload_bundle::coverage::gate::{FileCode, FileGate, GateReport, Requirement};
use offload_bundle::coverage::{Code, FoundContainer, OfFile};

use crate::diag::error::Errors;
use crate::image::error::Error;
use crate::machines::nvptx::image_policy::ImageEntries;

/// Judges the entries that the plan will make. Toolkit and compression are not decided yet, and the version of the PTX is at least the one
/// that its target needs.
///
/// # Errors
/// Each reason for which a GPU is not served, with what to do.
pub fn check_plan(
    entries: &ImageEntries,
    version: Option<PtxVersion>,
    requirement: &Requirement,
) -> Result<(), Errors> {
    let sass = entries.sass.iter().map(|entry| Code::planned_sass(entry.arch));
    let ptx = entries.ptx.iter().map(|entry| Code::planned_ptx(entry.arch, version.unwrap_or(entry.arch.min_ptx())));
    let codes = Code::numbered(sass.chain(ptx).collect());
    judge(vec![FoundContainer::whole(codes)], requirement)
}

/// Judges a finished fatbin, with the fatbins of nvcc's units behind it that the driver can link again.
///
/// # Errors
/// As [`check_plan`].
pub fn check_image(containers: Vec<FoundContainer>, requirement: &Requirement) -> Result<(), Errors> {
    judge(containers, requirement)
}

fn judge(containers: Vec<FoundContainer>, requirement: &Requirement) -> Result<(), Errors> {
    let gate = FileGate::new(&FileCode::of_link(containers), requirement);
    let file = OfFile { file: String::new(), report: gate };
    let report = GateReport::new(vec![file], requirement, &[], 0);
    let mut errors = Errors::default();
    for of in report.findings {
        let gpus = of.finding.gpus.join(", ");
        let (code, message, advice) = (of.finding.code, of.finding.message, of.finding.advice);
        errors.extend(Error::NotServed { code, message, gpus, advice });
    }
    errors.or(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machines::nvptx::image_policy::Entry;

    #[test]
    fn the_plan_shows_what_is_missing() {
        let entry = |name: &str| {
            let arch = name.parse().unwrap();
            Entry { arch, from: arch }
        };
        let entries = ImageEntries { sass: vec![entry("sm_90"), entry("sm_80")], ptx: vec![entry("sm_90")] };
        let judged =
            |text: &str| check_plan(&entries, None, &text.parse().unwrap()).map_err(|errors| errors.to_string());
        assert_eq!(judged("sm_80..sm_86,H100@580"), Ok(()));
        let missing = judged("T4,H100@580").unwrap_err();
        assert!(missing.contains("--offload-require: FB019: with driver 580: no-binary: machine code is for sm_80, sm_90; PTX is for sm_90 (on sm_75)"), "{missing}");
        assert!(judged("B200@580,no-jit").unwrap_err().contains("FB021"));
        let version = PtxVersion { major: 9, minor: 0 };
        assert!(check_plan(&entries, Some(version), &"RTX5090@570".parse().unwrap()).is_err());
    }
}
