//! The number of jobs does not change the program, nor does it matter whether its code comes from the cache.

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
    let jobs = |jobs: usize| format!("--wrapper-jobs={jobs}");
    let uncached = [1, 1, 2, 2, 16, 16].map(|count| vec![jobs(count)]);
    // With a cache each unit is cut by itself.
    let cached = [1, 2, 16].map(|count| vec![jobs(count), cache.clone()]);
    let mut missed = Vec::new();
    let mut sizes = Vec::new();
    for links in [&uncached[..], &cached[..]] {
        let mut first = Vec::new();
        for options in links {
            bench.link(Side::Ours, &link_of(objects.clone(), Host::Program, options.clone()), Memory::Ignored)?;
            let output = bench.output(Side::Ours);
            let program = std::fs::read(&output).map_err(|error| Failure::file("read", &output, &error))?;
            if first.is_empty() {
                first = program;
            } else if first != program {
                missed.push(format!("{} gives other bytes than {}", options.join(" "), links[0].join(" ")));
            }
        }
        sizes.push(first.len().to_string());
    }
    bench.cache_is_used()?;
    let brief = format!("9 links, {} bytes, {} others", sizes.join(" and "), missed.len());
    Ok(Outcome { details: format!("- {brief}\n"), brief, missed, ..Outcome::default() })
}
