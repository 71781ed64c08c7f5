//! Drivers that are known to fail with images that their rules allow, and drivers whose rules were observed: data, with the source of each row.

use super::super::code::{Code, Word};
use super::super::driver::Driver;
use crate::arch::GpuArch;

/// Drivers that fail with some images, whatever the documentation says.
struct BadDriver {
    /// The first and the last branch.
    branches: (u32, u32),
    /// Whether a fatbin has what the driver fails with, given the entry that it takes.
    concerns: fn(&[Code], &Code) -> bool,
    /// What happens.
    what: &'static str,
}

/// Only what was reported with versions. What a driver cannot read at all, such as Zstandard before branch 550 (Ollama's pull request 12258,
/// Mesh-LLM's issue 304: 29 GPUs with driver 535.288.01), is a rule of [`Driver`], and no row here.
const BAD_DRIVERS: [BadDriver; 1] = [BadDriver {
    // Worked with 516.59, failed with 526.67, and works with the driver of CUDA 12.0. That is 525.60 on Linux and 527.41 on Windows, so
    // a driver of branch 525 or 526 may be one that fails.
    branches: (516, 526),
    concerns: |codes, taken| taken.word() == Word::Ptx && codes.iter().any(|code| code.word() == Word::LtoIr),
    what: "drivers between 516.59 and that of CUDA 12.0 (525.60 on Linux, 527.41 on Windows) reported an invalid image for PTX beside LTO-IR",
}];

/// Why a driver is known to fail with the entry that it takes.
pub(super) fn known_failure(codes: &[Code], taken: &Code, driver: Driver) -> Option<&'static str> {
    let Driver::Branch(branch) = driver else { return None };
    let concerns =
        |row: &&BadDriver| (row.branches.0..=row.branches.1).contains(&branch) && (row.concerns)(codes, taken);
    BAD_DRIVERS.iter().find(concerns).map(|row| row.what)
}

/// A driver and a GPU on which the rules of [`outcome`](super::super::outcome) were observed, with the tables of `tests/driver-truth`.
struct Observed {
    gpu: GpuArch,
    branch: u32,
}

/// H100 and H200, driver 580.159.04.
const OBSERVED: [Observed; 1] = [Observed { gpu: GpuArch::plain(90), branch: 580 }];

/// Whether the rules were observed with this driver on this GPU.
pub(super) fn is_observed(gpu: GpuArch, driver: Driver) -> bool {
    OBSERVED.iter().any(|row| row.gpu.number == gpu.number && driver == Driver::Branch(row.branch))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::testing::{lto, ptx, sass, set};

    #[test]
    fn ltoir_beside_ptx_fails_with_some_drivers() {
        let codes = set([ptx("52"), lto("61"), sass("61")]);
        let fails = |taken: usize, branch| known_failure(&codes, &codes[taken], Driver::Branch(branch)).is_some();
        assert_eq!([515, 516, 526, 527].map(|branch| fails(0, branch)), [false, true, true, false]);
        assert!(!fails(2, 520), "machine code was not reported to fail");
        let without = set([ptx("52")]);
        assert_eq!(known_failure(&without, &without[0], Driver::Branch(520)), None);
        assert_eq!(known_failure(&codes, &codes[0], Driver::NewEnough), None);
    }

    #[test]
    fn one_pair_was_observed() {
        assert!(is_observed(GpuArch::plain(90), Driver::Branch(580)));
        assert!(
            !is_observed(GpuArch::plain(90), Driver::Branch(570))
                && !is_observed(GpuArch::plain(89), Driver::Branch(580))
        );
        assert!(!is_observed(GpuArch::plain(90), Driver::NewEnough));
    }
}
