//! The first link with a cache, which cuts each unit by itself, against one without a cache.

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{Corpus, Producer, Targets};
use crate::link::{Host, Side};
use crate::measure::{Memory, Sample};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;

const ROUNDS: usize = 3;
/// Processor time with an empty cache over that without a cache.
const GOAL: f64 = 1.05;

/// Links with and without a cache, in turn.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = Corpus::Large.objects_of(Producer::Clang, &bench.compiler, progress, Targets::One)?;
    let cache = format!("--offload-cache={}", bench.cache().display());
    let link = |options: Vec<String>| -> Result<Sample> {
        bench.link(Side::Ours, &link_of(objects.clone(), Host::None, options), Memory::Ignored)
    };
    let mut pairs = Vec::new();
    let rounds = bench.rounds.unwrap_or(ROUNDS);
    progress.begin_count(rounds);
    for _ in 0..rounds {
        bench.empty_cache()?;
        pairs.push((link(vec![cache.clone()])?, link(Vec::new())?));
        progress.count_one();
    }
    bench.cache_is_used()?;
    let ratio =
        |figure: fn(&Sample) -> f64| Spread::of(pairs.iter().map(|(with, without)| figure(with) / figure(without)));
    let (Some(processor), Some(wall)) =
        (ratio(|sample| sample.processor.as_secs_f64()), ratio(|sample| sample.wall.as_secs_f64()))
    else {
        return Ok(Outcome::default());
    };
    let missed = (processor.median > GOAL).then(|| format!("processor time {processor}, goal {GOAL}"));
    let brief = format!("processor time {processor}, wall {wall}");
    let details = format!("- with an empty cache over without a cache: {brief}\n");
    Ok(Outcome { brief, details, missed: missed.into_iter().collect(), ..Outcome::default() })
}
