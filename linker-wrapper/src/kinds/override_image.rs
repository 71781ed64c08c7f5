//! `--override-image=KIND=FILE`: the device code is linked already. The file is bundled and registered, and the inputs are not
//! searched for device code.

use std::path::Path;

use crate::diag::error::Errors;
use crate::kinds::KINDS;
use crate::kinds::error::Error;
use crate::kinds::interface::Products;
use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::Stamp;

/// Reads the file and its stamp. The target is found in the file.
///
/// # Errors
/// The file cannot be read or is not an image of that kind, or no kind has the kind.
pub fn read(kind: &str, file: &Path) -> Result<(Box<dyn Products>, Stamp), Errors> {
    let (content, stamp) =
        Mapped::open_stamped(file).map_err(|source| Error::Read { file: file.to_owned(), source })?;
    let Some(known) = KINDS.iter().find(|known| known.name() == kind) else {
        let mut kinds: Vec<&str> = KINDS.iter().map(|known| known.name()).collect();
        kinds.sort_unstable();
        return Err(Error::UnknownKind { kind: kind.to_owned(), known: kinds.join(" and ") }.into());
    };
    Ok((known.finished(&file.display().to_string(), content)?, stamp))
}
