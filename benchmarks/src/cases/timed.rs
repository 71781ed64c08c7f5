//! fatlink and the peer link the same objects in turn.

use std::path::PathBuf;

use super::Outcome;
use super::figures::Figures;
use crate::bench::Bench;
use crate::code::{Code, Comparison};
use crate::corpus::{self, Corpus, Form, Producer, Targets};
use crate::link::Peer;
use crate::link::{Host, Link, NvccLink, Side};
use crate::measure::{Memory, Sample};
use xtask::failure::{Failure, Result};
use xtask::step::Progress;

/// Lets nvlink optimize LTO-IR on all cores, which both sides do: a core alone takes too long for large programs.
const ALL_CORES: &str = "-split-compile-extended=0";

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
    /// What fatlink links. The peer of nvcc's objects is nvcc.
    pub producer: Producer,
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
    /// Largest median of fatlink's time over the peer's; without one the result is only reported.
    pub goal: Option<f64>,
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
        Cache::None if timed.targets != Targets::Amd => timed.compare_code(bench, progress, &link)?,
        _ => Vec::new(),
    };
    Ok(Figures { timed, peer: bench.peer, at_peer_jobs, ours, theirs, comparisons }.outcome())
}

fn jobs(count: usize) -> String {
    format!("--wrapper-jobs={count}")
}

impl Timed {
    /// What is timed, and the link that fills the cache before it.
    pub fn links(&self, bench: &Bench, progress: &Progress) -> Result<(Link, Link)> {
        let objects = self.corpus.objects_of(self.producer, &bench.compiler, progress, self.targets)?;
        let nvcc = self.nvcc(bench, progress, &objects)?;
        let theirs = if self.peer_jobs > 1 { vec![jobs(self.peer_jobs)] } else { Vec::new() };
        // nvcc's device link is a step of its own.
        let host = if self.host_program && nvcc.is_none() { Host::Program } else { Host::None };
        let before = Link { objects, nvcc, targets: self.targets, host, ours: self.options(bench), theirs };
        if self.cache != Cache::Changed {
            return Ok((before.clone(), before));
        }
        let mut link = before.clone();
        link.objects = corpus::with_change(&bench.compiler, progress, &before.objects, self.targets, self.producer)?;
        if let (Producer::Nvcc(_), Some(nvcc)) = (self.producer, &mut link.nvcc) {
            nvcc.objects.clone_from(&link.objects);
        }
        Ok((link, before))
    }

    /// What nvcc links, where it is the peer.
    fn nvcc(&self, bench: &Bench, progress: &Progress, objects: &[PathBuf]) -> Result<Option<NvccLink>> {
        let link = |objects: Vec<PathBuf>, options: &[&str]| {
            Ok(Some(NvccLink { objects, options: options.iter().map(|&option| option.to_owned()).collect() }))
        };
        match (self.producer, bench.peer) {
            // nvcc compiles no HIP.
            _ if self.targets == Targets::Amd => Ok(None),
            (Producer::Clang, Peer::Clang) => Ok(None),
            (Producer::Clang, Peer::Nvcc) => {
                let producer = Producer::Nvcc(Form::Lto);
                let objects = self.corpus.objects_of(producer, &bench.compiler, progress, self.targets)?;
                // By default nvlink drops the kernels that no host code of the object launches.
                link(objects, &["-dlto", "-Xnvlink", "-ignore-host-info"])
            }
            (Producer::Nvcc(Form::Sass | Form::Ptx), _) => link(objects.to_owned(), &[]),
            (Producer::Nvcc(Form::Lto), _) => link(objects.to_owned(), &["-dlto", ALL_CORES]),
        }
    }

    /// fatlink's own options.
    fn options(&self, bench: &Bench) -> Vec<String> {
        let mut options = Vec::new();
        if self.cache != Cache::None {
            options.push(format!("--offload-cache={}", bench.cache().display()));
        }
        if self.producer != Producer::Clang {
            options.push(format!("--offload-sass={}", self.targets.architectures().join(",")));
        }
        if self.producer == Producer::Nvcc(Form::Lto) {
            options.push(format!("--device-linker={ALL_CORES}"));
        }
        options
    }

    /// Fills the cache with which a build's runs begin, by a link before the change.
    pub fn warm_cache(&self, bench: &Bench, side: Side, before: &Link) -> Result<()> {
        if self.cache == Cache::None {
            return Ok(());
        }
        bench.empty_cache()?;
        bench.link(side, before, Memory::Ignored)?;
        // Of machine code there is nothing to compile, and perhaps nothing to keep.
        if self.producer != Producer::Nvcc(Form::Sass) {
            bench.cache_is_used()?;
        }
        bench.keep_cache(side)
    }

    /// Brings that cache back, as each run changes it.
    pub fn restore_cache(&self, bench: &Bench, side: Side) -> Result<()> {
        if self.cache == Cache::None { Ok(()) } else { bench.restore_cache(side) }
    }

    /// A B A B …; where the peer has linked the same objects in the same way before, those runs count. Sampling the memory
    /// takes an eighth of two cores, which would slow down only the linker that uses both, and is done in runs of its own.
    fn rounds(&self, bench: &mut Bench, progress: &Progress, link: &Link) -> Result<(Vec<Sample>, Vec<Sample>)> {
        let options = link.nvcc.as_ref().map(|nvcc| &nvcc.options);
        let key = format!(
            "{:?} {:?} {:?} {:?} {:?} {options:?}",
            self.corpus, self.targets, link.host, link.theirs, self.producer
        );
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
