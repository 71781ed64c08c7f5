//! The tests of a library: many programs that use different members of one archive, linked in turn with one cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Outcome, link_of};
use crate::bench::{Bench, remove};
use crate::corpus;
use crate::link::{Host, Side};
use crate::measure::{Memory, Sample};
use xtask::failure::{Failure, Result};
use xtask::repository::write_file;
use xtask::step::Progress;
use xtask::toolchain::LLVM;

const PROGRAMS: usize = 50;
/// Units that a program uses of the library.
const USED: usize = 20;
/// Of so many programs one is linked without a cache, too, and by the peer.
const STEP: usize = 10;
/// Wall time of all links over the peer's, and over that without a cache.
const GOALS: (f64, f64) = (0.1, 0.2);

/// Links the programs in turn. `--rounds` is the number of programs.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let units = bench.compiler.for_one(progress, &corpus::library())?;
    let shared = bench.compiler.for_one(progress, &corpus::shared())?;
    let archive = archive(progress, &bench.folder, units.iter().chain(&shared))?;
    let stubs = units.iter().map(|unit| stub(progress, unit)).collect::<Result<Vec<_>>>()?;
    let count = bench.rounds.unwrap_or(PROGRAMS);
    let own = bench.compiler.for_one(progress, &corpus::tests(count))?;
    bench.empty_cache()?;
    let cache = bench.cache_option();
    let (mut samples, mut programs) = (Samples::default(), Vec::new());
    for (number, own) in own.iter().enumerate() {
        let used = used(number, units.len());
        let launched = stub(progress, own)?;
        let of_library = used.iter().map(|unit| &*stubs[*unit]);
        let host = host_object(progress, &bench.folder, number, of_library.chain([&*launched]))?;
        let program = vec![host, own.clone()];
        let with_archive = [program.clone(), vec![archive.clone()]].concat();
        let link = |objects: &[PathBuf], side: Side, options: &[String]| -> Result<Sample> {
            bench.link(side, &link_of(objects.to_vec(), Host::Program, options.to_vec()), Memory::Ignored)
        };
        samples.cached.push(link(&with_archive, Side::Ours, std::slice::from_ref(&cache))?);
        if number % STEP == 0 {
            samples.uncached.push(link(&with_archive, Side::Ours, &[])?);
            // The peer would link all members of the archive.
            let members: Vec<PathBuf> = used.iter().map(|unit| units[*unit].clone()).chain(shared.clone()).collect();
            samples.theirs.push(link(&[&*program, &members].concat(), Side::Theirs, &[])?);
            programs.push(program);
        }
    }
    bench.cache_is_used()?;
    let library = [units, shared].concat();
    let merge = link_of(library, Host::Object, vec!["--offload-relocatable=merge".to_owned()]);
    samples.library = Some(bench.link(Side::Ours, &merge, Memory::Ignored)?);
    let library = bench.folder.join("library.o");
    std::fs::rename(bench.output(Side::Ours), &library).map_err(|error| Failure::file("write", &library, &error))?;
    for program in programs {
        let objects = [program, vec![library.clone()]].concat();
        let link = link_of(objects, Host::Program, vec!["--offload-gc=host".to_owned()]);
        samples.merged.push(bench.link(Side::Ours, &link, Memory::Ignored)?);
    }
    Ok(outcome(&samples))
}

/// What the links took.
#[derive(Default)]
struct Samples {
    /// All programs, with one cache.
    cached: Vec<Sample>,
    /// Some of them without a cache.
    uncached: Vec<Sample>,
    /// The same by the peer.
    theirs: Vec<Sample>,
    /// The library, in advance.
    library: Option<Sample>,
    /// The same programs with that library, without a cache.
    merged: Vec<Sample>,
}

