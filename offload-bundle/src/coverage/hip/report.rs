//! The report on a bundle.

use super::{AmdGpu, BundledCode, FoundBundle, HipOutcome, hip_outcome};
use crate::amdgpu::TargetId;
use crate::coverage::containers::ContainerPlace;
use crate::coverage::report::{Basis, ContainerReport, GpuReport, PassedOverReport, Platform, RoleReport};

/// What each of the GPUs makes of a bundle, in front of which `before` other containers stand.
pub(in crate::coverage) fn container(bundle: &FoundBundle, gpus: &[AmdGpu], before: usize) -> ContainerReport {
    let number = bundle.place.container + before;
    let of_gpu = |gpu: &AmdGpu| {
        let rows = gpu.distinct(|mode| Comparable(hip_outcome(&bundle.codes, mode)));
        rows.into_iter().map(|(settings, outcome)| row(&settings, &outcome.0)).collect::<Vec<_>>()
    };
    ContainerReport {
        place: ContainerPlace { container: number, ..bundle.place.clone() },
        platform: Platform::Hip,
        basis: Basis::Documented,
        role: RoleReport { role: "whole", module: None, objects: Vec::new() },
        entries: bundle.codes.iter().map(BundledCode::name).collect(),
        gpus: gpus.iter().flat_map(of_gpu).collect(),
    }
}

/// An outcome that equals others in which the same entry is taken.
struct Comparable<'c>(HipOutcome<'c>);

impl PartialEq for Comparable<'_> {
    fn eq(&self, other: &Self) -> bool {
        let key = |outcome: &HipOutcome<'_>| (outcome.verdict, outcome.code.map(|code| code.number));
        key(&self.0) == key(&other.0)
    }
}

fn row(settings: &TargetId, outcome: &HipOutcome<'_>) -> GpuReport {
    let passed_over = outcome.passed_over.iter();
    GpuReport {
        gpu: settings.to_string(),
        outcome: outcome.brief(),
        runs: outcome.verdict.runs(),
        error: outcome.verdict.error_name(),
        entry: outcome.code.map(|code| code.number),
        reason: outcome.reason.clone(),
        passed_over: passed_over.map(|(code, why)| PassedOverReport { entry: code.number, why: why.clone() }).collect(),
        parts: Vec::new(),
    }
}
