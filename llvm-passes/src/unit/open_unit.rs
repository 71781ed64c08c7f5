//! The open module of a unit, and how much memory all of them take.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::IrError;
use crate::sys::OwnedModule;

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

/// Bitcode with the place for its open module.
///
/// The module borrows the bitcode, but its type does not say so: a `Mutex<OpenUnit<'a>>` would make every type that holds a
/// unit invariant in `'a`, and a list of units could not be borrowed for as long as what it borrows from.
pub(super) struct Openable<'a> {
    bitcode: &'a [u8],
    opened: Mutex<Option<OpenUnit>>,
    budget: &'static Budget,
}

impl<'a> Openable<'a> {
    /// Opens nothing yet.
    pub(super) fn new(bitcode: &'a [u8], budget: &'static Budget) -> Self {
        Openable { bitcode, opened: Mutex::new(None), budget }
    }

    pub(super) fn bitcode(&self) -> &'a [u8] {
        self.bitcode
    }

    /// Whether no further unit should stay open.
    pub(super) fn is_over_budget(&self) -> bool {
        self.budget.is_exceeded()
    }

    pub(super) fn lock(&self) -> Opened<'_> {
        let module = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        Opened { bitcode: self.bitcode, module, budget: self.budget }
    }
}

impl Drop for Openable<'_> {
    /// Drops the module while the bitcode is alive: without this, the compiler would allow the bitcode to be freed first.
    fn drop(&mut self) {
        *self.opened.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// The place of an open module, locked.
pub(super) struct Opened<'o> {
    bitcode: &'o [u8],
    module: MutexGuard<'o, Option<OpenUnit>>,
    budget: &'static Budget,
}

impl Opened<'_> {
    /// The open module. `None`: it is closed.
    pub(super) fn module(&mut self) -> Option<&mut OpenUnit> {
        self.module.as_mut()
    }

    /// Opens the module.
    pub(super) fn open(&mut self, unit: &str) -> Result<&mut OpenUnit, IrError> {
        let module = OwnedModule::open(unit, self.bitcode)?;
        // SAFETY: only the lifetime changes. The module is dropped before the bitcode: it is reached through the guard alone,
        // which never gives it away, and `Openable`, which borrows the bitcode, closes it when dropped.
        let module = unsafe { std::mem::transmute::<OwnedModule<'_>, OwnedModule<'static>>(module) };
        let memory = MEMORY_OF_CONTEXT + MEMORY_PER_BYTE * self.bitcode.len();
        self.budget.used.fetch_add(memory, Ordering::Relaxed);
        Ok(self.module.insert(OpenUnit { module, memory, budget: self.budget }))
    }

    /// Frees the open module, if there is one.
    pub(super) fn close(&mut self) {
        *self.module = None;
    }
}

/// An open module whose memory is accounted for.
pub(super) struct OpenUnit {
    module: OwnedModule<'static>,
    memory: usize,
    budget: &'static Budget,
}

impl Drop for OpenUnit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.memory, Ordering::Relaxed);
    }
}

impl Deref for OpenUnit {
    type Target = OwnedModule<'static>;

    fn deref(&self) -> &Self::Target {
        &self.module
    }
}

impl DerefMut for OpenUnit {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.module
    }
}
