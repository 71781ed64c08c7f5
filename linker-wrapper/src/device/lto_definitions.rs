//! What units of LTO-IR define, as far as anything but NVIDIA's linkers can know it.
//!
//! The host code that nvcc makes of a unit has a function or a variable under the name of each device function, kernel and variable that the
//! unit defines and that is neither static nor inline. Not every such name is a device symbol. A kernel is one: its function calls another
//! whose name is made of the kernel's. A name is one, too, if machine code or PTX of the unit defines it, or if device code of another unit
//! defines it whose host code has it as well: two host definitions of one name do not link.

use std::collections::HashSet;

use llvm_passes::resolve::UnitSymbols;
use llvm_passes::symbols::Strength;
use offload_bundle::host_object::kernel_of_stub;

use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::{Errors, collect};
use crate::host::error::damaged;
use crate::host::rdc_image::RdcImage;

/// The names that the units of LTO-IR among the images define, by image; none for other images. `symbols` are those of the images that can
/// be read.
///
/// # Errors
/// Damaged symbol tables.
pub fn known(images: &[DeviceImage<'_>], symbols: &[UnitSymbols]) -> Result<Vec<Vec<String>>, Errors> {
    if images.iter().all(|image| image.code != Code::LtoIr) {
        return Ok(vec![Vec::new(); images.len()]);
    }
    let hosts = collect(images.iter().map(host_definitions))?;
    let mut device = HashSet::new();
    for (symbols, host) in symbols.iter().zip(&hosts) {
        let host: HashSet<&str> = host.iter().map(String::as_str).collect();
        device.extend(strong(symbols).filter(|name| host.contains(name)));
    }
    let of_image = |(image, host): (&DeviceImage<'_>, &Vec<String>)| {
        if image.code != Code::LtoIr {
            return Ok(Vec::new());
        }
        let kernels: HashSet<String> = stubs(image)?.iter().filter_map(|stub| kernel_of_stub(stub)).collect();
        let is_device = |name: &&String| device.contains(name.as_str()) || kernels.contains(*name);
        let mut names: Vec<String> = host.iter().filter(is_device).cloned().collect();
        names.extend(of_other_forms(image)?);
        names.sort();
        names.dedup();
        Ok(names)
    };
    collect(images.iter().zip(&hosts).map(of_image))
}

/// The names that the host code of an image's unit defines, neither weak nor local; none if the image is no unit of nvcc, or one of
/// several in its object.
///
/// # Errors
/// A damaged symbol table.
pub fn host_definitions(image: &DeviceImage<'_>) -> Result<Vec<String>, Errors> {
    let strong = image.rdc.map_or(Ok(Vec::new()), RdcImage::host_definitions);
    let offset = image.origin.offset.unwrap_or_default();
    strong.map_err(|error| damaged(&image.origin.file, offset, &error))
}

/// The definitions among the symbols, without weak ones.
fn strong(symbols: &UnitSymbols) -> impl Iterator<Item = &str> {
    symbols.symbols.iter().filter(|symbol| symbol.strength == Strength::Strong).map(|symbol| symbol.name.as_str())
}

/// The host's functions of the unit that launch kernels.
fn stubs(image: &DeviceImage<'_>) -> Result<Vec<String>, Errors> {
    Ok(host_definitions(image)?.into_iter().filter(|name| name.contains("__device_stub_")).collect())
}

/// What machine code or PTX of the unit for the same target as the LTO-IR defines.
fn of_other_forms(image: &DeviceImage<'_>) -> Result<Vec<String>, Errors> {
    let Some(rdc) = image.rdc else { return Ok(Vec::new()) };
    let symbols = UnitSymbols { symbols: symbols::of_same_target(&image.origin, rdc)? };
    Ok(strong(&symbols).map(str::to_owned).collect())
}
