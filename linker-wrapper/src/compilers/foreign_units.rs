//! Finds the units of nvcc in an object.

use offload_bundle::FormatError;
use offload_bundle::host_object::{self, RdcObject, RdcRegistration, ReferenceLists};
use offload_bundle::offload_binary::{ImageKind, OffloadImage, OffloadKinds};

use crate::cli::device_options::CUDA_TRIPLE;
use crate::compilers::rdc_image::RdcImage;

/// A unit that another compiler than clang made.
pub type ForeignUnit<'a> = RdcImage<'a>;

/// A foreign unit that no device link has registered yet.
pub struct OpenUnit<'a> {
    /// Its fatbin, which has no target.
    pub image: OffloadImage<'a>,
    /// The entries of the fatbin.
    pub unit: ForeignUnit<'a>,
    /// Whether its object holds no other unit.
    pub is_alone: bool,
}

/// Finds the open units of an object.
///
/// # Errors
/// A damaged fatbin.
pub fn open_units(data: &[u8]) -> Result<Vec<OpenUnit<'_>>, FormatError> {
    let objects = host_object::rdc_objects(data)?;
    let alone = (objects.len() == 1).then_some(data);
    // A unit that its own object registers has been linked; the device runtime is linked as a library.
    let is_open = |object: &&RdcObject<'_>| {
        object.registration != RdcRegistration::Defined
            && host_object::module_name(object.id) != host_object::DEVICE_RUNTIME
    };
    let unit = |object| {
        let unit = RdcImage::new(object, ReferenceLists::of_object(data), alone)?;
        Ok(OpenUnit { image: image(object), unit, is_alone: alone.is_some() })
    };
    objects.iter().filter(is_open).map(unit).collect()
}

fn image<'a>(object: &RdcObject<'a>) -> OffloadImage<'a> {
    OffloadImage {
        image_kind: ImageKind::Fatbin,
        offload_kinds: OffloadKinds::CUDA,
        flags: 0,
        strings: vec![("triple", CUDA_TRIPLE), ("arch", "")],
        image: object.fatbin,
        image_offset: object.offset,
    }
}
