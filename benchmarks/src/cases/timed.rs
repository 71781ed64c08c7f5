//! fatlink and the peer link the same objects in turn.

use std::fmt::Write;

use super::Outcome;
use crate::arguments::Peer;
use crate::bench::Bench;
use crate::code::{Code, Comparison};
use crate::corpus::{self, Corpus, Targets};
use crate::link::{Host, Link, Side};
use crate::measure::{Memory, Sample, mebibytes, peak};
use crate::statistics::Spread;
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
    pub targets: Targets,
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
        Cache::None => timed.compare_code(bench, progress, &link)?,
        Cache::Changed | Cache::Unchanged => Vec::new(),
    };
    Ok(Figures { timed, peer: bench.peer, at_peer_jobs, ours, theirs, comparisons }.outcome())
}

fn jobs(count: usize) -> String {
    format!("--wrapper-jobs={count}")
}

impl Timed {
    /// What is timed, and the link that fills the cache before it.
    pub fn links(&self, bench: &Bench, progress: &Progress) -> Result<(Link, Link)> {
        let objects = self.corpus.objects(&bench.compiler, progress, self.targets)?;
        let nvcc_objects = match bench.peer {
            Peer::Clang => None,
            Peer::Nvcc => Some(self.corpus.nvcc_objects(&bench.compiler, progress, self.targets)?),
        };
        let ours = match self.cache {
            Cache::None => Vec::new(),
            Cache::Changed | Cache::Unchanged => vec![format!("--offload-cache={}", bench.cache().display())],
        };
        let theirs = if self.peer_jobs > 1 { vec![jobs(self.peer_jobs)] } else { Vec::new() };
        // nvcc's device link is a step of its own.
        let host = if self.host_program && bench.peer == Peer::Clang { Host::Program } else { Host::None };
        let before = Link { objects, nvcc_objects, targets: self.targets, host, ours, theirs };
        let objects = match self.cache {
            Cache::Changed => corpus::with_change(&bench.compiler, progress, &before.objects, self.targets)?,
            Cache::None | Cache::Unchanged => before.objects.clone(),
        };
        Ok((Link { objects, ..before.clone() }, before))
    }

    /// Fills the cache with which a build's runs begin, by a link before the change.
    pub fn warm_cache(&self, bench: &Bench, side: Side, before: &Link) -> Result<()> {
        if self.cache == Cache::None {
            return Ok(());
        }
        bench.empty_cache()?;
        bench.link(side, before, Memory::Ignored)?;
        bench.keep_cache(side)
    }

    /// Brings that cache back, as each run changes it.
    pub fn restore_cache(&self, bench: &Bench, side: Side) -> Result<()> {
        if self.cache == Cache::None { Ok(()) } else { bench.restore_cache(side) }
    }

    /// A B A B …; where the peer has linked the same objects in the same way before, those runs count. Sampling the memory
    /// takes an eighth of two cores, which would slow down only the linker that uses both, and is done in runs of its own.
    fn rounds(&self, bench: &mut Bench, progress: &Progress, link: &Link) -> Result<(Vec<Sample>, Vec<Sample>)> {
        let key = format!("{:?} {:?} {:?} {:?}", self.corpus, self.targets, link.host, link.theirs);
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

    /// Compares each architecture's code.
    fn compare_code(&self, bench: &Bench, progress: &Progress, link: &Link) -> Result<Vec<(String, Comparison)>> {
        if link.host == Host::None {
            // Nothing was written yet.
            let program = Link { host: Host::Program, ..link.clone() };
            bench.link(Side::Ours, &program, Memory::Ignored)?;
            bench.link(Side::Theirs, &program, Memory::Ignored)?;
        }
        let (ours, theirs) = (bench.code(progress, Side::Ours)?, bench.code(progress, Side::Theirs)?);
        if ours.is_empty() || theirs.is_empty() {
            return Err(Failure::new("one of the linkers left no machine code in the program"));
        }
        let none = Code::default();
        let architectures = theirs.keys().chain(ours.keys().filter(|name| !theirs.contains_key(*name)));
        let compare =
            |name: &String| Comparison::of(ours.get(name).unwrap_or(&none), theirs.get(name).unwrap_or(&none));
        Ok(architectures.map(|name| (name.clone(), compare(name))).collect())
    }
}

/// All measurements of one case.
struct Figures<'a> {
    timed: &'a Timed,
    peer: Peer,
    at_peer_jobs: Sample,
    ours: Vec<Sample>,
    theirs: Vec<Sample>,
    comparisons: Vec<(String, Comparison)>,
}

