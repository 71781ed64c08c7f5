//! fatlink and the peer link the same objects in turn.

use super::Outcome;
use super::figures::Figures;
use crate::bench::Bench;
use crate::code::{Code, Comparison};
use crate::corpus::{self, Corpus, Targets};
use crate::link::{Host, Link, Side};
use crate::measure::{Memory, Sample};
use xtask::failure::{Failure, Result};
use xtask::step::Progress;

/// The contents of fatlink's cache before each run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Cache {
    /// No cache.
    None,
    /// The results of a link before one unit changed.
    Changed,
    /// The results of the same link.
    Unchanged,
}

/// A comparison in turn.
#[derive(Clone, Copy, Debug)]
pub struct Timed {
    pub corpus: Corpus,
    pub cache: Cache,
    /// Whether the host code is linked as well.
    pub host_program: bool,
    /// Pairs of runs.
    pub rounds: usize,
    /// Whether fatlink's memory with a job for each core is measured, too.
    pub is_long: bool,
    /// Jobs of the peer; its memory is compared with fatlink's at the same number.
    pub peer_jobs: usize,
    /// Largest median of fatlink's time over the peer's.
    pub goal: f64,
}

/// Measures both and compares their machine code.
pub fn run(bench: &mut Bench, progress: &Progress, timed: &Timed) -> Result<Outcome> {
    let timed = &Timed { rounds: bench.rounds.unwrap_or(timed.rounds), ..*timed };
    let (link, before) = timed.links(bench, progress)?;
    timed.warm_cache(bench, Side::Ours, &before)?;
    let limited = Link { ours: [link.ours.clone(), vec![jobs(timed.peer_jobs)]].concat(), ..link.clone() };
    timed.restore_cache(bench, Side::Ours)?;
    let at_peer_jobs = bench.link(Side::Ours, &limited, Memory::Sampled)?;
    let (ours, theirs) = timed.rounds(bench, progress, &link)?;
    let comparisons = match timed.cache {
        // lit-tests/tests/hip compares code for AMD GPUs.
        Cache::None if link.targets != Targets::Amd => compare_code(bench, &link)?,
        _ => Vec::new(),
    };
    Figures { timed, at_peer_jobs, ours, theirs, comparisons }.outcome()
}

/// By what [`Bench::peer_samples`] keeps the runs of the peer.
pub fn peer_key(corpus: Corpus, link: &Link) -> String {
    format!("{corpus:?} {:?} {:?}", link.host, link.theirs)
}

fn jobs(count: usize) -> String {
    format!("--wrapper-jobs={count}")
}

impl Timed {
    /// What is timed, and the link that fills the cache before it.
    pub fn links(&self, bench: &Bench, progress: &Progress) -> Result<(Link, Link)> {
        let (targets, objects) = (self.corpus.targets(), self.corpus.objects(&bench.compiler, progress)?);
        let ours = if self.cache == Cache::None { Vec::new() } else { vec![bench.cache_option()] };
        let theirs = if self.peer_jobs > 1 { vec![jobs(self.peer_jobs)] } else { Vec::new() };
        let host = if self.host_program { Host::Program } else { Host::None };
        let before = Link { objects, targets, host, ours, theirs };
        if self.cache != Cache::Changed {
            return Ok((before.clone(), before));
        }
        let objects = corpus::with_change(&bench.compiler, progress, &before.objects, targets)?;
        Ok((Link { objects, ..before.clone() }, before))
    }

    /// Fills the cache with which a build's runs begin, by a link before the change.
    pub fn warm_cache(&self, bench: &Bench, side: Side, before: &Link) -> Result<()> {
        if self.cache == Cache::None {
            return Ok(());
        }
        bench.empty_cache()?;
        bench.link(side, before, Memory::Ignored)?;
        bench.cache_is_used()?;
        bench.keep_cache(side)
    }

    /// Brings that cache back, as each run changes it.
    pub fn restore_cache(&self, bench: &Bench, side: Side) -> Result<()> {
        if self.cache == Cache::None { Ok(()) } else { bench.restore_cache(side) }
    }

    /// A B A B …; where the peer has linked the same objects in the same way before, those runs count. Sampling the memory
    /// takes an eighth of two cores, which would slow down only the linker that uses both, and is done in runs of its own.
    fn rounds(&self, bench: &mut Bench, progress: &Progress, link: &Link) -> Result<(Vec<Sample>, Vec<Sample>)> {
        let key = peer_key(self.corpus, link);
        let known = bench.peer_samples.get(&key).filter(|samples| samples.len() >= self.rounds).cloned();
        let is_known = known.is_some();
        let (mut our_peak, mut their_peak) = (0, 0);
        if self.is_long {
            self.restore_cache(bench, Side::Ours)?;
            our_peak = bench.link(Side::Ours, link, Memory::Sampled)?.peak;
        }
        if !is_known {
            their_peak = bench.link(Side::Theirs, link, Memory::Sampled)?.peak;
        }
        let (mut ours, mut theirs) = (Vec::new(), known.unwrap_or_default());
        progress.begin_count(self.rounds);
        for _ in 0..self.rounds {
            self.restore_cache(bench, Side::Ours)?;
            ours.push(Sample { peak: our_peak, ..bench.link(Side::Ours, link, Memory::Ignored)? });
            if !is_known {
                theirs.push(Sample { peak: their_peak, ..bench.link(Side::Theirs, link, Memory::Ignored)? });
            }
            progress.count_one();
        }
        bench.peer_samples.insert(key, theirs.clone());
        Ok((ours, theirs))
    }
}

/// Compares each architecture's code.
fn compare_code(bench: &Bench, link: &Link) -> Result<Vec<(String, Comparison)>> {
    if link.host == Host::None {
        // Nothing was written yet.
        let program = Link { host: Host::Program, ..link.clone() };
        bench.link(Side::Ours, &program, Memory::Ignored)?;
        bench.link(Side::Theirs, &program, Memory::Ignored)?;
    }
    let (ours, theirs) = (bench.code(Side::Ours)?, bench.code(Side::Theirs)?);
    if ours.is_empty() || theirs.is_empty() {
        return Err(Failure::new("one of the linkers left no machine code in the program"));
    }
    let none = Code::default();
    let architectures = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
    let compare = |name: &String| Comparison::of(ours.get(name).unwrap_or(&none), theirs.get(name).unwrap_or(&none));
    Ok(architectures.map(|name| (name.clone(), compare(name))).collect())
}
