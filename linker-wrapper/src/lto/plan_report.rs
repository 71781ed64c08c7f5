//! Describes the planned device links for `--offload-plan`.

use crate::device::targets::{DeviceImage, TargetImages};
use crate::lto::context::LtoContext;
use crate::lto::target::PlannedTarget;
use crate::plan::report::{
    BackendReport, FoldedKernel, ImageReport, JobReport, KeptKernel, SymbolReport, TargetReport,
};
use crate::plan::target_link::TargetLink;

/// Describes all targets. Those that are not among `planned` were found in the cache.
pub fn of(targets: &[TargetImages<'_>], planned: &[PlannedTarget<'_>], context: &LtoContext<'_>) -> Vec<TargetReport> {
    let report = |target: &TargetImages<'_>| {
        let planned = planned.iter().find(|planned| planned.plan.arch == target.arch);
        let decisions = context.backends.decisions();
        let backend = decisions.iter().find(|decision| decision.target == target.arch);
        let backend = backend.map(|decision| BackendReport {
            name: decision.backend.option(),
            file: decision.path.display().to_string(),
            reason: decision.reason.clone(),
        });
        let report = TargetReport {
            platform: "cuda",
            target: target.arch.to_string(),
            images: target.images.iter().map(image).collect(),
            cached: planned.is_none(),
            backend,
            ..TargetReport::default()
        };
        planned.map_or_else(|| report.clone(), |planned| with_plan(report.clone(), planned))
    };
    targets.iter().map(report).collect()
}

fn with_plan(report: TargetReport, target: &PlannedTarget<'_>) -> TargetReport {
    let TargetLink {
        sass, ptx, prevailing, visible, dead, kernels, partitions, not_cut, folding, dead_but_kept, ..
    } = &target.plan;
    let units = target.images.units();
    let symbols = prevailing.iter().map(|(symbol, image)| SymbolReport {
        symbol: symbol.clone(),
        image: *image,
        visible: visible.contains(symbol)
            || (folding.keeps_names && folding.folded.contains_key(symbol))
            || (kernels.contains(symbol) && !dead.contains(symbol)),
    });
    let jobs = partitions.iter().map(|partition| JobReport::of(partition, units.len()));
    let folded = folding.folded.iter();
    let folded = folded.map(|(kernel, equal)| FoldedKernel { kernel: kernel.clone(), equal: equal.clone() });
    let kept = dead_but_kept.iter();
    let kept = kept.map(|(kernel, reason)| KeptKernel { kernel: kernel.clone(), reason: reason.clone() });
    let not_cut = not_cut.as_ref().map(|reason| {
        let name = reason.unit.map_or_else(String::new, |unit| format!("{}: ", units[unit].name()));
        format!("{name}{}", reason.reason)
    });
    TargetReport {
        sass: sass.iter().map(ToString::to_string).collect(),
        ptx: ptx.iter().map(|arch| arch.virtual_name()).collect(),
        symbols: symbols.collect(),
        dead_but_kept: kept.collect(),
        folded: folded.collect(),
        not_folded: folding.notes.clone(),
        jobs: jobs.collect(),
        not_cut,
        ..report
    }
}

fn image(image: &DeviceImage<'_>) -> ImageReport {
    ImageReport { file: image.origin.file.clone(), offset: image.origin.offset, code: image.code.name() }
}
