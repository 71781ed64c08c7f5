//! A program that uses a third of a library's kernels: the others are not compiled.

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{self, DEAD_UNITS, Producer, SCALE_STEP, Targets};
use crate::link::{Host, Side};
use crate::measure::{Memory, Sample};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;

const ROUNDS: usize = 3;
/// Processor time with `--offload-gc=host` over that without.
const GOAL: f64 = 0.45;

/// Links the program with and without its dead kernels, in turn.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let mut objects = bench.compiler.objects(progress, &[corpus::dead_program()], Targets::One, Producer::Clang, "")?;
    objects.extend(bench.compiler.objects(progress, &corpus::shared(), Targets::One, Producer::Clang, "")?);
    let units = bench.compiler.objects(progress, &corpus::scale(), Targets::One, Producer::Clang, "")?;
    objects.extend_from_slice(&units[..DEAD_UNITS]);
    let processor = |sample: &Sample| sample.processor.as_secs_f64();
    let mut ratios = Vec::new();
    let mut missed = Vec::new();
    let mut details = String::new();
    for _ in 0..bench.rounds.unwrap_or(ROUNDS) {
        let link = |gc: &str| -> Result<(Sample, usize)> {
            let options = vec![format!("--offload-gc={gc}")];
            let sample = bench.link(Side::Ours, &link_of(objects.clone(), Host::Program, options), Memory::Ignored)?;
            Ok((sample, bench.kernels(progress, Side::Ours)?))
        };
        let ((all, kernels), (live, live_kernels)) = (link("off")?, link("host")?);
        ratios.push(processor(&live) / processor(&all));
        let dead = DEAD_UNITS * SCALE_STEP - DEAD_UNITS * SCALE_STEP / 3;
        if kernels < live_kernels + dead {
            missed.push(format!("{live_kernels} of {kernels} kernels are compiled, {dead} should not be"));
        }
        details = format!(
            "- {live_kernels} of {kernels} kernels, {:.2} s of processor time instead of {:.2}\n",
            processor(&live),
            processor(&all)
        );
    }
    let Some(ratio) = Spread::of(ratios) else { return Ok(Outcome::default()) };
    if ratio.median > GOAL {
        missed.push(format!("processor time {ratio}, goal {GOAL}"));
    }
    Ok(Outcome { brief: format!("processor time {ratio}"), details, missed, ..Outcome::default() })
}
