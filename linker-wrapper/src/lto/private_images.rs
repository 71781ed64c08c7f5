//! A private copy of a target's images, which no other program writes to.
//!
//! Cache entries are found by a hash of the images, which are mapped from the user's files. A file that is rewritten between hashing
//! and compiling would leave wrong code under that hash permanently, so the copy is hashed and compiled instead. The copy is a file
//! rather than memory, because the code may be large and workers read files anyway.

use std::fmt::Display;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::diag::error::Errors;
use crate::lto::error::Error;
use crate::sys::mapped_file::Mapped;
use crate::sys::temp_files::TempFiles;

/// A copy of all images of one target.
pub struct PrivateImages {
    path: PathBuf,
    content: Mapped,
    ranges: Vec<Range<usize>>,
}

impl PrivateImages {
    /// Copies the images of this target.
    ///
    /// # Errors
    /// The copy cannot be written, for example because the disk is full.
    pub fn of(images: &[&[u8]], target: &dyn Display, temp_files: &TempFiles) -> Result<Self, Errors> {
        let (path, ranges) = write(images, target, temp_files)?;
        let content = Mapped::open(&path).map_err(|source| Error::Read { file: path.clone(), source })?;
        let copied = PrivateImages { path, content, ranges };
        let end = copied.ranges.last().map_or(0, |range| range.end);
        let length = copied.content.bytes().len();
        if length != end {
            return Err(Error::Incomplete { file: copied.path, length, written: end }.into());
        }
        Ok(copied)
    }

    /// Returns the bytes of an image, by its index.
    pub fn bytes(&self, place: usize) -> &[u8] {
        self.ranges.get(place).map_or(&[], |range| &self.content.bytes()[range.clone()])
    }

    /// Returns the path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the range of each image in the file.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }
}

/// Writes all images into one file, and returns its path and the range of each image.
///
/// # Errors
/// The file cannot be written.
pub fn write(
    images: &[&[u8]],
    target: &dyn Display,
    temp_files: &TempFiles,
) -> Result<(PathBuf, Vec<Range<usize>>), Errors> {
    let mut end = 0;
    let ranges = images.iter().map(|image| {
        let start = end;
        end += image.len();
        start..end
    });
    let ranges = ranges.collect();
    let path = temp_files
        .write_by(&format!("{target}.units"), |file| images.iter().try_for_each(|image| file.write_all(image)))?;
    Ok((path, ranges))
}
