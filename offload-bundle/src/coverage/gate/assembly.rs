//! What assemblers say of the PTX that drivers would compile.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::super::findings::FindingCode;
use super::cell::{Cell, CellVerdict};
use super::fate::numbered;
use super::judge::{FileCode, FileGate};
use super::requirement::{Requirement, Rung};
use crate::arch::{ArchFeature, GpuArch};
use crate::fatbin;

/// A PTX that a driver would compile for a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PtxJob {
    /// The number of its fatbin.
    pub container: usize,
    /// Its number in the fatbin, from 1.
    pub entry: usize,
    /// The GPU.
    pub gpu: u32,
}

/// What an assembler says of a PTX for a GPU.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Assembled {
    /// It assembles it, in so many milliseconds.
    Accepted(u64),
    /// It does not, for this reason.
    Rejected(String),
    /// It knows the version of the PTX or the GPU too little to tell.
    Unable(String),
}

impl Assembled {
    /// What several assemblers say together: that one rejects a PTX counts most, then that one assembles it. The longest time counts.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self, other) {
            (Assembled::Accepted(one), Assembled::Accepted(other)) => Assembled::Accepted(one.max(other)),
            (rejected @ Assembled::Rejected(_), _) | (Assembled::Unable(_), rejected) => rejected,
            (one, Assembled::Unable(_)) => one,
            (_, other) => other,
        }
    }
}

/// What an assembler needs to know of a PTX.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PtxText {
    /// The text, without the NULs behind it.
    pub text: Vec<u8>,
    /// The target to assemble for.
    pub target: GpuArch,
    /// Whether it is a part of a link, which may refer to others.
    pub is_part: bool,
}

impl PtxJob {
    /// Reads the PTX from the bytes of the file; `None` if it is not there.
    pub fn text(&self, code: &FileCode, data: &[u8]) -> Option<PtxText> {
        let found = numbered(code.fatbins(), self.container)?;
        let bytes = fatbin::container_at(data, found.place.offset).ok()?;
        let entries = fatbin::read(bytes).ok()?;
        let entry = entries.get(self.entry.checked_sub(1)?)?;
        let mut text = entry.payload().ok()?.into_owned();
        let end = text.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        text.truncate(end);
        // Only a target with its own suffix assembles PTX with `a`; PTX with `f` is assembled for a plain one.
        let feature = match entry.arch.feature {
            ArchFeature::Accelerated => ArchFeature::Accelerated,
            _ => ArchFeature::Plain,
        };
        let is_part = matches!(found.role, super::super::containers::Role::Object(_));
        Some(PtxText { text, target: GpuArch { number: self.gpu, feature }, is_part })
    }
}

impl FileGate {
    /// The PTX that drivers would compile, for each GPU.
    pub fn ptx_jobs(&self) -> Vec<PtxJob> {
        let of_cell = |cell: &Cell| {
            let gpu = cell.gpu.parse::<GpuArch>().ok().map(|gpu| gpu.number);
            let job = move |(container, entry): (usize, usize)| gpu.map(|gpu| PtxJob { container, entry, gpu });
            cell.jit.clone().into_iter().filter_map(job)
        };
        let mut jobs: Vec<PtxJob> = self.cells.iter().flat_map(of_cell).collect();
        jobs.sort_unstable();
        jobs.dedup();
        jobs
    }

    /// The same with what assemblers say of all of these.
    #[must_use]
    pub fn with_assembly(mut self, results: &BTreeMap<PtxJob, Assembled>, requirement: &Requirement) -> Self {
        for cell in self.cells.iter_mut().filter(|cell| !cell.jit.is_empty()) {
            cell.assembled(results);
            cell.passes = cell.verdict.passes(requirement.jit, requirement.kernels);
        }
        self
    }
}

impl Cell {
    fn assembled(&mut self, results: &BTreeMap<PtxJob, Assembled>) {
        let Ok(gpu) = self.gpu.parse::<GpuArch>() else { return };
        let mut ms = 0;
        let mut unable = None;
        for (container, entry) in &self.jit {
            let job = PtxJob { container: *container, entry: *entry, gpu: gpu.number };
            match results.get(&job) {
                Some(Assembled::Accepted(own)) => ms += own,
                Some(Assembled::Rejected(why)) => {
                    self.verdict = CellVerdict::Fails;
                    self.fault = Some(FindingCode::NotAssembled);
                    self.reason = format!("{} is compiled, and {why}", self.outcome);
                    return;
                }
                Some(Assembled::Unable(why)) => unable = Some(why.clone()),
                None => unable = Some("the PTX is not where it was".to_owned()),
            }
        }
        if let Some(why) = unable {
            self.verdict = self.verdict.max(CellVerdict::Unknown);
            self.reason =
                format!("{} is compiled, and no assembler at hand can tell whether it compiles: {why}", self.outcome);
            return;
        }
        self.rung = Rung::Assembled;
        self.compile_ms = Some(ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::containers::FoundContainer;
    use crate::coverage::testing::{ptx, sass, set};

    #[test]
    fn assemblers_agree_or_one_rejects() {
        let [yes, no, unable] =
            [Assembled::Accepted(3), Assembled::Rejected("no".into()), Assembled::Unable("?".into())];
        assert_eq!(yes.clone().and(Assembled::Accepted(5)), Assembled::Accepted(5));
        for (one, other, both) in [
            (&yes, &no, &no),
            (&no, &yes, &no),
            (&unable, &yes, &yes),
            (&yes, &unable, &yes),
            (&unable, &no, &no),
            (&no, &unable, &no),
        ] {
            assert_eq!(one.clone().and(other.clone()), *both);
        }
    }

    #[test]
    fn a_cell_claims_no_more_than_all_of_its_ptx() {
        let requirement: Requirement = "sm_80,sm_90@580".parse().expect("a requirement");
        let code = FileCode::of_link(vec![FoundContainer::whole(set([sass("80"), ptx("90")]).to_vec())]);
        let gate = FileGate::new(&code, &requirement);
        let jobs = gate.ptx_jobs();
        assert_eq!(jobs, [PtxJob { container: 1, entry: 2, gpu: 90 }]);
        let with = |result| {
            let gate = gate.clone().with_assembly(&BTreeMap::from([(jobs[0], result)]), &requirement);
            let cell = &gate.cells[1];
            (cell.verdict, cell.rung, cell.passes, cell.compile_ms)
        };
        assert_eq!(with(Assembled::Accepted(7)), (CellVerdict::Jit, Rung::Assembled, true, Some(7)));
        assert_eq!(with(Assembled::Rejected("no".into())), (CellVerdict::Fails, Rung::Documented, false, None));
        assert_eq!(with(Assembled::Unable("no".into())), (CellVerdict::Unknown, Rung::Documented, false, None));
        assert_eq!(gate.with_assembly(&BTreeMap::new(), &requirement).cells[0].rung, Rung::Documented);
    }
}
