//! The open module of a unit, and how much memory all of them take.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use super::owned_module::OwnedModule;
use crate::error::IrError;

/// What LLVM allocates for a module of any size, mostly for its context (measured: 100 KiB).
const MEMORY_OF_CONTEXT: usize = 100 << 10;

/// At most so many bytes of memory for each byte of bitcode: one for its copy, the others mostly for metadata.
const MEMORY_PER_BYTE: usize = 9;

/// The memory of open units, by estimate, and how much of it they may take.
pub(super) struct Budget {
    used: AtomicUsize,
    limit: usize,
}

/// The budget of all units of this process.
pub(super) static BUDGET: Budget = Budget::new(256 << 20);

impl Budget {
    pub(super) const fn new(limit: usize) -> Self {
        Budget { used: AtomicUsize::new(0), limit }
    }

    /// Whether no further unit should stay open.
    pub(super) fn is_exceeded(&self) -> bool {
        self.used.load(Ordering::Relaxed) > self.limit
    }
}

/// A place for the open module of one unit, whose memory is accounted for.
pub(super) struct OpenUnit {
    module: Mutex<Option<OwnedModule>>,
    memory: usize,
    budget: &'static Budget,
}

impl OpenUnit {
    /// A place for bitcode of this length. Opens nothing yet.
    pub(super) fn new(length: usize, budget: &'static Budget) -> Self {
        OpenUnit { module: Mutex::new(None), memory: MEMORY_OF_CONTEXT + MEMORY_PER_BYTE * length, budget }
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        let module = self.module.lock().unwrap_or_else(PoisonError::into_inner);
        Locked { module, memory: self.memory, budget: self.budget }
    }
}

impl Drop for OpenUnit {
    fn drop(&mut self) {
        self.lock().close();
    }
}

/// A locked [`OpenUnit`].
pub(super) struct Locked<'o> {
    module: MutexGuard<'o, Option<OwnedModule>>,
    memory: usize,
    budget: &'static Budget,
}

impl Locked<'_> {
    pub(super) fn is_open(&self) -> bool {
        self.module.is_some()
    }

    /// The open module, which `open` opens unless it is open.
    pub(super) fn or_open(
        &mut self,
        open: impl FnOnce() -> Result<OwnedModule, IrError>,
    ) -> Result<&mut OwnedModule, IrError> {
        match &mut *self.module {
            Some(module) => Ok(module),
            none => {
                let module = none.insert(open()?);
                self.budget.used.fetch_add(self.memory, Ordering::Relaxed);
                Ok(module)
            }
        }
    }

    /// Moves the open module, if there is one, to the empty place of a unit with the same bytes.
    pub(super) fn move_to(&mut self, other: &mut Locked<'_>) {
        if let Some(module) = self.module.take() {
            self.budget.used.fetch_sub(self.memory, Ordering::Relaxed);
            other.budget.used.fetch_add(other.memory, Ordering::Relaxed);
            *other.module = Some(module);
        }
    }

    /// Whether the unit should not stay open.
    pub(super) fn is_over_budget(&self) -> bool {
        self.is_open() && self.budget.is_exceeded()
    }

    /// Frees the open module, if there is one.
    pub(super) fn close(&mut self) {
        if self.module.take().is_some() {
            self.budget.used.fetch_sub(self.memory, Ordering::Relaxed);
        }
    }
}
