//! Adds up what becomes of the fatbins of a file in one cell.

use std::collections::BTreeSet;

use super::super::containers::FoundContainer;
use super::cell::{Cell, CellVerdict};
use super::fate::{Fate, Kernels};

/// How many kernels a cell names, at most.
const NAMED_KERNELS: usize = 5;

/// What is added up of the fatbins of a file.
#[derive(Default)]
pub(super) struct Sum {
    fatbins: usize,
    /// Those whose kernels need not run here.
    excused: usize,
    failing: usize,
    outcomes: BTreeSet<String>,
    failure: Option<String>,
    unknown: Option<String>,
    lacking: usize,
    named: Vec<String>,
    /// The PTX that the driver compiles: container and entry.
    pub jit: Vec<(usize, usize)>,
}

impl Sum {
    /// Adds what becomes of a fatbin. `needed` tells which of its kernels must run.
    pub(super) fn add<'a>(
        &mut self,
        found: &FoundContainer,
        fate: &Fate<'a>,
        kernels: &Kernels<'a>,
        needed: &dyn Fn(&&str) -> bool,
        all: &'a [FoundContainer],
    ) {
        if !kernels.all.is_empty() && !kernels.all.iter().any(needed) {
            self.excused += 1;
            return;
        }
        self.fatbins += 1;
        let taken = match fate {
            Fate::Unknown(why) => {
                self.unknown.get_or_insert_with(|| format!("fatbin {}: {why}", found.place.container));
                return;
            }
            Fate::Fails(why) => {
                self.failing += 1;
                self.failure.get_or_insert_with(|| why.clone());
                self.lack(kernels.all.iter().copied().filter(needed));
                return;
            }
            Fate::Runs(taken) | Fate::Compiles(taken) => taken,
        };
        if !self.outcomes.contains(&taken.brief) {
            self.outcomes.insert(taken.brief.clone());
        }
        if matches!(fate, Fate::Compiles(_)) {
            let compiled = taken.entries.iter().filter(|(_, code)| code.labelled_version.is_some());
            self.jit.extend(compiled.map(|(container, code)| (*container, code.number)));
        }
        let lacking: Vec<&str> = kernels.lacking(taken, all).into_iter().filter(needed).collect();
        if !lacking.is_empty() {
            let why = || {
                format!("{} of fatbin {} lacks kernels that its other entries have", taken.brief, found.place.container)
            };
            self.failure.get_or_insert_with(why);
            self.lack(lacking.into_iter());
        }
    }

    fn lack<'n>(&mut self, names: impl Iterator<Item = &'n str>) {
        for name in names {
            self.lacking += 1;
            if self.named.len() < NAMED_KERNELS {
                self.named.push(name.to_owned());
            }
        }
    }

    /// The cell of all of them.
    pub(super) fn cell(self, gpu: String, driver: Option<u32>) -> Cell {
        let verdict = match &self.unknown {
            Some(_) => CellVerdict::Unknown,
            None if self.fatbins == 0 && self.excused > 0 => CellVerdict::Absent,
            None if self.failing == self.fatbins => CellVerdict::Fails,
            None if self.failing > 0 || self.lacking > 0 => CellVerdict::Partly,
            None if self.jit.is_empty() => CellVerdict::Runs,
            None => CellVerdict::Jit,
        };
        let reason = self.unknown.or(self.failure).unwrap_or_default();
        Cell {
            outcome: joined(&self.outcomes),
            lacking: self.lacking,
            kernels: self.named,
            jit: self.jit,
            ..Cell::new(gpu, driver, verdict, reason)
        }
    }
}

/// The first of several outcomes.
pub(super) fn joined(outcomes: &BTreeSet<String>) -> String {
    /// More are not named.
    const MOST: usize = 3;
    let shown: Vec<&str> = outcomes.iter().take(MOST).map(String::as_str).collect();
    shown.join(", ") + if outcomes.len() > MOST { ", ..." } else { "" }
}
