//! Command lines that a compiler left in bitcode: `!llvm.commandline` (by `-frecord-command-line`) and the flags of the debug
//! producer (by `-grecord-command-line`).

use inkwell::module::Module;

use crate::IrError;
use crate::session::Session;
use crate::sys;

/// The recorded command lines of a file that mentions `option`. A file that does not is not read at all: metadata strings
/// lie in bitcode as plain bytes.
///
/// # Errors
/// Unreadable bitcode, or bitcode of a newer LLVM.
pub fn mentioning(option: &str, unit: &str, bitcode: &[u8]) -> Result<Vec<String>, IrError> {
    if memchr::memmem::find(bitcode, option.as_bytes()).is_none() {
        return Ok(Vec::new());
    }
    let session = Session::new();
    let module = session.read_lazily(unit, bitcode)?;
    Ok(of_module(&module))
}

/// All recorded command lines of a module, whose function bodies need not be loaded.
pub(crate) fn of_module(module: &Module<'_>) -> Vec<String> {
    // Of a compile unit: its producer, its flags, and names that are no command lines and mention no options.
    [c"llvm.commandline", c"llvm.dbg.cu"].into_iter().flat_map(|list| sys::metadata_strings(module, list)).collect()
}
