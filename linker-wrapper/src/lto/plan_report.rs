//! Describes the planned device links for `--offload-plan`.

use crate::device::targets::TargetImages;
use crate::lto::context::LtoContext;
use crate::lto::target::PlannedTarget;
use crate::machines::interface::{Machine, Planned};
use crate::plan::report::{DeadKernel, FoldedKernel, ImageReport, JobReport, SymbolReport, TargetReport};
use crate::plan::target_plan::TargetPlan;

/// Describes all targets. Those that are not among `planned` were found in the cache.
pub fn reports<M: Machine>(
    targets: &[TargetImages<'_, M::Arch>],
    planned: &[PlannedTarget<'_, M>],
    context: &LtoContext<'_, M>,
) -> Vec<TargetReport> {
    let report = |target: &TargetImages<'_, M::Arch>| {
        let name = target.arch.to_string();
        let planned = planned.iter().find(|planned| planned.planned.images.arch.to_string() == name);
        let report = unplanned(context.kind, name, target);
        let backend = context.machine.backend(&target.arch);
        let report = TargetReport { cached: planned.is_none(), backend, ..report };
        match planned {
            Some(planned) => with_plan(report, &planned.planned, context.machine),
            None => report,
        }
    };
    targets.iter().map(report).collect()
}

/// Describes a target by its images alone.
pub fn unplanned<A>(kind: &'static str, name: String, target: &TargetImages<'_, A>) -> TargetReport {
    let images = target.images.iter().map(|image| ImageReport {
        file: image.origin.file.clone(),
        offset: image.origin.offset,
        code: image.code.name(),
    });
    TargetReport { platform: kind, target: name, images: images.collect(), ..TargetReport::default() }
}

fn with_plan<M: Machine>(report: TargetReport, target: &Planned<'_, M>, machine: &M) -> TargetReport {
    let TargetPlan { prevailing, visible, dead, also_visible, partitions, not_cut, folding, retained_dead, .. } =
        &target.plan;
    let units = target.images.units().len();
    let symbols = prevailing.iter().map(|(symbol, image)| SymbolReport {
        symbol: symbol.clone(),
        image: *image,
        visible: visible.contains(symbol)
            || (folding.emits_aliases && folding.folded.contains_key(symbol))
            || (also_visible.contains(symbol) && !dead.contains(symbol)),
    });
    let folded = folding.folded.iter();
    let folded = folded.map(|(kernel, equal)| FoldedKernel { kernel: kernel.clone(), equal: equal.clone() });
    let dead = retained_dead.iter();
    let dead = dead.map(|(kernel, reason)| DeadKernel { kernel: kernel.clone(), reason: reason.clone() });
    TargetReport {
        outputs: machine.outputs(target),
        symbols: symbols.collect(),
        dead_but_kept: dead.collect(),
        folded: folded.collect(),
        not_folded: folding.notes.clone(),
        jobs: partitions.iter().map(|partition| JobReport::of(partition, units)).collect(),
        not_cut: not_cut.clone(),
        ..report
    }
}
