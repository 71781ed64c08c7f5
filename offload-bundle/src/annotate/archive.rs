//! Annotates the members of an archive.

use super::{Annotated, of_file};
use crate::archive_edit;
use crate::error::FormatError;
use crate::host_object::{self, FileKind};

/// Returns `None` if no member has device images.
pub(super) fn annotate(archive: &[u8], key: &str, value: &str) -> Result<Option<Annotated>, FormatError> {
    let mut images = 0;
    let bytes = archive_edit::rewrite(archive, |at, content| {
        let annotated = match host_object::file_kind(content) {
            FileKind::ElfRelocatable | FileKind::OffloadBinary => {
                of_file(content, key, value).map_err(|error| error.shifted(at))?
            }
            _ => None,
        };
        images += annotated.as_ref().map_or(0, |annotated| annotated.images);
        Ok::<_, FormatError>(annotated.map(|annotated| annotated.bytes))
    })?;
    Ok((images > 0).then_some(Annotated { bytes, images }))
}
