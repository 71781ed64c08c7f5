//! The number of jobs and the cache do not change the program.

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{Corpus, Targets};
use crate::link::{Host, Side};
use crate::measure::Memory;
use xtask::failure::{Failure, Result};
use xtask::step::Progress;

/// Compares the programs of several links.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = Corpus::Medium.objects(&bench.compiler, progress, Targets::One)?;
    bench.empty_cache()?;
    let cache = format!("--offload-cache={}", bench.cache().display());
    let jobs = [1, 1, 2, 2, 16, 16].map(|jobs| vec![format!("--wrapper-jobs={jobs}")]);
    let cached = ["cold", "warm"].map(|_| vec![cache.clone()]);
    let mut first = Vec::new();
    let mut missed = Vec::new();
    for options in jobs.into_iter().chain(cached) {
        let shown = options.join(" ");
        bench.link(Side::Ours, &link_of(objects.clone(), Host::Program, options), Memory::Ignored)?;
        let output = bench.output(Side::Ours);
        let program = std::fs::read(&output).map_err(|error| Failure::file("read", &output, &error))?;
        if first.is_empty() {
            first = program;
        } else if first != program {
            missed.push(format!("{shown} gives other bytes than --wrapper-jobs=1"));
        }
    }
    bench.cache_is_used()?;
    let brief = format!("8 links, {} bytes, {} others", first.len(), missed.len());
    Ok(Outcome { details: format!("- {brief}\n"), brief, missed, ..Outcome::default() })
}
