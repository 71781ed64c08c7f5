//! A link without device code against the linker that it calls.

use std::path::Path;
use std::process::Command;

use super::Outcome;
use crate::bench::Bench;
use crate::link::Side;
use crate::measure::{self, Memory};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;
use xtask::toolchain::LLVM;

const ROUNDS: usize = 20;
/// Milliseconds.
const GOAL: f64 = 5.0;

/// Measures the time that fatlink adds.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let rounds = bench.rounds.unwrap_or(ROUNDS);
    let mut ours = link_without_device_code(bench, Side::Ours);
    let mut theirs = host_link(bench, Path::new(LLVM).join("bin/ld.lld").as_ref());
    let measured = |command: &mut Command| measure::run(command, &bench.log(), Memory::Ignored);
    measured(&mut ours)?;
    measured(&mut theirs)?;
    let mut pairs = Vec::new();
    progress.begin_count(rounds);
    for _ in 0..rounds {
        pairs.push((measured(&mut ours)?.seconds() * 1000.0, measured(&mut theirs)?.seconds() * 1000.0));
        progress.count_one();
    }
    let spread = |figure: fn(&(f64, f64)) -> f64| Spread::of(pairs.iter().map(figure));
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

/// The command by which a build of fatlink links one C object.
pub fn link_without_device_code(bench: &Bench, side: Side) -> Command {
    let mut command = host_link(bench, &bench.linkers.folder(side).join("ld.fatlink"));
    command.arg(format!("--linker-path={LLVM}/bin/ld.lld"));
    command
}

fn host_link(bench: &Bench, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.args(["-e", "main", "-o"]).arg(bench.folder.join("host.out")).arg(&bench.host_object);
    command
}
