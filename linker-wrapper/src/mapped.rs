//! Files in memory without a copy. The only `unsafe` of this crate.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

/// A file's bytes, mapped read-only.
#[derive(Debug)]
pub struct Mapped(Option<memmap2::Mmap>);

impl Mapped {
    /// Maps a regular file.
    ///
    /// # Errors
    /// Those of opening and mapping; anything but a regular file is `InvalidInput`.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let metadata = file.metadata()?;
        if !metadata.is_file() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
        }
        if metadata.len() == 0 {
            return Ok(Mapped(None));
        }
        // SAFETY: as every linker does, we rely on nobody truncating the inputs during the link.
        unsafe { memmap2::Mmap::map(&file) }.map(|map| Mapped(Some(map)))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
