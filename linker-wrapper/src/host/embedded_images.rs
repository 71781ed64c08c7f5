//! Finds the device images in the input files, and the names that the host registers.

use std::collections::{HashMap, HashSet};
use std::fmt;

use llvm_passes::bitcode;
use llvm_passes::unit::{CachedFacts, Unit};
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::{self, OffloadImage};
use offload_bundle::{FormatError, FormatErrorKind};
use rayon::prelude::*;

use crate::compilers::foreign_units::{self, ForeignUnit, OpenUnit};
use crate::diag::error::{Errors, collect};
use crate::host::coff;
use crate::host::error::{Error, damaged};
use crate::host::host_lto;
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
    /// The file has several images for the target, as the output of a relocatable link may: its name alone does not say which.
    pub is_one_of_several: bool,
}

impl Origin {
    /// The file and the offset, for damage in it.
    pub fn exact(&self) -> String {
        match self.offset {
            Some(offset) => format!("{} at offset {offset:#x}", self.file),
            None => format!("{} in llvm.embedded.objects", self.file),
        }
    }
}

impl fmt::Display for Origin {
    /// The file, which is what users know.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_one_of_several { formatter.write_str(&self.exact()) } else { formatter.write_str(&self.file) }
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
    /// The entries of the container, if another compiler than clang made the unit; `image` then is that container, and has no target.
    pub foreign: Option<ForeignUnit<'a>>,
}

impl<'a> FoundImage<'a> {
    /// Opens nothing yet.
    pub fn new(input: usize, origin: Origin, image: OffloadImage<'a>) -> Self {
        let unit = bitcode::is_bitcode(image.image).then(|| Unit::new(origin.to_string(), image.image));
        FoundImage { input, origin, image, unit, foreign: None }
    }

    /// The image, whose unit looks into the facts of earlier links before it is opened.
    pub fn with_cached(self, facts: Option<&'a dyn CachedFacts>) -> Self {
        FoundImage { unit: self.unit.map(|unit| unit.with_cached(facts)), ..self }
    }

    /// Whether another compiler than clang made the unit. It registers itself, and stays in the output of a relocatable link.
    pub fn is_foreign(&self) -> bool {
        self.foreign.is_some()
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
    let mut images: Vec<FoundImage<'_>> = collect(images)?.into_iter().flatten().collect();
    remove_linked(inputs, &mut images);
    Ok(images)
}

/// Removes the foreign units that another object of the link registers: the result of a device link that was made before, as in an
/// archive whose device symbols are resolved. They stay a device program of their own.
fn remove_linked(inputs: &InputFiles, images: &mut Vec<FoundImage<'_>>) {
    if images.iter().all(|found| !found.is_foreign()) {
        return;
    }
    let linked = linked_ids(inputs);
    images.retain(|found| found.foreign.as_ref().is_none_or(|unit| !linked.contains(unit.id)));
}

/// The ids of foreign units that an object of the link registers.
pub fn linked_ids(inputs: &InputFiles) -> HashSet<&str> {
    let objects = inputs.files().iter().filter(|file| file.kind == FileKind::ElfRelocatable);
    objects.flat_map(|file| host_object::linked_ids(inputs.bytes(file))).collect()
}

fn in_file<'a>(inputs: &'a InputFiles, index: usize, file: &'a InputFile) -> Result<Vec<FoundImage<'a>>, Errors> {
    let data = inputs.bytes(file);
    let base = file.base();
    host_lto::check(file, data)?;
    let all_found = |images: Vec<(Option<u64>, OffloadImage<'a>)>| {
        let origins = origins_of(file, &images);
        let found = images.into_iter().zip(origins).map(|((_, image), origin)| FoundImage::new(index, origin, image));
        found.collect::<Vec<_>>()
    };
    match file.kind {
        FileKind::OffloadBinary => {
            let read = offload_binary::read_all(data)
                .or_else(|error| inflated(file, error, || Ok(Some(offload_binary::inflate(data)?.into_owned()))));
            let images = read.map_err(|error| damaged(&file.name, base, &error))?;
            Ok(all_found(images.into_iter().map(|image| (Some(image.image_offset), image)).collect()))
        }
        FileKind::ElfRelocatable | FileKind::ElfExecutable => {
            let read = host_object::device_images(data).map(|images| {
                let open = images.into_iter().filter(|device| !device.finished);
                open.map(|device| (Some(device.offset), device.image)).collect()
            });
            let images = read.or_else(|error| {
                let images = inflated(file, error, || host_object::inflated_binaries(data))?;
                Ok(images.into_iter().map(|image| (Some(0), image)).collect())
            });
            let mut images = all_found(images.map_err(|error| damaged(&file.name, base, &error))?);
            images.extend(foreign_images(index, file, data).map_err(|error| damaged(&file.name, base, &error))?);
            Ok(images)
        }
        FileKind::Coff => coff::reject_device_code(&file.name, data, base).map(|()| Vec::new()),
        FileKind::Bitcode => {
            let of_windows = file.bitcode.as_ref().filter(|host| coff::is_host(&host.triple));
            if of_windows.is_some_and(|host| !host.offload_binaries.is_empty()) {
                return Err(coff::refused(&file.name));
            }
            let blobs = file.bitcode.iter().flat_map(|host| &host.offload_binaries);
            let read = blobs.clone().map(|blob| offload_binary::read_all(blob)).collect::<Result<Vec<_>, _>>();
            let whole =
                || Ok(Some(blobs.map(|blob| offload_binary::inflate(blob)).collect::<Result<Vec<_>, _>>()?.concat()));
            let read = read.map(|images| images.into_iter().flatten().collect());
            let images = read.or_else(|error| inflated(file, error, whole));
            let images = images.map_err(|source| Error::DamagedBitcodeHost { name: file.name.clone(), source })?;
            Ok(all_found(images.into_iter().map(|image| (None, image)).collect()))
        }
        // Shared libraries are linked already.
        _ => Ok(Vec::new()),
    }
}

/// The images of a file whose offload binaries cannot be read where they are, because they are compressed, as LLVM 24 writes them. `error` is
/// why they cannot; it stays if they are not compressed.
fn inflated<'a>(
    file: &'a InputFile,
    error: FormatError,
    inflate: impl FnOnce() -> Result<Option<Vec<u8>>, FormatError>,
) -> Result<Vec<OffloadImage<'a>>, FormatError> {
    let mut kind = &error.kind;
    while let FormatErrorKind::Within { kind: inner, .. } = kind {
        kind = inner;
    }
    if !matches!(kind, FormatErrorKind::Unsupported(_)) {
        return Err(error);
    }
    match inflate()? {
        Some(bytes) => offload_binary::read_all(file.inflated.get_or_init(|| bytes)),
        None => Err(error),
    }
}

