//! `--override-image=KIND=FILE`: somebody else has linked the device code. The inputs are not read; the file is bundled and
//! registered.

use std::path::Path;

use crate::diag::error::Errors;
use crate::platform::PLATFORMS;
use crate::platform::interface::Products;
use crate::sys::mapped_file::Mapped;
use crate::sys::stamp::Stamp;

/// Reads the file, with its stamp. What it is made for is read from it.
///
/// # Errors
/// The file cannot be read, is no image of that kind, or no platform has the kind.
pub fn read(kind: &str, file: &Path) -> Result<(Box<dyn Products>, Stamp), Errors> {
    let shown = file.display().to_string();
    let (content, stamp) =
        Mapped::open_stamped(file).map_err(|error| Errors::one(format_args!("cannot read {shown}: {error}")))?;
    let Some(platform) = PLATFORMS.iter().find(|platform| platform.kind() == kind) else {
        let mut kinds: Vec<&str> = PLATFORMS.iter().map(|platform| platform.kind()).collect();
        kinds.sort_unstable();
        return Err(Errors::one(format_args!(
            "--override-image={kind}=: this version wraps the kinds {}",
            kinds.join(" and ")
        )));
    };
    Ok((platform.finished(&shown, content)?, stamp))
}
