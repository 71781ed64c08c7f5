//! The command lines of other programs that this one takes: nvcc's device link, and lld.

use std::ffi::OsString;

use crate::cli::code_object_line::{self, CodeObjectLine};
use crate::cli::dlink;
use crate::diag::error::Errors;

/// Translates a line to options of this program, if it is such a one. `program` is the name that this one was started by.
///
/// # Errors
/// Options of nvcc that cannot be followed.
pub fn translate(line: Vec<OsString>, program: &str) -> Result<Vec<OsString>, Errors> {
    if program == code_object_line::NAME
        && let Some(line) = CodeObjectLine::read(&line)
    {
        return Ok(line.translate());
    }
    Ok(dlink::translate(&line)?.unwrap_or(line))
}
