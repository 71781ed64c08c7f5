//! An archive for a machine with many cores and a GPU, without compilers and network.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::bench::{Bench, remove};
use crate::cases::link_of;
use crate::corpus::{self, Corpus};
use crate::link::{Host, Side};
use crate::measure::Memory;
use xtask::failure::{Failure, Result};
use xtask::repository::{copy_file, create_folder, name_of, replace_link, write_file};
use xtask::step::Progress;
use xtask::toolchain::LLVM;

/// The folder that the archive unpacks to.
const NAME: &str = "fatlink-bench";

const SCRIPT: &str = include_str!("../device/measure.py");
const README: &str = include_str!("../device/README.md");

/// Writes it, and returns its size in bytes.
pub fn write(bench: &Bench, progress: &Progress, file: &Path) -> Result<u64> {
    let folder = bench.folder.join(NAME);
    remove(&folder)?;
    create_folder(&folder.join("bin"))?;
    for (name, text) in [("measure.py", SCRIPT), ("README.md", README)] {
        write_file(&folder.join(name), text)?;
    }
    let fatlink = folder.join("bin/fatlink");
    strip(progress, &bench.linkers.dist.join("bin/fatlink"), &fatlink)?;
    replace_link("fatlink", &folder.join("bin/clang-linker-wrapper"))?;
    copy_all(&Corpus::Large.objects(&bench.compiler, progress)?, &folder.join("large"))?;
    copy_all(&bench.compiler.for_one(progress, &corpus::scale())?, &folder.join("scale"))?;
    programs(bench, progress, &folder)?;
    archive(progress, &folder, file)?;
    std::fs::metadata(file).map(|file| file.len()).map_err(|error| Failure::file("read", file, &error))
}

/// The medium corpus as a program, linked by both.
fn programs(bench: &Bench, progress: &Progress, folder: &Path) -> Result<()> {
    let link = link_of(Corpus::Medium.objects(&bench.compiler, progress)?, Host::Program, Vec::new());
    for side in [Side::Ours, Side::Theirs] {
        bench.link(side, &link, Memory::Ignored)?;
        let program = bench.output(side);
        strip(progress, &program, &folder.join(name_of(&program)))?;
    }
    Ok(())
}

fn strip(progress: &Progress, from: &Path, to: &Path) -> Result<()> {
    let mut strip = Command::new(Path::new(LLVM).join("bin/llvm-strip"));
    progress.run(strip.arg("--strip-all").arg(from).arg("-o").arg(to)).map(drop)
}

fn copy_all(files: &[PathBuf], folder: &Path) -> Result<()> {
    files.iter().try_for_each(|file| copy_file(file, &folder.join(name_of(file))))
}

fn archive(progress: &Progress, folder: &Path, file: &Path) -> Result<()> {
    let mut tar = Command::new("tar");
    tar.arg("-cJf").arg(file).arg("-C").arg(folder.parent().unwrap_or(folder)).arg(NAME);
    progress.run(&mut tar).map(drop)
}
