//! The open module of a unit, and how much memory all of them take.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::IrError;
use crate::sys::owned_module::OwnedModule;

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

/// An open module whose memory is accounted for.
pub(super) struct OpenUnit<'a> {
    module: OwnedModule<'a>,
    memory: usize,
    budget: &'static Budget,
}

impl<'a> OpenUnit<'a> {
    pub(super) fn new(unit: &str, bitcode: &'a [u8], budget: &'static Budget) -> Result<Self, IrError> {
        let module = OwnedModule::open(unit, bitcode)?;
        let memory = MEMORY_OF_CONTEXT + MEMORY_PER_BYTE * bitcode.len();
        budget.used.fetch_add(memory, Ordering::Relaxed);
        Ok(OpenUnit { module, memory, budget })
    }
}

impl Drop for OpenUnit<'_> {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.memory, Ordering::Relaxed);
    }
}

impl<'a> Deref for OpenUnit<'a> {
    type Target = OwnedModule<'a>;

    fn deref(&self) -> &Self::Target {
        &self.module
    }
}

impl DerefMut for OpenUnit<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.module
    }
}
