//! Finds the device images in the input files, and the names that the host registers.

use std::collections::HashSet;
use std::fmt;

use llvm_passes::bitcode;
use llvm_passes::unit::Unit;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, OffloadImage};
use rayon::prelude::*;

use crate::diag::error::{Errors, collect};
use crate::host::coff;
use crate::host::error::{Error, damaged};
use crate::host::input_files::{InputFile, InputFiles};
use crate::sys::threads;

/// So few files are looked through faster than threads start.
pub const FEW: usize = 64;

/// Where a device image was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// Offset of the image in the file (for a member, in the archive); `None` inside bitcode.
    pub offset: Option<u64>,
}

impl fmt::Display for Origin {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.offset {
            Some(offset) => write!(formatter, "{} at offset {offset:#x}", self.file),
            None => write!(formatter, "{} in llvm.embedded.objects", self.file),
        }
    }
}

/// A device image and where it came from.
pub struct FoundImage<'a> {
    /// The input that holds it, by index.
    pub input: usize,
    /// File, member, offset.
    pub origin: Origin,
    /// Target, kind and bytes.
    pub image: OffloadImage<'a>,
    /// The bitcode as a unit that is opened once, if it is bitcode.
    pub unit: Option<Unit<'a>>,
}

impl<'a> FoundImage<'a> {
    /// Opens nothing yet.
    pub fn new(input: usize, origin: Origin, image: OffloadImage<'a>) -> Self {
        let unit = bitcode::is_bitcode(image.image).then(|| Unit::new(origin.to_string(), image.image));
        FoundImage { input, origin, image, unit }
    }
}

/// Finds every device image, in link order.
///
/// # Errors
/// Damaged sections and offload binaries, each with file, member and offset.
pub fn find(inputs: &InputFiles) -> Result<Vec<FoundImage<'_>>, Errors> {
    let files = inputs.files();
    let look = |(index, file)| in_file(inputs, index, file);
    let images: Vec<Result<Vec<FoundImage<'_>>, Errors>> = if files.len() > FEW {
        threads::start()?;
        files.par_iter().enumerate().map(look).collect()
    } else {
        files.iter().enumerate().map(look).collect()
    };
    Ok(collect(images)?.into_iter().flatten().collect())
}

fn in_file<'a>(inputs: &'a InputFiles, index: usize, file: &'a InputFile) -> Result<Vec<FoundImage<'a>>, Errors> {
    let data = inputs.bytes(file);
    let base = file.base();
    let found = |offset: Option<u64>, image| {
        let origin = Origin { file: file.name.clone(), offset: offset.map(|offset| base + offset) };
        FoundImage::new(index, origin, image)
    };
    match file.kind {
        FileKind::OffloadBinary => {
            let images = offload_binary::read_all(data).map_err(|error| damaged(&file.name, base, &error))?;
            Ok(images.into_iter().map(|image| found(Some(image.image_offset), image)).collect())
        }
        FileKind::ElfRelocatable | FileKind::ElfExecutable => {
            let images = host_object::device_images(data).map_err(|error| damaged(&file.name, base, &error))?;
            let open = images.into_iter().filter(|device| !device.finished);
            Ok(open.map(|device| found(Some(device.offset), device.image)).collect())
        }
        FileKind::Coff => coff::reject_device_code(&file.name, data, base).map(|()| Vec::new()),
        FileKind::Bitcode => {
            let of_windows = file.bitcode.as_ref().filter(|host| coff::is_host(&host.triple));
            if of_windows.is_some_and(|host| !host.offload_binaries.is_empty()) {
                return Err(coff::refused(&file.name));
            }
            let blobs = file.bitcode.iter().flat_map(|host| &host.offload_binaries);
            let images = blobs.map(|blob| {
                offload_binary::read_all(blob)
                    .map_err(|source| Error::DamagedBitcodeHost { name: file.name.clone(), source }.into())
            });
            Ok(collect(images)?.into_iter().flatten().map(|image| found(None, image)).collect())
        }
        // Shared libraries are linked already.
        _ => Ok(Vec::new()),
    }
}

/// The names of the kernels and variables that the host objects of the link register.
///
/// # Errors
/// Damaged entry tables.
pub fn registered_names(inputs: &InputFiles, linked: &[bool]) -> Result<HashSet<String>, Errors> {
    let files = inputs.files().iter().zip(linked).filter(|(_, linked)| **linked);
    let names = files.map(|(file, _)| match (&file.bitcode, file.kind) {
        (Some(host), _) => Ok(host.registered.clone()),
        (None, FileKind::ElfRelocatable) => host_object::offload_entries(inputs.bytes(file))
            .map(|entries| entries.into_iter().map(|entry| entry.name).collect())
            .map_err(|error| damaged(&file.name, file.base(), &error)),
        _ => Ok(Vec::new()),
    });
    Ok(collect(names)?.into_iter().flatten().collect())
}
