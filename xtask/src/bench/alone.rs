//! Cases that are not a comparison in turn of two device links.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::cases::Outcome;
use super::link::{Host, Link, Side};
use super::measure::{self, Memory, Sample};
use super::objects::Targets;
use super::statistics::Spread;
use super::timed::{mebibytes, peak};
use super::{Bench, phases, sources};
use crate::failure::{Failure, Result};
use crate::step::Progress;
use crate::toolchain::LLVM;

/// A link without device code against the linker that it calls.
pub fn no_device_code(bench: &mut Bench, _: &Progress) -> Result<Outcome> {
    const ROUNDS: usize = 20;
    const GOAL: f64 = 5.0;
    let linker = Path::new(LLVM).join("bin/ld.lld");
    let run = |program: &Path, option: Option<String>| {
        let mut command = Command::new(program);
        command.args(option).args(["-e", "main", "-o"]).arg(bench.folder.join("host.out")).arg(&bench.host_object);
        measure::run(&mut command, &bench.log(), Memory::Ignored)
    };
    let ours = || run(&bench.linkers.dist.join("bin/ld.fatlink"), Some(format!("--linker-path={}", linker.display())));
    let theirs = || run(&linker, None);
    ours()?;
    theirs()?;
    let mut pairs = Vec::new();
    for _ in 0..bench.rounds.unwrap_or(ROUNDS) {
        pairs.push((milliseconds(&ours()?), milliseconds(&theirs()?)));
    }
    let spread = |figure: fn(&(f64, f64)) -> f64| {
        Spread::of(pairs.iter().map(figure)).ok_or_else(|| Failure::new("nothing was measured"))
    };
    let (over, ours, theirs) =
        (spread(|(ours, theirs)| ours - theirs)?, spread(|(ours, _)| *ours)?, spread(|(_, theirs)| *theirs)?);
    let missed = if over.median > GOAL { vec![format!("{:.1} ms over, goal {GOAL}", over.median)] } else { Vec::new() };
    Ok(Outcome {
        brief: format!("over the linker {over:.1} ms"),
        details: format!(
            "- {over:.1} ms over the linker alone, goal {GOAL} ms; fatlink {:.1} ms, the linker {:.1} ms\n",
            ours.median, theirs.median
        ),
        missed,
        ..Outcome::default()
    })
}

fn milliseconds(sample: &Sample) -> f64 {
    sample.wall.as_secs_f64() * 1000.0
}

fn ours(objects: Vec<PathBuf>, host: Host, options: Vec<String>) -> Link {
    Link { objects, nvcc_objects: None, targets: Targets::One, host, ours: options, theirs: Vec::new() }
}

/// Half of what the peer needs is enough.
pub fn memory(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let link = ours(bench.compiler.objects(progress, &sources::large(), Targets::One, "")?, Host::Program, Vec::new());
    let measured = bench.peer_samples.iter().find(|(key, _)| key.starts_with("Large One Program []"));
    let theirs = match measured {
        Some((_, samples)) => peak(samples),
        None => bench.link(Side::Theirs, &link, Memory::Sampled)?.peak,
    };
    let budget = theirs / 2;
    let option = format!("--offload-memory={}M", mebibytes(budget));
    let sample = bench.link(Side::Ours, &Link { ours: vec![option.clone()], ..link }, Memory::Sampled)?;
    let kernels = bench.kernels(progress, Side::Ours)?;
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
        sample.wall.as_secs_f64(),
        mebibytes(theirs)
    );
    Ok(Outcome { details: format!("- {figures}\n"), brief: figures, missed, ..Outcome::default() })
}

/// The number of jobs and the cache do not show in the program.
pub fn same_bytes(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = bench.compiler.objects(progress, &sources::medium(), Targets::One, "")?;
    bench.empty_cache()?;
    let cache = format!("--offload-cache={}", bench.cache().display());
    let jobs = [1, 1, 2, 2, 16, 16].map(|jobs| vec![format!("--wrapper-jobs={jobs}")]);
    let cached = ["cold", "warm"].map(|_| vec![cache.clone()]);
    let mut first = Vec::new();
    let mut missed = Vec::new();
    for options in jobs.into_iter().chain(cached) {
        let shown = options.join(" ");
        bench.link(Side::Ours, &ours(objects.clone(), Host::Program, options), Memory::Ignored)?;
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

/// The time for each kernel, for ever more of them.
pub fn scale(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    const ROUNDS: usize = 3;
    const GOAL: f64 = 1.25;
    let shared = bench.compiler.objects(progress, &sources::shared(), Targets::One, "")?;
    let units = bench.compiler.objects(progress, &sources::scale(), Targets::One, "")?;
    let mut details =
        String::from("| kernels | wall, s | for each, ms | CPU for each, ms | peak, MiB |\n|---|---|---|---|---|\n");
    let mut each = Vec::new();
    for count in [1, 2, 5, 10, 20] {
        let link = ours([&shared[..], &units[..count]].concat(), Host::None, Vec::new());
        let samples = (0..bench.rounds.unwrap_or(ROUNDS)).map(|_| bench.link(Side::Ours, &link, Memory::Sampled));
        let samples = samples.collect::<Result<Vec<_>>>()?;
        let kernels = count * sources::SCALE_STEP;
        let per_kernel = f64::from(u32::try_from(kernels).unwrap_or(u32::MAX));
        let median = |figure: fn(&Sample) -> f64| Spread::of(samples.iter().map(figure)).map_or(0.0, |s| s.median);
        let (wall, processor) = (median(milliseconds), median(|sample| sample.processor.as_secs_f64() * 1000.0));
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

/// The phases of a large link.
pub fn phases(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let trace = bench.folder.join("trace.json");
    let objects = bench.compiler.objects(progress, &sources::large(), Targets::One, "")?;
    let options = vec![format!("--wrapper-time-trace={}", trace.display())];
    let sample = bench.link(Side::Ours, &ours(objects, Host::Program, options), Memory::Ignored)?;
    let text = std::fs::read_to_string(&trace).map_err(|error| Failure::file("read", &trace, &error))?;
    let phases = phases::of_trace(&text);
    if phases.is_empty() {
        return Err(Failure::new(format!("{} has no events", trace.display())));
    }
    let wall = sample.wall.as_secs_f64();
    let mut details =
        format!("Wall {wall:.1} s. Phases run side by side and within each other: they need not add up.\n\n");
    details += "| phase | times | in all, s | longest, s |\n|---|---|---|---|\n";
    for phase in phases.iter().filter(|phase| phase.total > 0.001 * wall) {
        let _ = writeln!(details, "| {} | {} | {:.2} | {:.2} |", phase.name, phase.times, phase.total, phase.longest);
    }
    let longest: Vec<String> =
        phases.iter().take(3).map(|phase| format!("{} {:.1} s", phase.name, phase.total)).collect();
    Ok(Outcome { brief: format!("wall {wall:.1} s; {}", longest.join(", ")), details, ..Outcome::default() })
}