fn outcome(Samples { cached, uncached, theirs, library, merged }: &Samples) -> Outcome {
    let mean = |samples: &[Sample]| samples.iter().map(Sample::seconds).sum::<f64>() / samples.len().max(1) as f64;
    let (ours, whole, peer) = (mean(cached), mean(uncached), mean(theirs));
    let (of_peer, of_whole) = (ours / peer, ours / whole);
    let first = cached.first().map_or(0.0, Sample::seconds);
    let last = mean(&cached[cached.len().saturating_sub(STEP)..]);
    let goals = [(of_peer, GOALS.0, "the peer's"), (of_whole, GOALS.1, "that without a cache")];
    let missed = goals.iter().filter(|(figure, goal, _)| figure > goal);
    let missed = missed.map(|(figure, goal, of)| format!("wall {figure:.3} of {of}, goal {goal}")).collect();
    let brief = format!("wall {of_peer:.3} of the peer's, {of_whole:.3} of that without a cache");
    let in_advance = library.as_ref().map_or(0.0, Sample::seconds);
    let with_library = mean(merged);
    let details = format!(
        "- {} programs of {USED} units each: {brief}\n\
         - mean of all links {ours:.2} s, the first {first:.2} s, the last ten {last:.2} s; without a cache {whole:.2} s and the peer \
         {peer:.2} s, by one program in {STEP}\n\
         - the library linked in advance (`-r --offload-relocatable=merge`): once {in_advance:.2} s, then {with_library:.2} s a program without a \
         cache, {:.3} of the peer's\n",
        cached.len(),
        with_library / peer
    );
    Outcome { brief, details, missed, ..Outcome::default() }
}

/// The units that a program uses: others for each, but always the same.
fn used(program: usize, units: usize) -> Vec<usize> {
    let mut all: Vec<usize> = (0..units).collect();
    let mut state = program as u64 + 1;
    all.sort_by_cached_key(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    });
    all.truncate(USED);
    all.sort_unstable();
    all
}

fn archive<'o>(progress: &Progress, folder: &Path, objects: impl Iterator<Item = &'o PathBuf>) -> Result<PathBuf> {
    let path = folder.join("libtested.a");
    remove(&path)?;
    progress.run(Command::new(Path::new(LLVM).join("bin/llvm-ar")).arg("rcs").arg(&path).args(objects))?;
    Ok(path)
}

/// The host function that launches one of an object's kernels.
fn stub(progress: &Progress, object: &Path) -> Result<String> {
    let names = progress.run(
        Command::new(Path::new(LLVM).join("bin/llvm-nm")).args(["--defined-only", "--format=just-symbols"]).arg(object),
    )?;
    let stub = names.lines().find(|name| name.contains("__device_stub__"));
    stub.map(str::to_owned).ok_or_else(|| Failure::new(format!("{}: no kernel", object.display())))
}

/// The object of a host program that refers to these symbols.
fn host_object<'n>(
    progress: &Progress,
    folder: &Path,
    number: usize,
    symbols: impl Iterator<Item = &'n str>,
) -> Result<PathBuf> {
    let (source, object) = (folder.join("test.c"), folder.join(format!("test-{number}.o")));
    let (mut declared, mut listed) = (String::new(), String::new());
    for (number, symbol) in symbols.enumerate() {
        declared += &format!("extern char used_{number} __asm__(\"{symbol}\");\n");
        listed += &format!("&used_{number}, ");
    }
    let text = format!(
        "{declared}const void *const all_used[] = {{{listed}}};\n\
         int main(int count, char **words) {{ return all_used[count] == words; }}\n"
    );
    write_file(&source, text)?;
    progress.run(Command::new(Path::new(LLVM).join("bin/clang")).arg("-c").arg(&source).arg("-o").arg(&object))?;
    Ok(object)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_use_different_units() {
        let (one, other) = (used(1, 60), used(2, 60));
        assert_eq!((one.len(), used(1, 60)), (USED, one.clone()));
        assert_ne!(one, other);
        let all: std::collections::BTreeSet<usize> = (0..PROGRAMS).flat_map(|program| used(program, 60)).collect();
        assert_eq!(all.len(), 60);
    }
}
