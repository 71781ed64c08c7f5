//! The modules of a program together with the LLVM context that they live in, as one value that can move between threads.

use inkwell::module::Module;

use crate::error::IrError;
use crate::program::Machine;
use crate::session::Session;
use crate::unit::Unit;

/// The units of a program, loaded whole into the session that compiles them.
pub struct OwnedProgram {
    // Declared first, so that they are dropped before the session whose context they live in.
    modules: Vec<Module<'static>>,
    session: Session,
}

// SAFETY: LLVM ties neither a context nor its modules to a thread; it only forbids that two threads use one context at the
// same time. The context and all of its modules are fields of one value, so they move together, and without `Sync` no two
// threads reach them at once.
unsafe impl Send for OwnedProgram {}

impl OwnedProgram {
    /// Loads every unit of a program for this machine; see [`Unit::load_into`].
    ///
    /// # Errors
    /// One for every unit that cannot be read.
    pub fn load(units: &[&Unit<'_>], machine: Machine) -> Result<Self, Vec<IrError>> {
        let session = Session::new();
        let (mut modules, mut errors) = (Vec::with_capacity(units.len()), Vec::new());
        for unit in units {
            match unit.load_into(&session, machine) {
                // SAFETY: only the lifetime changes. The module refers to the LLVM context by its own pointer, not by the
                // address of `session`, which may therefore move; the session outlives the modules by the order of the
                // fields. `compile` never lets the lifetime out.
                Ok(module) => modules.push(unsafe { std::mem::transmute::<Module<'_>, Module<'static>>(module) }),
                Err(error) => errors.push(error),
            }
        }
        if errors.is_empty() { Ok(OwnedProgram { modules, session }) } else { Err(errors) }
    }

    /// Hands the modules to `compile`, in the order of the units, with `input`, which lives as long as the session: modules may
    /// borrow from it. Nothing that borrows from the session can leave it.
    pub fn compile<I, R>(self, input: &I, compile: impl for<'s> FnOnce(&'s Session, Vec<Module<'s>>, &'s I) -> R) -> R {
        let OwnedProgram { modules, session } = self;
        // SAFETY: only the lifetime changes, to that of the session whose context the modules live in.
        let modules = unsafe { std::mem::transmute::<Vec<Module<'static>>, Vec<Module<'_>>>(modules) };
        compile(&session, modules, input)
    }
}
