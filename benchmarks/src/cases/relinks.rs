//! Links of a program of which nothing, or one unit, has changed: against the host linker alone, and against ptxas.

use serde_json::Value;

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{self, Corpus, Targets};
use crate::link::{Host, Link, Side};
use crate::measure::{self, Memory};
use crate::statistics::Spread;
use xtask::failure::{Failure, Result};
use xtask::step::Progress;

const ROUNDS: usize = 5;
/// An unchanged link takes at most so many times the host linker's time, and these seconds.
const UNCHANGED: (f64, f64) = (1.3, 0.1);
/// A link after a change of one unit takes at most these seconds more than ptxas.
const CHANGED: f64 = 0.5;

/// Links both in turn, with the cache of a link before the change.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = Corpus::Large.objects(&bench.compiler, progress)?;
    let options = vec![bench.cache_option(), "--offload-stats=json".to_owned()];
    let before = link_of(objects.clone(), Host::Program, options);
    let changed = corpus::with_change(&bench.compiler, progress, &objects, Targets::One)?;
    let after = Link { objects: changed, ..before.clone() };
    bench.empty_cache()?;
    bench.link(Side::Ours, &before, Memory::Ignored)?;
    bench.cache_is_used()?;
    bench.keep_cache(Side::Ours)?;
    let (mut unchanged, mut host, mut over) = (Vec::new(), Vec::new(), Vec::new());
    let rounds = bench.rounds.unwrap_or(ROUNDS);
    progress.begin_count(rounds);
    for _ in 0..rounds {
        bench.restore_cache(Side::Ours)?;
        unchanged.push(bench.link(Side::Ours, &before, Memory::Ignored)?.seconds());
        let mut alone = bench.linkers.host_link(&objects, &bench.output(Side::Ours));
        host.push(measure::run(&mut alone, &bench.log(), Memory::Ignored)?.seconds());
        let relinked = bench.link(Side::Ours, &after, Memory::Ignored)?.seconds();
        over.push(relinked - ptxas_seconds(bench)?);
        progress.count_one();
    }
    outcome(unchanged, host, over)
}

fn outcome(unchanged: Vec<f64>, host: Vec<f64>, over: Vec<f64>) -> Result<Outcome> {
    let pairs = unchanged.iter().zip(&host);
    let beyond = Spread::of(pairs.map(|(unchanged, host)| unchanged - UNCHANGED.0 * host))?;
    let (unchanged, host, over) = (Spread::of(unchanged)?, Spread::of(host)?, Spread::of(over)?);
    let mut missed = Vec::new();
    if beyond.median > UNCHANGED.1 {
        let (times, seconds) = UNCHANGED;
        missed.push(format!("unchanged: {times} times the host linker and {:.2} s, goal {seconds} s", beyond.median));
    }
    if over.median > CHANGED {
        missed.push(format!("one unit changed: {:.2} s more than ptxas, goal {CHANGED} s", over.median));
    }
    let brief =
        format!("unchanged {unchanged:.3} s, the host linker {host:.3} s; one unit changed: {over:.3} s over ptxas");
    Ok(Outcome { details: format!("- {brief}\n"), brief, missed, ..Outcome::default() })
}

/// How long ptxas takes for what the last link assembled: as long as its longest job, or as all on the cores of the machine.
fn ptxas_seconds(bench: &Bench) -> Result<f64> {
    let log = std::fs::read_to_string(bench.log()).map_err(|error| Failure::file("read", &bench.log(), &error))?;
    let stats: Value = log
        .lines()
        .filter(|line| line.starts_with('{'))
        .find_map(|line| serde_json::from_str(line).ok())
        .ok_or_else(|| Failure::new("fatlink printed no statistics"))?;
    let jobs = stats["jobs"].as_array().into_iter().flatten().filter(|job| job["cached"] == false);
    let times: Vec<f64> = jobs.filter_map(|job| job["ptxas_seconds"].as_f64()).collect();
    if times.is_empty() {
        return Err(Failure::new("no partition was compiled after the change"));
    }
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    #[allow(clippy::cast_precision_loss)]
    let spread = times.iter().sum::<f64>() / cores as f64;
    Ok(times.iter().copied().fold(spread, f64::max))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn goals_are_those_of_the_medians() {
        let good = outcome(vec![0.2, 0.2, 9.0], vec![0.1; 3], vec![0.4, 0.1, 0.4]).unwrap();
        assert!(good.missed.is_empty(), "{:?}", good.missed);
        let slow = outcome(vec![0.3; 3], vec![0.1; 3], vec![0.6; 3]).unwrap();
        assert_eq!(slow.missed.len(), 2);
    }
}
