//! Whether code for processors of the host is sound: whole, and for its processor.

use object::{Object, ObjectKind};
use offload_bundle::elf_sections::require_whole;

use crate::cli::host_triple;
use crate::machines::flaw::{Flaw, require_some};

/// Checks an object or, if it is `linked`, a shared library.
///
/// # Errors
/// What is wrong with it.
pub fn check(bytes: &[u8], triple: &str, linked: bool) -> Result<(), Flaw> {
    require_some(bytes)?;
    require_whole(bytes).map_err(|error| Flaw::Damaged(error.to_string()))?;
    let file = object::File::parse(bytes).map_err(|error| Flaw::Damaged(error.to_string()))?;
    let found = file.architecture();
    if host_triple::of_triple(triple).is_some_and(|host| found != host.architecture) {
        return Err(Flaw::OtherTarget(format!("{found:?}")));
    }
    if linked && file.kind() == ObjectKind::Relocatable {
        return Err(Flaw::Damaged("it is not linked".to_owned()));
    }
    Ok(())
}
