//! What an option costs or saves: links with it and without it in turn.

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{self, Corpus, DEAD_UNITS, SCALE_STEP, TWINS};
use crate::link::{Host, Link, Side};
use crate::measure::{Memory, Sample};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;

const ROUNDS: usize = 3;

/// Two links of one program.
struct Ways {
    with: Link,
    without: Link,
    /// Largest processor time of the first over that of the second.
    goal: f64,
    /// Why these numbers of kernels, of the first and the second, are wrong.
    wrong: fn(usize, usize) -> Option<String>,
}

/// A program that uses a third of a library's kernels.
pub fn dead(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let compile = |units: &[_]| bench.compiler.for_one(progress, units);
    let mut objects = [compile(&[corpus::dead_program()])?, compile(&corpus::shared())?].concat();
    objects.extend_from_slice(&compile(&corpus::scale())?[..DEAD_UNITS]);
    let link = |value| link_of(objects.clone(), Host::Program, vec![format!("--offload-gc={value}")]);
    let wrong = |live, all| {
        let dead = DEAD_UNITS * SCALE_STEP - DEAD_UNITS * SCALE_STEP / 3;
        (all < live + dead).then(|| format!("{live} of {all} kernels are compiled, {dead} should not be"))
    };
    Ways { with: link("host"), without: link("off"), goal: 0.45, wrong }.measure(bench, progress)
}

/// A program of kernels in pairs that differ in their names only.
pub fn equal(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let compile = |units: &[_]| bench.compiler.for_one(progress, units);
    let objects =
        [compile(&[corpus::twins_program()])?, compile(&corpus::shared())?, compile(&corpus::twins())?].concat();
    let link = |value| link_of(objects.clone(), Host::Program, vec![format!("--offload-icf={value}")]);
    let wrong = |folded, all| {
        let is_wrong = all != folded || all < 2 * TWINS;
        is_wrong.then(|| format!("{folded} of {all} kernels are in the program, all should be"))
    };
    Ways { with: link("safe"), without: link("off"), goal: 0.7, wrong }.measure(bench, progress)
}

/// The first link with a cache, which cuts each unit by itself.
pub fn first_link(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = Corpus::Large.objects(&bench.compiler, progress)?;
    let link = |options| link_of(objects.clone(), Host::Program, options);
    let wrong = |with, without| (with != without).then(|| format!("{with} kernels with a cache, {without} without"));
    let (with, without) = (link(vec![bench.cache_option()]), link(Vec::new()));
    let outcome = Ways { with, without, goal: 1.05, wrong }.measure(bench, progress)?;
    bench.cache_is_used()?;
    Ok(outcome)
}

impl Ways {
    fn measure(&self, bench: &Bench, progress: &Progress) -> Result<Outcome> {
        let (mut pairs, mut missed, mut kernels) = (Vec::new(), Vec::new(), (0, 0));
        let rounds = bench.rounds.unwrap_or(ROUNDS);
        progress.begin_count(rounds);
        for _ in 0..rounds {
            let without = bench.link(Side::Ours, &self.without, Memory::Ignored)?;
            kernels.1 = bench.kernels(Side::Ours)?;
            bench.empty_cache()?;
            let with = bench.link(Side::Ours, &self.with, Memory::Ignored)?;
            kernels.0 = bench.kernels(Side::Ours)?;
            pairs.push((with, without));
            missed.extend((self.wrong)(kernels.0, kernels.1));
            progress.count_one();
        }
        let ratio =
            |figure: fn(&Sample) -> f64| Spread::of(pairs.iter().map(|(with, without)| figure(with) / figure(without)));
        let (processor, wall) = (ratio(Sample::processor_seconds)?, ratio(Sample::seconds)?);
        if processor.median > self.goal {
            missed.push(format!("processor time {processor}, goal {}", self.goal));
        }
        let brief = format!("processor time {processor}, wall {wall}");
        let [with, without] = [&self.with, &self.without].map(|link| link.ours.join(" "));
        let details = format!("- `{with}` over `{without}`: {brief}; {} kernels and {}\n", kernels.0, kernels.1);
        Ok(Outcome { brief, details, missed, ..Outcome::default() })
    }
}
