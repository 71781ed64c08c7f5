//! Kernels that need not be compiled: those that a program does not use, and all but one of those that are equal.

use std::path::PathBuf;

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{self, DEAD_UNITS, Producer, SCALE_STEP, TWINS, Targets};
use crate::link::{Host, Side};
use crate::measure::{Memory, Sample};
use crate::statistics::Spread;
use xtask::failure::Result;
use xtask::step::Progress;

const ROUNDS: usize = 3;

/// An option that leaves kernels out, with the value that does and the one that does not.
struct Saving {
    option: &'static str,
    values: [&'static str; 2],
    /// Processor time with the first value over that with the second.
    goal: f64,
}

/// A program that uses a third of a library's kernels.
pub fn dead(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let compile = |units: &[_]| bench.compiler.objects(progress, units, Targets::One, Producer::Clang, "");
    let mut objects = [compile(&[corpus::dead_program()])?, compile(&corpus::shared())?].concat();
    objects.extend_from_slice(&compile(&corpus::scale())?[..DEAD_UNITS]);
    let dead = DEAD_UNITS * SCALE_STEP - DEAD_UNITS * SCALE_STEP / 3;
    let saving = Saving { option: "--offload-gc", values: ["host", "off"], goal: 0.45 };
    saving.measure(bench, progress, &objects, |live, all| {
        let is_missed = all < live + dead;
        let missed = is_missed.then(|| format!("{live} of {all} kernels are compiled, {dead} should not be"));
        (format!("{live} of {all} kernels"), missed)
    })
}

/// A program of kernels in pairs that differ in their names only.
pub fn equal(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let compile = |units: &[_]| bench.compiler.objects(progress, units, Targets::One, Producer::Clang, "");
    let objects =
        [compile(&[corpus::twins_program()])?, compile(&corpus::shared())?, compile(&corpus::twins())?].concat();
    let saving = Saving { option: "--offload-icf", values: ["safe", "off"], goal: 0.7 };
    saving.measure(bench, progress, &objects, |folded, all| {
        let is_missed = all != folded || all < 2 * TWINS;
        let missed = is_missed.then(|| format!("{folded} of {all} kernels are in the program, all should be"));
        (format!("{all} kernels"), missed)
    })
}

impl Saving {
    /// Links the program both ways in turn. `check` gets the numbers of kernels with and without the option, and returns how to call them,
    /// and what is wrong.
    fn measure(
        &self,
        bench: &Bench,
        progress: &Progress,
        objects: &[PathBuf],
        check: impl Fn(usize, usize) -> (String, Option<String>),
    ) -> Result<Outcome> {
        let processor = |sample: &Sample| sample.processor.as_secs_f64();
        let link = |value: &str| -> Result<(f64, usize)> {
            let options = vec![format!("{}={value}", self.option)];
            let sample = bench.link(Side::Ours, &link_of(objects.to_vec(), Host::Program, options), Memory::Ignored)?;
            Ok((processor(&sample), bench.kernels(progress, Side::Ours)?))
        };
        let (mut ratios, mut missed, mut details) = (Vec::new(), Vec::new(), String::new());
        for _ in 0..bench.rounds.unwrap_or(ROUNDS) {
            let [with, without] = self.values;
            let ((all, all_kernels), (fewer, kernels)) = (link(without)?, link(with)?);
            ratios.push(fewer / all);
            let (kernels, wrong) = check(kernels, all_kernels);
            missed.extend(wrong);
            details = format!("- {kernels}, {fewer:.2} s of processor time instead of {all:.2}\n");
        }
        let Some(ratio) = Spread::of(ratios) else { return Ok(Outcome::default()) };
        if ratio.median > self.goal {
            missed.push(format!("processor time {ratio}, goal {}", self.goal));
        }
        Ok(Outcome { brief: format!("processor time {ratio}"), details, missed, ..Outcome::default() })
    }
}
