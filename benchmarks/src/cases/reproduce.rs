//! The archive of `--reproduce=` links the same program in an empty folder.

use std::path::Path;
use std::process::Command;

use super::{Outcome, link_of};
use crate::bench::{Bench, remove};
use crate::corpus::{Corpus, Targets};
use crate::link::{Host, Side};
use crate::measure::{self, Memory};
use xtask::failure::{Failure, Result};
use xtask::repository::create_folder;
use xtask::step::Progress;

/// Links, unpacks the archive, links there and compares the programs.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let objects = Corpus::Medium.objects(&bench.compiler, progress, Targets::One)?;
    bench.empty_cache()?;
    // With a cache each unit is cut by itself.
    let cache = format!("--offload-cache={}", bench.cache().display());
    let archive = bench.folder.join("reproduced.tar");
    let mut missed = Vec::new();
    let mut sizes = Vec::new();
    for (what, options) in [("without a cache", Vec::new()), ("with a cache", vec![cache])] {
        let option = format!("--reproduce={}", archive.display());
        let options = options.into_iter().chain([option]).collect();
        bench.link(Side::Ours, &link_of(objects.clone(), Host::Program, options), Memory::Ignored)?;
        let first = read(&bench.output(Side::Ours))?;
        let second = link_again(bench, progress, &archive)?;
        if first != second {
            missed.push(format!("{what}, the archive's program differs: {} and {} bytes", first.len(), second.len()));
        }
        sizes.push(first.len().to_string());
    }
    remove(&archive)?;
    let brief = format!("2 links repeated, {} bytes, {} differ", sizes.join(" and "), missed.len());
    Ok(Outcome { details: format!("- {brief}\n"), brief, missed, ..Outcome::default() })
}

/// Links what is in the archive, in a folder with nothing else, and returns the program.
fn link_again(bench: &Bench, progress: &Progress, archive: &Path) -> Result<Vec<u8>> {
    let folder = bench.folder.join("reproduced");
    remove(&folder)?;
    create_folder(&folder)?;
    progress.run(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(&folder))?;
    let unpacked = folder.join("reproduced");
    let mut command = Command::new(bench.linkers.folder(Side::Ours).join("clang-linker-wrapper"));
    command.arg("@response.txt").current_dir(&unpacked).env_remove("CUDA_PATH").env_remove("FATLINK_CACHE");
    measure::run(&mut command, &bench.log(), Memory::Ignored)?;
    let program = read(&unpacked.join("program.ours"))?;
    remove(&folder)?;
    Ok(program)
}

fn read(program: &Path) -> Result<Vec<u8>> {
    std::fs::read(program).map_err(|error| Failure::file("read", program, &error))
}
