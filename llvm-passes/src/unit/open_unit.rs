//! The open module of a unit, and how much memory all of them take.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::module_slot::{LockedSlot, ModuleSlot};
use super::owned_module::OwnedModule;
use crate::error::IrError;

/// What LLVM allocates for a module of any size, mostly for its context (measured: 100 KiB).
const MEMORY_OF_CONTEXT: usize = 100 << 10;

/// At most so many bytes of memory for each byte of bitcode, mostly for metadata.
const MEMORY_PER_BYTE: usize = 8;

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

/// Bitcode with a place for its open module, whose memory is accounted for.
pub(super) struct OpenUnit<'a> {
    slot: ModuleSlot<'a>,
    budget: &'static Budget,
}

impl<'a> OpenUnit<'a> {
    /// Opens nothing yet.
    pub(super) fn new(bitcode: &'a [u8], budget: &'static Budget) -> Self {
        OpenUnit { slot: ModuleSlot::new(bitcode), budget }
    }

    pub(super) fn bitcode(&self) -> &'a [u8] {
        self.slot.bitcode()
    }

    pub(super) fn lock(&self) -> Locked<'_> {
        let memory = MEMORY_OF_CONTEXT + MEMORY_PER_BYTE * self.bitcode().len();
        Locked { slot: self.slot.lock(), memory, budget: self.budget }
    }
}

impl Drop for OpenUnit<'_> {
    fn drop(&mut self) {
        self.lock().close();
    }
}

/// A locked [`OpenUnit`].
pub(super) struct Locked<'o> {
    slot: LockedSlot<'o>,
    memory: usize,
    budget: &'static Budget,
}

impl Locked<'_> {
    pub(super) fn is_open(&self) -> bool {
        self.slot.is_open()
    }

    /// Opens the module, unless it is open, and runs `read` on it.
    pub(super) fn with<R>(
        &mut self,
        unit: &str,
        read: impl for<'m> FnOnce(&mut OwnedModule<'m>) -> R,
    ) -> Result<R, IrError> {
        let was_open = self.is_open();
        let result = self.slot.with(unit, read)?;
        if !was_open {
            self.budget.used.fetch_add(self.memory, Ordering::Relaxed);
        }
        Ok(result)
    }

    /// Whether the unit should not stay open.
    pub(super) fn is_over_budget(&self) -> bool {
        self.is_open() && self.budget.is_exceeded()
    }

    /// Frees the open module, if there is one.
    pub(super) fn close(&mut self) {
        if self.is_open() {
            self.slot.close();
            self.budget.used.fetch_sub(self.memory, Ordering::Relaxed);
        }
    }
}
