//! The images of a target in a file of this link's own, which no other program writes to.
//!
//! Results are kept under a hash of the images, and the images are mapped files of the user's: one that is rewritten between
//! hashing and compiling would leave wrong code under that hash for good. So what is hashed and compiled for the cache is a
//! copy. It is a file and no memory, because the code may be large and the jobs that compile it read files anyway.

use std::ops::Range;
use std::path::{Path, PathBuf};

use offload_bundle::arch::GpuArch;

use crate::device::targets::TargetImages;
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
    /// Copies the images.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn of(target: &TargetImages<'_>, temp_files: &TempFiles) -> Result<Self, Errors> {
        let images: Vec<&[u8]> = target.images.iter().map(|image| image.bytes).collect();
        let (path, ranges) = write(&images, target.arch, temp_files)?;
        let content = Mapped::open(&path).map_err(|source| Error::Read { file: path.clone(), source })?;
        let copied = PrivateImages { path, content, ranges };
        let end = copied.ranges.last().map_or(0, |range| range.end);
        let length = copied.content.bytes().len();
        if length != end {
            return Err(Error::Incomplete { file: copied.path, length, written: end }.into());
        }
        Ok(copied)
    }

    /// The bytes of an image, by its place.
    pub fn bytes(&self, place: usize) -> &[u8] {
        self.ranges.get(place).map_or(&[], |range| &self.content.bytes()[range.clone()])
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Where each image is in it.
    pub fn ranges(&self) -> &[Range<usize>] {
        &self.ranges
    }
}

/// Writes all images into one file, and tells where each is.
///
/// # Errors
/// Those of the file system.
pub fn write(images: &[&[u8]], arch: GpuArch, temp_files: &TempFiles) -> Result<(PathBuf, Vec<Range<usize>>), Errors> {
    let mut end = 0;
    let ranges = images.iter().map(|image| {
        let start = end;
        end += image.len();
        start..end
    });
    let ranges = ranges.collect();
    let path = temp_files
        .write_by(&format!("{arch}.units"), |file| images.iter().try_for_each(|image| file.write_all(image)))?;
    Ok((path, ranges))
}
