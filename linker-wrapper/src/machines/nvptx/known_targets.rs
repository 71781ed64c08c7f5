//! Targets that options request. LLVM emits PTX for any number, so a target that exists nowhere would end in a program that no GPU runs.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::arch::table::KNOWN;
use offload_bundle::arch::{ArchFeature, GpuArch};

use crate::cli::values::{PtxPolicy, SassPolicy};
use crate::diag::error::Errors;
use crate::machines::nvptx::error::Error;
use crate::sys::process;

/// Rejects requested targets that neither this program knows nor the ptxas of the link, which may be newer. It is asked for its targets
/// only if one is not known here.
///
/// # Errors
/// One for each such target.
pub fn require(sass: &SassPolicy, ptx: &PtxPolicy, ptxas: impl FnOnce() -> Option<PathBuf>) -> Result<(), Errors> {
    let of_sass = if let SassPolicy::List(archs) = sass { &archs[..] } else { &[] };
    let of_ptx = if let PtxPolicy::List(archs) = ptx { &archs[..] } else { &[] };
    let requested = of_sass.iter().map(|arch| ("--offload-sass=", *arch));
    let requested = requested.chain(of_ptx.iter().map(|arch| ("--offload-ptx=", *arch)));
    let mut unknown: Vec<_> = requested.filter(|(_, arch)| !KNOWN.has_target(*arch)).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    let mut targets: BTreeSet<GpuArch> = ptxas().map(|ptxas| targets_of(&ptxas)).unwrap_or_default();
    unknown.retain(|(_, arch)| !targets.contains(arch));
    targets.extend(KNOWN.current_gpus());
    targets.retain(|arch| arch.feature == ArchFeature::Plain);
    let known: Vec<String> = targets.iter().map(ToString::to_string).collect();
    let error = |(option, arch)| Error::NoSuchTarget { option, arch, known: known.join(", ") };
    unknown.into_iter().map(error).collect::<Errors>().or(())
}

/// The targets that a ptxas lists in its help.
fn targets_of(ptxas: &Path) -> BTreeSet<GpuArch> {
    let help = process::capture(ptxas, &[OsString::from("--help")]);
    help.map(|help| targets_in(&String::from_utf8_lossy(&help.stdout))).unwrap_or_default()
}

/// "Allowed values for this option:  'compute_100', ... 'sm_90a'", over several lines.
fn targets_in(help: &str) -> BTreeSet<GpuArch> {
    let words = help.split('\'').filter(|word| word.starts_with("sm_"));
    words.filter_map(|word| word.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn errors(sass: &str, ptx: &str) -> Vec<String> {
        let (sass, ptx) = (SassPolicy::parse(sass).unwrap(), PtxPolicy::parse(ptx).unwrap());
        match require(&sass, &ptx, || None) {
            Ok(()) => Vec::new(),
            Err(errors) => errors.messages(),
        }
    }

    #[test]
    fn targets_that_no_gpu_has_are_rejected() {
        assert!(errors("sm_90,sm_90a,sm_100f", "compute_80,compute_120f").is_empty());
        assert!(errors("all", "newest").is_empty());
        for target in ["compute_91", "compute_95", "compute_130", "compute_901", "compute_80a", "compute_90f"] {
            let errors = errors("all", target);
            assert_eq!(errors.len(), 1, "{target}: {errors:?}");
            assert!(errors[0].contains("sm_90, sm_100"), "{errors:?}");
        }
        assert_eq!(errors("sm_91,sm_95", "compute_91").len(), 3);
    }

    #[test]
    fn the_targets_of_a_ptxas_are_read() {
        let help =
            "Allowed values for this option:  'compute_100','compute_107',\n        'lto_107','sm_107',\n   'sm_107a'.";
        let targets: Vec<String> = targets_in(help).iter().map(ToString::to_string).collect();
        assert_eq!(targets, ["sm_107", "sm_107a"]);
        assert!(targets_in("no help").is_empty());
    }
}
