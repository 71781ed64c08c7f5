//! The offload binaries of an ELF object.

use super::{Annotated, rewrite};
use crate::FormatError;
use crate::elf_edit::ExtendedElf;
use crate::host_object;

/// Returns `None` if the object has no device images.
pub(super) fn annotate(elf: &[u8], key: &str, value: &str) -> Result<Option<Annotated>, FormatError> {
    let mut object = ExtendedElf::new(elf)?;
    let mut images = 0;
    let sections = host_object::sections(elf)?;
    for (number, section) in sections.iter().enumerate().filter(|(_, section)| host_object::holds_device_code(section))
    {
        let place = format!("section {}", String::from_utf8_lossy(section.name));
        let data = section.data(elf).map_err(|e| e.within(&place))?;
        let written = rewrite(data, key, value).map_err(|e| e.shifted(section.offset).within(&place))?;
        images += written.images;
        object.rewrite(number, &written.bytes)?;
    }
    if images == 0 {
        return Ok(None);
    }
    Ok(Some(Annotated { bytes: object.finish()?, images }))
}