impl Figures<'_> {
    fn outcome(&self) -> Outcome {
        let ratios = self.ours.iter().zip(&self.theirs).map(|(ours, theirs)| seconds(ours) / seconds(theirs));
        let Some(wall) = Spread::of(ratios) else { return Outcome::default() };
        let memory = self.memory();
        let code = self.comparisons.iter().map(|(_, comparison)| comparison.size).fold(f64::NAN, f64::max);
        let mut brief = format!("wall {wall} memory {memory:.2}");
        if !code.is_nan() {
            let _ = write!(brief, " code {code:.2}");
        }
        let missed = match self.peer {
            Peer::Clang => self.missed(wall, memory),
            Peer::Nvcc => self.lost_kernels(),
        };
        let code_cell = if code.is_nan() { "-".to_owned() } else { format!("{code:.3}") };
        let cells = format!(
            "{} | {} | **{wall}** | {:.2} | {} | {} | {memory:.2} | {code_cell}",
            median(&self.ours, seconds),
            median(&self.theirs, seconds),
            self.timed.goal,
            median(&self.ours, processor),
            median(&self.theirs, processor),
        );
        Outcome { brief, cells, details: self.details(), missed }
    }

    /// Peak of ours over the peer's, at the same number of jobs.
    fn memory(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let ratio = self.at_peer_jobs.peak as f64 / peak(&self.theirs).max(1) as f64;
        ratio
    }

    /// Diagnoses different numbers of kernels. Against another compiler there are no other goals, and it may give kernels other
    /// names.
    fn lost_kernels(&self) -> Vec<String> {
        let uneven = |comparison: &Comparison| comparison.only_ours.len() != comparison.only_theirs.len();
        let uneven = self.comparisons.iter().filter(|(_, comparison)| uneven(comparison));
        let count = |comparison: &Comparison, more: &[String]| comparison.kernels + more.len();
        let message = |(architecture, comparison): &(String, Comparison)| {
            let ours = count(comparison, &comparison.only_ours);
            format!("{architecture}: {ours} kernels, the peer {}", count(comparison, &comparison.only_theirs))
        };
        uneven.map(message).collect()
    }

    fn missed(&self, wall: Spread, memory: f64) -> Vec<String> {
        let mut missed = Vec::new();
        if wall.median > self.timed.goal {
            missed.push(format!("wall {:.3}, goal {}", wall.median, self.timed.goal));
        }
        if memory > 1.0 {
            missed.push(format!("memory {memory:.2} times the peer's at --wrapper-jobs={}", self.timed.peer_jobs));
        }
        for (architecture, comparison) in &self.comparisons {
            missed.extend(comparison.problems().into_iter().map(|problem| format!("{architecture}: {problem}")));
        }
        missed
    }

    fn details(&self) -> String {
        let mut text = format!(
            "- peak memory of all processes: {} MiB with --wrapper-jobs={}, the peer {} MiB",
            mebibytes(self.at_peer_jobs.peak),
            self.timed.peer_jobs,
            mebibytes(peak(&self.theirs)),
        );
        if self.timed.is_long {
            let _ = write!(text, "; {} MiB with a job for each core", mebibytes(peak(&self.ours)));
        }
        text.push('\n');
        for (architecture, comparison) in &self.comparisons {
            let _ = writeln!(
                text,
                "- {architecture}: {} kernels in both, {:.3} times the code, {} spill more, registers within 2 for \
                 {:.1} %; {} functions spill more and {} less; {} spills in all, the peer {}",
                comparison.kernels,
                comparison.size,
                comparison.more_spills.len(),
                100.0 * comparison.close_registers(),
                comparison.functions.0,
                comparison.functions.1,
                comparison.all_spills.0,
                comparison.all_spills.1,
            );
            list(&mut text, "more spills", &comparison.more_spills);
            list(&mut text, "other registers", &comparison.other_registers);
            let names = |names: &[String]| names.iter().map(|name| (name.clone(), 1, 0)).collect::<Vec<_>>();
            list(&mut text, "only in ours", &names(&comparison.only_ours));
            list(&mut text, "only in the peer's", &names(&comparison.only_theirs));
        }
        text
    }
}

fn list(text: &mut String, title: &str, kernels: &[(String, u32, u32)]) {
    for (name, ours, theirs) in kernels {
        let _ = writeln!(text, "  - {title}: `{name}` {ours}, the peer {theirs}");
    }
}

fn seconds(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64()
}

fn processor(sample: &Sample) -> f64 {
    sample.processor.as_secs_f64()
}

fn median(samples: &[Sample], figure: fn(&Sample) -> f64) -> String {
    let digits = if samples.iter().map(figure).all(|figure| figure < 1.0) { 3 } else { 1 };
    Spread::of(samples.iter().map(figure)).map_or(String::new(), |spread| format!("{:.digits$}", spread.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn sample(milliseconds: u64, peak: u64) -> Sample {
        Sample { wall: Duration::from_millis(milliseconds), processor: Duration::ZERO, peak }
    }

    fn outcome(ours: u64, comparison: Comparison) -> Outcome {
        let timed = Timed {
            corpus: Corpus::Small,
            targets: Targets::One,
            cache: Cache::None,
            host_program: false,
            rounds: 3,
            is_long: true,
            peer_jobs: 1,
            goal: 0.35,
        };
        let figures = Figures {
            timed: &timed,
            peer: Peer::Clang,
            at_peer_jobs: sample(ours, 80),
            ours: [ours, ours - 2, ours + 2].map(|wall| sample(wall, 90)).to_vec(),
            theirs: [100, 100, 100].map(|wall| sample(wall, 100)).to_vec(),
            comparisons: vec![("sm_90".into(), comparison)],
        };
        figures.outcome()
    }

    #[test]
    fn the_brief_line_has_all_figures() {
        let good = outcome(31, Comparison { size: 1.01, kernels: 5, ..Comparison::default() });
        assert_eq!(good.brief, "wall 0.31 (0.29-0.33) memory 0.80 code 1.01");
        assert_eq!(good.missed, [""; 0]);
    }

    #[test]
    fn slow_links_and_lost_kernels_miss_the_goal() {
        let lost = Comparison { size: 1.0, kernels: 5, only_theirs: vec!["k".into()], ..Comparison::default() };
        assert_eq!(outcome(31, lost).missed.len(), 1);
        let slow = outcome(40, Comparison { size: 1.0, kernels: 5, ..Comparison::default() });
        assert_eq!(slow.missed, ["wall 0.400, goal 0.35"]);
    }
}
