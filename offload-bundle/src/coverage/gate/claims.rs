//! What somebody says of files, compared with what they are.

use std::collections::BTreeSet;

use super::super::findings::{Finding, FindingCode, Severity};
use super::super::text::OfFile;
use super::content::Shipped;
use super::judge::FileGate;
use crate::GpuArch;

/// What is claimed of the files of a package together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Claims {
    /// Where the claims are from: `claims.toml`, `the wheel's name`.
    pub source: String,
    /// The package whose files it is about, as their names begin; all files, if there is none.
    pub package: Option<String>,
    /// The major version of the CUDA toolkit.
    pub cuda: Option<u32>,
    /// The targets of machine code, all of them.
    pub machine_code: Option<BTreeSet<GpuArch>>,
    /// The targets of PTX, all of them.
    pub ptx: Option<BTreeSet<GpuArch>>,
}

impl Claims {
    /// Where claim and content differ: what is claimed and not shipped, and what is shipped and not claimed. Each with the file that it is
    /// about, if that is one.
    pub(super) fn findings(&self, files: &[OfFile<FileGate>]) -> Vec<(Option<String>, Finding)> {
        let files: Vec<&OfFile<FileGate>> = files.iter().filter(|of| self.is_about(&of.file)).collect();
        let all = Shipped::union(files.iter().map(|of| &of.report.shipped));
        let of_all = |finding| (None, finding);
        let mut findings: Vec<(Option<String>, Finding)> = Vec::new();
        let kinds = [("machine code", &self.machine_code, &all.machine_code), ("PTX", &self.ptx, &all.ptx)];
        for (what, claimed, shipped) in kinds {
            let Some(claimed) = claimed else { continue };
            findings.extend(self.targets(what, claimed, shipped).into_iter().map(of_all));
            findings.extend(self.not_in_each(what, claimed, &files));
        }
        if let Some(cuda) = self.cuda {
            findings.extend(self.toolkit_not_shipped(cuda, &all).map(of_all));
            findings.extend(files.iter().filter_map(|of| Some((Some(of.file.clone()), self.toolkit_of(cuda, of)?))));
        }
        findings
    }

    fn is_about(&self, file: &str) -> bool {
        self.package.as_ref().is_none_or(|package| file.strip_prefix(package).is_some_and(|rest| rest.starts_with(':')))
    }

    fn finding(&self, code: FindingCode, what: &str) -> Finding {
        Finding::new(code, Severity::Error, Vec::new(), format!("{}: {what}", self.source))
    }

    fn targets(&self, what: &str, claimed: &BTreeSet<GpuArch>, shipped: &BTreeSet<GpuArch>) -> Vec<Finding> {
        let missing = names(claimed.difference(shipped));
        let extra = names(shipped.difference(claimed));
        let claim = |names| format!("claims {what} for {names}, and no file has any");
        let ship = |names| format!("does not claim {what} for {names}, and there is some");
        let missing = missing.map(|names| self.finding(FindingCode::NotShipped, &claim(names)));
        missing.into_iter().chain(extra.map(|names| self.finding(FindingCode::NotClaimed, &ship(names)))).collect()
    }

    /// Files that lack what others have: a claim is one of every file with code for NVIDIA's GPUs.
    fn not_in_each(
        &self,
        what: &str,
        claimed: &BTreeSet<GpuArch>,
        files: &[&OfFile<FileGate>],
    ) -> Vec<(Option<String>, Finding)> {
        let shipped = |of: &OfFile<FileGate>| match what {
            "PTX" => of.report.shipped.ptx.clone(),
            _ => of.report.shipped.machine_code.clone(),
        };
        let somewhere: BTreeSet<GpuArch> = files.iter().copied().flat_map(shipped).collect();
        let lacks = |of: &OfFile<FileGate>| {
            let own = shipped(of);
            let lacking = names(claimed.iter().filter(|target| somewhere.contains(target) && !own.contains(target)))?;
            let has_code = of.report.kernels > 0;
            let what = format!("claims {what} for {lacking}, and this file has none");
            has_code.then(|| (Some(of.file.clone()), self.finding(FindingCode::NotShipped, &what)))
        };
        files.iter().copied().filter_map(lacks).collect()
    }

    fn toolkit_not_shipped(&self, cuda: u32, all: &Shipped) -> Option<Finding> {
        let is_missing = !all.cuda.is_empty() && !all.cuda.contains(&cuda);
        let found: Vec<String> = all.cuda.iter().map(u32::to_string).collect();
        let what = format!("claims CUDA {cuda}, and the machine code is of CUDA {}", found.join(" and "));
        is_missing.then(|| self.finding(FindingCode::NotShipped, &what))
    }

    /// A later toolkit than the one that is claimed needs a later driver, and another runtime library a second one in the process.
    fn toolkit_of(&self, cuda: u32, of: &OfFile<FileGate>) -> Option<Finding> {
        let later: Vec<String> = of.report.shipped.cuda.iter().filter(|own| **own > cuda).map(u32::to_string).collect();
        if !later.is_empty() {
            let what = format!("claims CUDA {cuda}, and this file has machine code of CUDA {}", later.join(" and "));
            return Some(self.finding(FindingCode::NotClaimed, &what));
        }
        let runtime = of.report.shipped.runtime.filter(|runtime| *runtime != cuda)?;
        let what = format!("claims CUDA {cuda}, and this file needs libcudart.so.{runtime}");
        Some(self.finding(FindingCode::NotClaimed, &what))
    }
}

fn names<'a>(targets: impl Iterator<Item = &'a GpuArch>) -> Option<String> {
    let names: Vec<String> = targets.map(GpuArch::to_string).collect();
    (!names.is_empty()).then(|| names.join(", "))
}

/// The CUDA release that a part of a package's name claims, as `13` of `cu13` and `cu130` and `12` of `cu12` and `cu126`, with the word.
pub fn cuda_of_name(name: &str) -> Option<(&str, u32)> {
    name.split(|c: char| !c.is_ascii_alphanumeric()).find_map(|word| {
        let release = word.strip_prefix("cuda").or_else(|| word.strip_prefix("cu"))?;
        // CuPy writes `cuda13x`.
        let digits = release.strip_suffix('x').unwrap_or(release);
        let is_number = (2..=3).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
        let major = digits.get(..2).filter(|_| is_number)?.parse().ok()?;
        (9..=99).contains(&major).then_some((word, major))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_claim_a_toolkit() {
        for (name, word, major) in [
            ("nvidia_cublas_cu12-12.9-py3-none-any.whl", "cu12", 12),
            ("torch-2.9.0+cu130-cp313-cp313-manylinux.whl", "cu130", 13),
            ("cupy_cuda13x-13.whl", "cuda13x", 13),
            ("cuda_python-13.whl", "", 0),
            ("cupy-cuda118-13.whl", "cuda118", 11),
        ] {
            let found = cuda_of_name(name);
            assert_eq!(found, Some((word, major)).filter(|_| major > 0), "{name}");
        }
        assert_eq!(cuda_of_name("accumulate-1.0-cp313-none.whl"), None);
    }
}