/// The places of images in a file, by their offsets in it.
fn origins_of(file: &InputFile, images: &[(Option<u64>, OffloadImage<'_>)]) -> Vec<Origin> {
    let key = |image: &OffloadImage<'_>| (image.triple().to_owned(), image.arch().to_owned());
    let mut counts: HashMap<(String, String), usize> = HashMap::new();
    images.iter().for_each(|(_, image)| *counts.entry(key(image)).or_default() += 1);
    let origin = |(offset, image): &(Option<u64>, OffloadImage<'_>)| Origin {
        file: file.name.clone(),
        offset: offset.map(|offset| file.base() + offset),
        is_one_of_several: counts[&key(image)] > 1,
    };
    images.iter().map(origin).collect()
}

/// The foreign units in an object that no device link has registered yet.
fn foreign_images<'a>(index: usize, file: &InputFile, data: &'a [u8]) -> Result<Vec<FoundImage<'a>>, FormatError> {
    let found = |OpenUnit { image, unit, is_alone }| {
        let offset = Some(file.base() + image.image_offset);
        let origin = Origin { file: file.name.clone(), offset, is_one_of_several: !is_alone };
        FoundImage { input: index, origin, image, unit: None, foreign: Some(unit) }
    };
    Ok(foreign_units::open_units(data)?.into_iter().map(found).collect())
}

/// The names of the kernels and variables that the host objects of the link register.
///
/// # Errors
/// Damaged entry tables.
pub fn registered_names(inputs: &InputFiles, linked: &[bool]) -> Result<HashSet<String>, Errors> {
    let files = inputs.files().iter().zip(linked).filter(|(_, linked)| **linked);
    let names = files.map(|(file, _)| names_registered_by(inputs, file));
    Ok(collect(names)?.into_iter().flatten().collect())
}

/// The names of the kernels and variables that a host object registers.
///
/// # Errors
/// A damaged entry table.
pub fn names_registered_by(inputs: &InputFiles, file: &InputFile) -> Result<Vec<String>, Errors> {
    match (&file.bitcode, file.kind) {
        (Some(host), _) => Ok(host.registered.clone()),
        (None, FileKind::ElfRelocatable) => host_object::offload_entries(inputs.bytes(file))
            .map(|entries| entries.into_iter().map(|entry| entry.name).collect())
            .map_err(|error| damaged(&file.name, file.base(), &error)),
        _ => Ok(Vec::new()),
    }
}
