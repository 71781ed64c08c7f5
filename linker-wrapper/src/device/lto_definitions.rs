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

use crate::compilers::rdc_image::RdcImage;
use crate::device::symbols;
use crate::device::targets::{Code, DeviceImage, TargetImages};
use crate::diag::error::{Errors, collect};
use crate::host::error::damaged;

/// The names that units of LTO-IR define.
#[derive(Debug, Default)]
pub struct LtoNames {
    /// Names by image; none for images that are no LTO-IR.
    pub definitions: Vec<Vec<String>>,
    /// The kernels of all images.
    pub kernels: HashSet<String>,
}

impl LtoNames {
    /// The names that the units of LTO-IR among the images define. `symbols` are those of the images that can be read.
    ///
    /// # Errors
    /// Damaged symbol tables.
    pub fn of(target: &TargetImages<'_>, symbols: &[UnitSymbols]) -> Result<Self, Errors> {
        let images = &target.images;
        if images.iter().all(|image| image.code != Code::LtoIr) {
            return Ok(LtoNames { definitions: vec![Vec::new(); images.len()], kernels: HashSet::new() });
        }
        let hosts = collect(images.iter().map(host_definitions))?;
        let mut device = HashSet::new();
        for (symbols, host) in symbols.iter().zip(&hosts) {
            let host: HashSet<&str> = host.iter().map(String::as_str).collect();
            device.extend(strong(symbols).filter(|name| host.contains(name)));
        }
        let mut names = LtoNames::default();
        for (image, host) in images.iter().zip(&hosts) {
            let mut defined = Vec::new();
            if image.code == Code::LtoIr {
                let kernels: HashSet<String> = host.iter().filter_map(|name| kernel_of_stub(name)).collect();
                let is_device = |name: &&String| device.contains(name.as_str()) || kernels.contains(*name);
                defined.extend(host.iter().filter(is_device).cloned());
                defined.extend(of_other_forms(image)?);
                defined.sort();
                defined.dedup();
                names.kernels.extend(kernels);
            }
            names.definitions.push(defined);
        }
        Ok(names)
    }
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

/// What machine code or PTX of the unit for the same target as the LTO-IR defines.
fn of_other_forms(image: &DeviceImage<'_>) -> Result<Vec<String>, Errors> {
    let Some(rdc) = image.rdc else { return Ok(Vec::new()) };
    let symbols = UnitSymbols { symbols: symbols::of_same_target(&image.origin, rdc)? };
    Ok(strong(&symbols).map(str::to_owned).collect())
}
