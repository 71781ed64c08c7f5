//! Memory-mapped files. The only `unsafe` code of this crate except the calls of NVIDIA's libraries.
#![allow(unsafe_code)]

use std::fs::File;
use std::io;
use std::path::Path;

use llvm_passes::crash::{self, WatchedMapping};

use crate::sys::stamp::{self, Stamp};

/// A file's bytes, mapped read-only.
///
/// A program that writes to the file changes these bytes, so users compare the file's [`Stamp`] when the work is done.
#[derive(Debug)]
pub struct Mapped(Option<Content>);

#[derive(Debug)]
struct Content {
    // Dropped first: a crash report must not name memory that has been reused.
    _watched: WatchedMapping,
    map: memmap2::Mmap,
}

impl Mapped {
    /// Maps a regular file.
    ///
    /// # Errors
    /// Those of opening and mapping; anything but a regular file is `InvalidInput`.
    pub fn open(path: &Path) -> io::Result<Self> {
        Self::of_file(&stamp::open(path)?, path)
    }

    /// As [`Mapped::open`], with a stamp that shows later whether the file has changed.
    ///
    /// # Errors
    /// As [`Mapped::open`].
    pub fn open_stamped(path: &Path) -> io::Result<(Self, Stamp)> {
        let file = stamp::open(path)?;
        let metadata = file.metadata()?;
        let mapped = Self::of_file(&file, path)?;
        let stamp = Stamp::new(path, &metadata, || Ok(*blake3::hash(mapped.bytes()).as_bytes()))?;
        Ok((mapped, stamp))
    }

    fn of_file(file: &File, path: &Path) -> io::Result<Self> {
        if file.metadata()?.len() == 0 {
            return Ok(Mapped(None));
        }
        // SAFETY: the mapping is private to this struct and read-only. A file that is truncated raises SIGBUS, which ends the
        // process with a message (`llvm_passes::crash`); one that is written to makes the link fail (`crate::sys::stamp`).
        let map = unsafe { memmap2::Mmap::map(file) }?;
        Ok(Mapped(Some(Content { _watched: crash::watch_mapping(&map, path), map })))
    }

    /// The bytes.
    pub fn bytes(&self) -> &[u8] {
        self.0.as_ref().map_or(&[], |content| &content.map)
    }
}
