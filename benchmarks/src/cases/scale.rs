//! The time for each kernel, for more and more kernels.

use std::fmt::Write;

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{self, SCALE_STEP};
use crate::link::{Host, Side};
use crate::measure::{Memory, Sample, mebibytes, peak};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;

const ROUNDS: usize = 3;
/// Time for each kernel among 2,000 over that among 100.
const GOAL: f64 = 1.25;

/// Links 100 to 2,000 kernels of one size.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let shared = bench.compiler.for_one(progress, &corpus::shared())?;
    let units = bench.compiler.for_one(progress, &corpus::scale())?;
    let mut details =
        String::from("| kernels | wall, s | for each, ms | CPU for each, ms | peak, MiB |\n|---|---|---|---|---|\n");
    let mut each = Vec::new();
    for count in [1, 2, 5, 10, 20] {
        let link = link_of([&shared[..], &units[..count]].concat(), Host::None, Vec::new());
        let samples = (0..bench.rounds.unwrap_or(ROUNDS)).map(|_| bench.link(Side::Ours, &link, Memory::Sampled));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        let kernels = count * SCALE_STEP;
        let per_kernel = f64::from(u32::try_from(kernels).unwrap_or(u32::MAX));
        let milliseconds = |figure: fn(&Sample) -> f64| -> Result<f64> {
            Spread::of(samples.iter().map(figure)).map(|seconds| seconds.median * 1000.0)
        };
        let (wall, processor) = (milliseconds(Sample::seconds)?, milliseconds(Sample::processor_seconds)?);
        each.push(wall / per_kernel);
        let _ = writeln!(
            details,
            "| {kernels} | {:.2} | {:.2} | {:.2} | {} |",
            wall / 1000.0,
            wall / per_kernel,
            processor / per_kernel,
            mebibytes(peak(&samples))
        );
    }
    let growth = each[each.len() - 1] / each[0];
    let missed = if growth > GOAL { vec![format!("grows by {growth:.2}, goal {GOAL}")] } else { Vec::new() };
    let brief = format!("{:.2} ms a kernel at 100, {:.2} at 2000, grows by {growth:.2}", each[0], each[each.len() - 1]);
    Ok(Outcome { brief, details, missed, ..Outcome::default() })
}
