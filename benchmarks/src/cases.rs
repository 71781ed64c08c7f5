//! What is measured, and the goals.

mod figures;
mod memory;
mod no_device_code;
mod relinks;
mod report;
mod same_bytes;
mod scale;
mod tests_of_library;
mod timed;
mod with_and_without;

use std::path::PathBuf;

pub use no_device_code::link_without_device_code;
pub use timed::{Cache, Timed};

use crate::bench::Bench;
use crate::corpus::{Corpus, Targets};
use crate::link::{Host, Link};
use xtask::failure::Result;
use xtask::step::Progress;

/// One thing that is measured.
pub struct Case {
    pub name: &'static str,
    /// For the help and the report.
    pub describe: &'static str,
    pub measure: Measure,
}

/// How a case is measured.
#[derive(Clone, Copy)]
pub enum Measure {
    /// fatlink and the peer in turn.
    Timed(Timed),
    /// In a way of its own.
    Own(fn(&mut Bench, &Progress) -> Result<Outcome>),
}

/// The result of a case.
#[derive(Debug, Default)]
pub struct Outcome {
    /// One line of figures.
    pub brief: String,
    /// A row of the report's table, from the second cell on; empty where the case has none.
    pub cells: String,
    /// Markdown for the report.
    pub details: String,
    /// Goals that were missed.
    pub missed: Vec<String>,
}

const LARGE: Timed = Timed {
    corpus: Corpus::Large,
    cache: Cache::None,
    host_program: true,
    rounds: 3,
    is_long: true,
    peer_jobs: 1,
    goal: 0.55,
};

/// fatlink and clang's linker wrapper link HIP's objects; ld.lld's LTO is the peer.
const HIP: Timed = Timed { corpus: Corpus::Hip, host_program: false, rounds: 2, goal: 0.65, ..LARGE };

/// In the order of the report.
pub const CASES: [Case; 19] = [
    Case {
        name: "no-device-code",
        describe: "ld.fatlink against the linker that it calls (ld.lld), one C object",
        measure: Measure::Own(no_device_code::run),
    },
    Case {
        name: "small",
        describe: "2 units (samples/two-tu), the device link alone: the host linker is /bin/true for both",
        measure: Measure::Timed(Timed {
            corpus: Corpus::Small,
            host_program: false,
            rounds: 10,
            is_long: false,
            goal: 0.35,
            ..LARGE
        }),
    },
    Case {
        name: "medium",
        describe: "24 units, to a program that runs",
        measure: Measure::Timed(Timed { corpus: Corpus::Medium, rounds: 10, is_long: false, goal: 0.6, ..LARGE }),
    },
    Case { name: "large", describe: "96 units, to a program that runs", measure: Measure::Timed(LARGE) },
    Case {
        name: "large-two",
        describe: "the same for sm_80 and sm_90; the peer with --wrapper-jobs=2",
        measure: Measure::Timed(Timed { corpus: Corpus::LargeTwo, peer_jobs: 2, goal: 0.75, ..LARGE }),
    },
    Case {
        name: "large-changed",
        describe: "large again after one unit of 96 changed, fatlink's cache warm",
        measure: Measure::Timed(Timed { cache: Cache::Changed, goal: 0.08, ..LARGE }),
    },
    Case {
        name: "large-unchanged",
        describe: "large again after no change, fatlink's cache warm",
        measure: Measure::Timed(Timed { cache: Cache::Unchanged, goal: 0.03, ..LARGE }),
    },
    Case {
        name: "first-link",
        describe: "large with an empty cache against large without a cache",
        measure: Measure::Own(with_and_without::first_link),
    },
    Case {
        name: "relinks",
        describe: "large with a warm cache: unchanged against ld.lld alone, and one unit changed against its ptxas",
        measure: Measure::Own(relinks::run),
    },
    Case {
        name: "hip",
        describe: "23 units of HIP for gfx90a, the device link alone; the peer is ld.lld's LTO with --lto-partitions=8",
        measure: Measure::Timed(HIP),
    },
    Case {
        name: "hip-no-closures",
        describe: "the same without calls through pointers, by which the peer can split the code",
        measure: Measure::Timed(Timed { corpus: Corpus::HipDirect, goal: 1.0, ..HIP }),
    },
    Case {
        name: "hip-changed",
        describe: "hip again after one unit changed, fatlink's cache warm",
        measure: Measure::Timed(Timed { cache: Cache::Changed, goal: 0.05, ..HIP }),
    },
    Case {
        name: "memory",
        describe: "large with --offload-memory= half of the peer's peak: it links, and stays within",
        measure: Measure::Own(memory::run),
    },
    Case {
        name: "same-bytes",
        describe: "medium with --wrapper-jobs=1, 2 and 16 and from the archive of --reproduce=: the same program; so with a cache",
        measure: Measure::Own(same_bytes::run),
    },
    Case {
        name: "scale",
        describe: "100 to 2,000 kernels of one size: the time for each does not grow",
        measure: Measure::Own(scale::run),
    },
    Case {
        name: "dead",
        describe: "a library of 600 kernels of which a program uses a third: --offload-gc=host against off",
        measure: Measure::Own(with_and_without::dead),
    },
    Case {
        name: "equal",
        describe: "600 kernels in pairs that differ in their names only: --offload-icf=safe against off",
        measure: Measure::Own(with_and_without::equal),
    },
    Case {
        name: "tests",
        describe: "50 programs that each use 20 of 60 units in an archive, linked in turn with one cache; the peer links those units",
        measure: Measure::Own(tests_of_library::run),
    },
    Case {
        name: "report",
        describe: "a report of 10,000 kernels in headless Chromium, which this installs: first view and search; only if it is named",
        measure: Measure::Own(report::run),
    },
];

/// Cases that do not run by default.
const ONLY_NAMED: [&str; 1] = ["report"];

impl Case {
    /// Measures it.
    pub fn run(&self, bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
        match &self.measure {
            Measure::Timed(timed) => timed::run(bench, progress, timed),
            Measure::Own(run) => run(bench, progress),
        }
    }

    /// What is linked in turn, if that is how the case is measured.
    pub fn timed(&self) -> Option<&Timed> {
        match &self.measure {
            Measure::Timed(timed) => Some(timed),
            Measure::Own(_) => None,
        }
    }
}

/// The named cases in their own order; if none is named, all but those that have to be.
pub fn chosen(names: &[String]) -> Vec<&'static Case> {
    let is_default = |case: &&Case| names.is_empty() && !ONLY_NAMED.contains(&case.name);
    CASES.iter().filter(|case| is_default(case) || names.iter().any(|name| name == case.name)).collect()
}

/// The list of cases for the help text.
pub fn help() -> String {
    let lines = CASES.iter().map(|case| format!("  {:18} {}\n", case.name, case.describe));
    format!("Cases:\n{}", lines.collect::<String>())
}

/// A link for one target.
pub fn link_of(objects: Vec<PathBuf>, host: Host, options: Vec<String>) -> Link {
    Link { objects, targets: Targets::One, host, ours: options, theirs: Vec::new() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_in_their_own_order() {
        let names = ["large".to_owned(), "small".to_owned()];
        assert_eq!(chosen(&names).iter().map(|case| case.name).collect::<Vec<_>>(), ["small", "large"]);
        assert_eq!(chosen(&[]).len(), CASES.len() - ONLY_NAMED.len());
        assert_eq!(chosen(&["report".to_owned()]).len(), 1);
    }
}
