//! Command lines that a compiler recorded in bitcode: in `!llvm.commandline` (`-frecord-command-line`), or behind the producer
//! in the debug information (`-grecord-command-line`).

use inkwell::module::Module;

use crate::sys;

/// Returns all recorded command lines of a module, whose function bodies need not be loaded.
pub(crate) fn of_module(module: &Module<'_>) -> Vec<String> {
    // A compile unit holds its producer and its flags; its other strings are names, which contain no options.
    [c"llvm.commandline", c"llvm.dbg.cu"].into_iter().flat_map(|list| sys::metadata_strings(module, list)).collect()
}
