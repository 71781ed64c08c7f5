//! A place for the open module of one unit's bitcode.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::owned_module::OwnedModule;
use crate::error::IrError;

/// Bitcode with a place for its open module.
///
/// The module borrows the bitcode, but its type does not say so: a `Mutex<OwnedModule<'a>>` would make every type that holds
/// it invariant in `'a`, and a list of units could not be borrowed for as long as what it borrows from.
pub(crate) struct ModuleSlot<'a> {
    bitcode: &'a [u8],
    module: Mutex<Option<OwnedModule<'static>>>,
}

impl<'a> ModuleSlot<'a> {
    /// Opens nothing yet.
    pub(crate) fn new(bitcode: &'a [u8]) -> Self {
        ModuleSlot { bitcode, module: Mutex::new(None) }
    }

    pub(crate) fn bitcode(&self) -> &'a [u8] {
        self.bitcode
    }

    pub(crate) fn lock(&self) -> LockedSlot<'_> {
        LockedSlot { bitcode: self.bitcode, module: self.module.lock().unwrap_or_else(PoisonError::into_inner) }
    }
}

impl Drop for ModuleSlot<'_> {
    /// Drops the module while the bitcode is alive: without this, the compiler would allow the bitcode to be freed first.
    fn drop(&mut self) {
        *self.module.get_mut().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A locked [`ModuleSlot`].
pub(crate) struct LockedSlot<'s> {
    bitcode: &'s [u8],
    module: MutexGuard<'s, Option<OwnedModule<'static>>>,
}

impl LockedSlot<'_> {
    pub(crate) fn is_open(&self) -> bool {
        self.module.is_some()
    }

    /// Opens the module, unless it is open, and runs `read` on it. Neither the module nor what borrows from it can leave
    /// `read`.
    pub(crate) fn with<R>(
        &mut self,
        unit: &str,
        read: impl for<'m> FnOnce(&mut OwnedModule<'m>) -> R,
    ) -> Result<R, IrError> {
        let module = match &mut *self.module {
            Some(module) => module,
            none => {
                let module = OwnedModule::open(unit, self.bitcode)?;
                // SAFETY: only the lifetime changes. The module is dropped before the bitcode: it is reached through this
                // function alone, and `ModuleSlot`, which borrows the bitcode, drops it before its own borrow ends.
                none.insert(unsafe { std::mem::transmute::<OwnedModule<'_>, OwnedModule<'static>>(module) })
            }
        };
        Ok(read(module))
    }

    /// Frees the open module, if there is one.
    pub(crate) fn close(&mut self) {
        *self.module = None;
    }
}
