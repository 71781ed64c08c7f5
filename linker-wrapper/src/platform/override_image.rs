//! `--override-image=KIND=FILE`: somebody else has linked the device code. The inputs are not read; the file is bundled and
//! registered.

use std::path::Path;

use crate::diag::error::Errors;
use crate::platform::PLATFORMS;
use crate::platform::error::Error;
use crate::platform::interface::Products;
use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::Stamp;

/// Reads the file, with its stamp. What it is made for is read from it.
///
/// # Errors
/// The file cannot be read, is no image of that kind, or no platform has the kind.
pub fn read(kind: &str, file: &Path) -> Result<(Box<dyn Products>, Stamp), Errors> {
    let (content, stamp) =
        Mapped::open_stamped(file).map_err(|source| Error::Read { file: file.to_owned(), source })?;
    let Some(platform) = PLATFORMS.iter().find(|platform| platform.kind() == kind) else {
        let mut kinds: Vec<&str> = PLATFORMS.iter().map(|platform| platform.kind()).collect();
        kinds.sort_unstable();
        return Err(Error::UnknownKind { kind: kind.to_owned(), known: kinds.join(" and ") }.into());
    };
    Ok((platform.finished(&file.display().to_string(), content)?, stamp))
}
