//! `--override-image=KIND=FILE`: the device code is linked already. The file is bundled and registered, and the inputs are not
//! searched for device code.

use std::path::Path;

use crate::diag::error::Errors;
use crate::platform::PLATFORMS;
use crate::platform::error::Error;
use crate::platform::interface::Products;
use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::Stamp;

/// Reads the file and its stamp. The target is found in the file.
///
/// # Errors
/// The file cannot be read or is not an image of that kind, or no platform has the kind.
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
