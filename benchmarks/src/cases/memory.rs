//! A link within half of the memory that the peer needs.

use super::{Outcome, link_of, timed};
use crate::bench::Bench;
use crate::corpus::Corpus;
use crate::link::{Host, Link, Side};
use crate::measure::{Memory, mebibytes, peak};
use xtask::failure::Result;
use xtask::step::Progress;

/// Links large with half of the peer's peak as the budget.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let link = link_of(Corpus::Large.objects(&bench.compiler, progress)?, Host::Program, Vec::new());
    let theirs = match bench.peer_samples.get(&timed::peer_key(Corpus::Large, &link)) {
        Some(samples) => peak(samples),
        None => bench.link(Side::Theirs, &link, Memory::Sampled)?.peak,
    };
    let budget = theirs / 2;
    let option = format!("--offload-memory={}M", mebibytes(budget));
    let sample = bench.link(Side::Ours, &Link { ours: vec![option.clone()], ..link }, Memory::Sampled)?;
    let kernels = bench.kernels(Side::Ours)?;
    let mut missed = Vec::new();
    if sample.peak > budget {
        missed.push(format!("{} MiB in use, {} allowed", mebibytes(sample.peak), mebibytes(budget)));
    }
    if kernels == 0 {
        missed.push("the program has no kernels".into());
    }
    let figures = format!(
        "{option}: {} MiB in use, {:.1} s, {kernels} kernels; the peer takes {} MiB",
        mebibytes(sample.peak),
        sample.seconds(),
        mebibytes(theirs)
    );
    Ok(Outcome { details: format!("- {figures}\n"), brief: figures, missed, ..Outcome::default() })
}
