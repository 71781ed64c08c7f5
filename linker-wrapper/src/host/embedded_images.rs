//! The device images in the pieces of a link, and the names that the host registers.

use std::collections::HashSet;
use std::fmt;

use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, OffloadImage};
use rayon::prelude::*;

use crate::diag::error::{Errors, collect};
use crate::host::coff;
use crate::host::error::{Error, damaged};
use crate::host::input_files::{Inputs, Piece};
use crate::sys::threads;

/// So few pieces are looked through faster than threads start.
pub const FEW: usize = 64;

/// Where a device image was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// Path, with the archive member in parentheses.
    pub file: String,
    /// Offset of the image in the file (in the archive's file for a member); none inside bitcode.
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
#[derive(Debug, Clone)]
pub struct FoundImage<'a> {
    /// The piece that holds it, by index.
    pub piece: usize,
    /// File, member, offset.
    pub origin: Origin,
    /// Target, kind and bytes.
    pub image: OffloadImage<'a>,
}

/// Every device image, in link order.
///
/// # Errors
/// Damaged sections and offload binaries, each with file, member and offset.
pub fn find(inputs: &Inputs) -> Result<Vec<FoundImage<'_>>, Errors> {
    let pieces = inputs.pieces();
    let look = |(index, piece)| in_piece(inputs, index, piece);
    let images: Vec<Result<Vec<FoundImage<'_>>, Errors>> = if pieces.len() > FEW {
        threads::start()?;
        pieces.par_iter().enumerate().map(look).collect()
    } else {
        pieces.iter().enumerate().map(look).collect()
    };
    Ok(collect(images)?.into_iter().flatten().collect())
}

fn in_piece<'a>(inputs: &'a Inputs, index: usize, piece: &'a Piece) -> Result<Vec<FoundImage<'a>>, Errors> {
    let data = inputs.bytes(piece);
    let base = piece.base();
    let found = |offset: Option<u64>, image| FoundImage {
        piece: index,
        origin: Origin { file: piece.name.clone(), offset: offset.map(|offset| base + offset) },
        image,
    };
    match piece.kind {
        FileKind::OffloadBinary => {
            let images = offload_binary::read_all(data).map_err(|error| damaged(&piece.name, base, &error))?;
            Ok(images.into_iter().map(|image| found(Some(image.image_offset), image)).collect())
        }
        FileKind::ElfRelocatable | FileKind::ElfExecutable => {
            let images = host_object::device_images(data).map_err(|error| damaged(&piece.name, base, &error))?;
            let open = images.into_iter().filter(|device| !device.finished);
            Ok(open.map(|device| found(Some(device.offset), device.image)).collect())
        }
        FileKind::Coff => coff::reject_device_code(&piece.name, data, base).map(|()| Vec::new()),
        FileKind::Bitcode => {
            let of_windows = piece.bitcode.as_ref().filter(|host| coff::is_host(&host.triple));
            if of_windows.is_some_and(|host| !host.offload_binaries.is_empty()) {
                return Err(coff::refused(&piece.name));
            }
            let blobs = piece.bitcode.iter().flat_map(|host| &host.offload_binaries);
            let images = blobs.map(|blob| {
                offload_binary::read_all(blob)
                    .map_err(|source| Error::DamagedBitcodeHost { name: piece.name.clone(), source }.into())
            });
            Ok(collect(images)?.into_iter().flatten().map(|image| found(None, image)).collect())
        }
        // Shared libraries are finished programs.
        _ => Ok(Vec::new()),
    }
}

/// The names of the kernels and variables that the host objects of the link register.
///
/// # Errors
/// Damaged entry tables.
pub fn registered_names(inputs: &Inputs, linked: &[bool]) -> Result<HashSet<String>, Errors> {
    let pieces = inputs.pieces().iter().zip(linked).filter(|(_, linked)| **linked);
    let names = pieces.map(|(piece, _)| match (&piece.bitcode, piece.kind) {
        (Some(host), _) => Ok(host.registered.clone()),
        (None, FileKind::ElfRelocatable) => host_object::offload_entries(inputs.bytes(piece))
            .map(|entries| entries.into_iter().map(|entry| entry.name).collect())
            .map_err(|error| damaged(&piece.name, piece.base(), &error)),
        _ => Ok(Vec::new()),
    });
    Ok(collect(names)?.into_iter().flatten().collect())
}
