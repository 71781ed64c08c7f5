//! A module together with its bitcode and the LLVM context that it lives in, as one value that can move between threads.

use inkwell::module::Module;

use crate::error::IrError;
use crate::session::Session;
use crate::{crash, sys};

/// A lazily loaded module, its session and its bitcode.
pub(crate) struct OwnedModule {
    // Declared first, so that it is dropped before the session whose context it lives in.
    module: Module<'static>,
    session: Session,
    // Behind the module: bodies that are not loaded yet lie in it.
    bitcode: Vec<u8>,
}

// SAFETY: LLVM ties neither a context nor its modules to a thread; it only forbids that two threads use one context at the
// same time. The context and its only module are fields of one value, so they move together, and without `Sync` no two
// threads reach them at once.
unsafe impl Send for OwnedModule {}

impl OwnedModule {
    /// Parses everything but the function bodies.
    pub(crate) fn open(unit: &str, bitcode: Vec<u8>) -> Result<Self, IrError> {
        let session = Session::new();
        let module = session.read_lazily(unit, &bitcode)?;
        // SAFETY: only the lifetime changes. The module refers to the LLVM context and to the bitcode by their own addresses, not by
        // those of `session` and `bitcode`, which may therefore move; both outlive the module by the order of the fields. `with` never
        // lets the lifetime out.
        let module = unsafe { std::mem::transmute::<Module<'_>, Module<'static>>(module) };
        Ok(OwnedModule { module, session, bitcode })
    }

    /// The bytes that the module was read from.
    pub(crate) fn bitcode(&self) -> &[u8] {
        &self.bitcode
    }

    /// Runs `read` on the module. Nothing that borrows from the module can leave it.
    pub(crate) fn with<R>(&self, read: impl for<'m> FnOnce(&Module<'m>) -> R) -> R {
        read(&self.module)
    }

    /// Parses all function bodies.
    pub(crate) fn load_bodies(&mut self, unit: &str) -> Result<(), IrError> {
        let loaded = crash::during(&format!("reading {unit}"), || sys::load_bodies(&self.module));
        let diagnosed = self.session.take_errors();
        match loaded {
            Ok(()) if diagnosed.is_empty() => Ok(()),
            Err(message) if diagnosed.is_empty() => Err(IrError::unreadable(unit, message)),
            _ => Err(IrError::unreadable(unit, diagnosed)),
        }
    }
}
