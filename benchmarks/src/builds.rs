//! Compares two builds of fatlink.

pub mod images;
mod instructions;

use std::path::Path;
use std::process::Command;

use crate::arguments::Selection;
use crate::bench::Bench;
use crate::cases::{self, Cache, Case, Timed, link_without_device_code};
use crate::link::{Link, Side};
use crate::measure::{self, Memory, Sample};
use crate::statistics::Spread;
use instructions::End;
use xtask::failure::{Failure, Result};
use xtask::step::{Progress, noted_step};

/// Pairs of runs; the instructions of two runs hardly differ.
const ROUNDS: usize = 15;
const COUNTED_ROUNDS: usize = 3;

/// The cases of a comparison if none is named.
const DEFAULT_CASES: [&str; 4] = ["no-device-code", "small", "medium", "large"];

/// Measures the selected cases with both builds, and prints a line for each.
pub fn compare(bench: &mut Bench, baseline: &Path, selection: &Selection) -> Result<()> {
    bench.linkers.set_baseline(baseline, &bench.folder.join("baseline"))?;
    let names =
        if selection.cases.is_empty() { DEFAULT_CASES.map(str::to_owned).to_vec() } else { selection.cases.clone() };
    for case in cases::chosen(&names) {
        let measure = |progress: &Progress| {
            let pairing = Pairing::of(case, bench, progress)?;
            match selection.count_instructions {
                true => pairing.count_instructions(bench, progress),
                false => pairing.time(bench, progress),
            }
        };
        let figures = noted_step(case.name, measure, String::clone)?;
        if selection.brief {
            println!("{}: {figures}", case.name);
        }
    }
    Ok(())
}

/// What both builds run.
enum Pairing {
    WithoutDeviceCode,
    Device { timed: Timed, link: Link },
}

impl Pairing {
    fn of(case: &Case, bench: &Bench, progress: &Progress) -> Result<Self> {
        match case.timed() {
            Some(timed) => {
                let (link, before) = timed.links(bench, progress)?;
                timed.warm_cache(bench, Side::Ours, &before)?;
                timed.warm_cache(bench, Side::Baseline, &before)?;
                Ok(Self::Device { timed: *timed, link })
            }
            None if case.name == DEFAULT_CASES[0] => Ok(Self::WithoutDeviceCode),
            None => Err(Failure::new(format!("the case {} does not compare two builds of fatlink", case.name))),
        }
    }

    /// The command of one run, for which everything is ready.
    fn command(&self, bench: &Bench, side: Side) -> Result<Command> {
        match self {
            Self::WithoutDeviceCode => Ok(link_without_device_code(bench, side)),
            Self::Device { timed, link } => {
                timed.restore_cache(bench, side)?;
                bench.command(side, link)
            }
        }
    }

    fn time(&self, bench: &Bench, progress: &Progress) -> Result<String> {
        let run = |side| measure::run(&mut self.command(bench, side)?, &bench.log(), Memory::Ignored);
        if !self.is_long() {
            run(Side::Ours)?;
            run(Side::Baseline)?;
        }
        let pairs = in_turn(bench.rounds.unwrap_or(ROUNDS), progress, run)?;
        let ratio = |figure: fn(&Sample) -> f64| Spread::of(pairs.iter().map(|(new, old)| figure(new) / figure(old)));
        let (processor, wall) = (ratio(Sample::processor_seconds)?, ratio(Sample::seconds)?);
        let new = Spread::of(pairs.iter().map(|(new, _)| new.processor_seconds()))?.median;
        let old = Spread::of(pairs.iter().map(|(_, old)| old.processor_seconds()))?.median;
        Ok(format!(
            "processor {processor:.3} wall {wall:.3} of {} pairs; processor {new:.3} s, baseline {old:.3} s",
            pairs.len()
        ))
    }

    fn count_instructions(&self, bench: &Bench, progress: &Progress) -> Result<String> {
        let end = if matches!(self, Self::WithoutDeviceCode) { End::Exec } else { End::Exit };
        let folder = bench.folder.join("valgrind");
        let run = |side| instructions::count(&self.command(bench, side)?, end, &folder, progress);
        let pairs = in_turn(bench.rounds.unwrap_or(COUNTED_ROUNDS), progress, run)?;
        let new = Spread::of(pairs.iter().map(|(new, _)| *new))?;
        let old = Spread::of(pairs.iter().map(|(_, old)| *old))?;
        Ok(format!(
            "instructions {:.4}; {new:.0}, baseline {old:.0}, {} pairs",
            Spread::of(pairs.iter().map(|(new, old)| new / old))?,
            pairs.len()
        ))
    }

    /// Whether a run before those that count would cost more than it brings.
    fn is_long(&self) -> bool {
        matches!(self, Self::Device { timed: Timed { is_long: true, cache: Cache::None, .. }, .. })
    }
}

/// Runs both sides `rounds` times, in the order A B B A A B …, so that a drift of the machine's speed affects both alike.
fn in_turn<Figure>(
    rounds: usize,
    progress: &Progress,
    mut run: impl FnMut(Side) -> Result<Figure>,
) -> Result<Vec<(Figure, Figure)>> {
    progress.begin_count(rounds);
    let mut pairs = Vec::with_capacity(rounds);
    for round in 0..rounds {
        pairs.push(if round % 2 == 0 {
            let new = run(Side::Ours)?;
            (new, run(Side::Baseline)?)
        } else {
            let old = run(Side::Baseline)?;
            (run(Side::Ours)?, old)
        });
        progress.count_one();
    }
    Ok(pairs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sides_take_turns_in_going_first() {
        let mut order = Vec::new();
        let pairs = in_turn(2, &Progress::hidden(), |side| {
            order.push(side);
            Ok(order.len())
        });
        assert_eq!(pairs.unwrap(), [(1, 2), (4, 3)]);
        assert_eq!(order, [Side::Ours, Side::Baseline, Side::Baseline, Side::Ours]);
    }

    #[test]
    fn the_default_cases_exist() {
        assert_eq!(cases::chosen(&DEFAULT_CASES.map(str::to_owned)).len(), DEFAULT_CASES.len());
    }
}
