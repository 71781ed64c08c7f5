//! The decisions about backends in one link.

use std::sync::{Mutex, MutexGuard, PoisonError};

use offload_bundle::arch::GpuArch;

use crate::machines::nvptx::backend::BackendDecision;
use crate::machines::nvptx::cubin_linker::{Linker, Reason};

/// The decisions so far, one per target.
#[derive(Debug, Default)]
pub struct Decisions(Mutex<Vec<BackendDecision>>);

impl Decisions {
    /// All of them.
    pub fn all(&self) -> MutexGuard<'_, Vec<BackendDecision>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records the first decision for each target; returns whether this is one.
    pub fn record(&self, decision: BackendDecision) -> bool {
        let mut decisions = self.all();
        let is_first = decisions.iter().all(|known| known.target != decision.target);
        if is_first {
            decisions.push(decision);
        }
        is_first
    }

    /// Records that nvlink links the cubins of a target, because one of them has something that fatlink does not know.
    pub fn record_unknown(&self, target: GpuArch, what: &str) {
        for decision in self.all().iter_mut().filter(|decision| decision.target == target) {
            decision.linker = Some(Linker::Nvlink(Reason::Unknown(what.to_owned())));
        }
    }
}
