//! The result of a timed case, from its measurements.

use std::fmt::Write;

use super::{Outcome, Timed};
use crate::code::Comparison;
use crate::measure::{Sample, mebibytes, peak};
use crate::statistics::Spread;
use xtask::failure::Result;

/// All measurements of one case.
pub struct Figures<'a> {
    pub timed: &'a Timed,
    /// Of fatlink with as many jobs as the peer has.
    pub at_peer_jobs: Sample,
    pub ours: Vec<Sample>,
    pub theirs: Vec<Sample>,
    /// By architecture.
    pub comparisons: Vec<(String, Comparison)>,
}

impl Figures<'_> {
    pub fn outcome(&self) -> Result<Outcome> {
        let pairs = self.ours.iter().zip(&self.theirs);
        let wall = Spread::of(pairs.map(|(ours, theirs)| ours.seconds() / theirs.seconds()))?;
        let memory = self.memory();
        let code = self.comparisons.iter().map(|(_, comparison)| comparison.size).fold(f64::NAN, f64::max);
        let mut brief = format!("wall {wall} memory {memory:.2}");
        if !code.is_nan() {
            let _ = write!(brief, " code {code:.2}");
        }
        let missed = self.missed(wall, memory);
        let code_cell = if code.is_nan() { "-".to_owned() } else { format!("{code:.3}") };
        let cells = format!(
            "{} | {} | **{wall}** | {:.2} | {} | {} | {memory:.2} | {code_cell}",
            median(&self.ours, Sample::seconds)?,
            median(&self.theirs, Sample::seconds)?,
            self.timed.goal,
            median(&self.ours, Sample::processor_seconds)?,
            median(&self.theirs, Sample::processor_seconds)?,
        );
        Ok(Outcome { brief, cells, details: self.details(), missed })
    }

    /// Peak of ours over the peer's, at the same number of jobs.
    fn memory(&self) -> f64 {
        #[allow(clippy::cast_precision_loss)]
        let ratio = self.at_peer_jobs.peak as f64 / peak(&self.theirs).max(1) as f64;
        ratio
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
                 {:.1} %; {} functions spill more and {} less; {} bytes spilled in all, the peer {}",
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
            let names = |names: &[String]| names.iter().map(|name| (name.clone(), 1, 0)).collect::<Vec<_>>();
            list(&mut text, "only in ours", &names(&comparison.only_ours));
            list(&mut text, "only in the peer's", &names(&comparison.only_theirs));
        }
        text
    }
}

fn list(text: &mut String, title: &str, kernels: &[(String, u64, u64)]) {
    const MOST: usize = 5;
    for (name, ours, theirs) in kernels.iter().take(MOST) {
        let _ = writeln!(text, "  - {title}: `{name}` {ours}, the peer {theirs}");
    }
    if kernels.len() > MOST {
        let _ = writeln!(text, "  - {title}: {} more", kernels.len() - MOST);
    }
}

fn median(samples: &[Sample], figure: fn(&Sample) -> f64) -> Result<String> {
    let digits = if samples.iter().map(figure).all(|figure| figure < 1.0) { 3 } else { 1 };
    Spread::of(samples.iter().map(figure)).map(|spread| format!("{:.digits$}", spread.median))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cases::Cache;
    use crate::corpus::Corpus;
    use std::time::Duration;

    fn sample(milliseconds: u64, peak: u64) -> Sample {
        Sample { wall: Duration::from_millis(milliseconds), processor: Duration::ZERO, peak }
    }

    const SMALL: Timed = Timed {
        corpus: Corpus::Small,
        cache: Cache::None,
        host_program: false,
        rounds: 3,
        is_long: true,
        peer_jobs: 1,
        goal: 0.35,
    };

    fn outcome(ours: u64, comparison: Comparison) -> Outcome {
        let figures = Figures {
            timed: &SMALL,
            at_peer_jobs: sample(ours, 80),
            ours: [ours, ours - 2, ours + 2].map(|wall| sample(wall, 90)).to_vec(),
            theirs: [100, 100, 100].map(|wall| sample(wall, 100)).to_vec(),
            comparisons: vec![("sm_90".into(), comparison)],
        };
        figures.outcome().unwrap()
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
