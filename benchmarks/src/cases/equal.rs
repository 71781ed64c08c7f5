//! A program of kernels in pairs that differ in their names only: one of each pair is compiled.

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{self, Producer, TWINS, Targets};
use crate::link::{Host, Side};
use crate::measure::{Memory, Sample};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;

const ROUNDS: usize = 3;
/// Processor time with `--offload-icf=safe` over that without.
const GOAL: f64 = 0.7;

/// Links the program with and without equal kernels, in turn.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let mut objects =
        bench.compiler.objects(progress, &[corpus::twins_program()], Targets::One, Producer::Clang, "")?;
    objects.extend(bench.compiler.objects(progress, &corpus::shared(), Targets::One, Producer::Clang, "")?);
    objects.extend(bench.compiler.objects(progress, &corpus::twins(), Targets::One, Producer::Clang, "")?);
    let processor = |sample: &Sample| sample.processor.as_secs_f64();
    let mut ratios = Vec::new();
    let mut missed = Vec::new();
    let mut details = String::new();
    for _ in 0..bench.rounds.unwrap_or(ROUNDS) {
        let link = |folding: &str| -> Result<(Sample, usize)> {
            let options = vec![format!("--offload-icf={folding}")];
            let sample = bench.link(Side::Ours, &link_of(objects.clone(), Host::Program, options), Memory::Ignored)?;
            Ok((sample, bench.kernels(progress, Side::Ours)?))
        };
        let ((all, kernels), (folded, folded_kernels)) = (link("off")?, link("safe")?);
        ratios.push(processor(&folded) / processor(&all));
        if kernels != folded_kernels || kernels < 2 * TWINS {
            missed.push(format!("{folded_kernels} of {kernels} kernels are in the program, all should be"));
        }
        details = format!(
            "- {kernels} kernels, {:.2} s of processor time instead of {:.2}\n",
            processor(&folded),
            processor(&all)
        );
    }
    let Some(ratio) = Spread::of(ratios) else { return Ok(Outcome::default()) };
    if ratio.median > GOAL {
        missed.push(format!("processor time {ratio}, goal {GOAL}"));
    }
    Ok(Outcome { brief: format!("processor time {ratio}"), details, missed, ..Outcome::default() })
}
