//! The device images of one target.

use std::fmt::Display;

use llvm_passes::unit::Unit;
use offload_bundle::arch::GpuArch;

use crate::compilers::rdc_image::RdcImage;
use crate::host::embedded_images::{FoundImage, Origin};

/// The device images that are linked for one target. `A` is the target as its machine describes it.
#[derive(Clone)]
pub struct TargetImages<'a, A = GpuArch> {
    /// The target.
    pub arch: A,
    /// All its images, in link order.
    pub images: Vec<DeviceImage<'a>>,
}

impl<'a, A> TargetImages<'a, A> {
    /// Returns the images of one form, with their indices among all images.
    pub fn of_code(&self, code: Code) -> impl Iterator<Item = (usize, &DeviceImage<'a>)> {
        self.images.iter().enumerate().filter(move |(_, image)| image.code == code)
    }

    /// Returns the size of the bitcode in bytes.
    pub fn bitcode_bytes(&self) -> usize {
        self.of_code(Code::Bitcode).map(|(_, image)| image.bytes.len()).sum()
    }

    /// Returns the bitcode units, in link order.
    pub fn units(&self) -> Vec<&'a Unit<'a>> {
        self.images.iter().filter_map(|image| image.unit).collect()
    }

    /// Returns the index of an image among the bitcode units, if it is bitcode.
    pub fn unit_of(&self, image: usize) -> Option<usize> {
        let is_bitcode = |image: &&DeviceImage<'_>| image.code == Code::Bitcode;
        let place = self.images[..image].iter().filter(is_bitcode).count();
        self.images.get(image).filter(is_bitcode).map(|_| place)
    }
}

/// One image of a target.
#[derive(Clone)]
pub struct DeviceImage<'a> {
    /// The file and offset that it was read from.
    pub origin: Origin,
    /// Whether it was found in a host file; otherwise the line gives it to the device link itself.
    pub from_host: bool,
    /// Its form.
    pub code: Code,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The bitcode as a unit that is opened once, if it is bitcode.
    pub unit: Option<&'a Unit<'a>>,
    /// The unit of nvcc whose code this is, if it is one.
    pub rdc: Option<&'a RdcImage<'a>>,
}

/// The forms of device code that can be linked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// LLVM bitcode, from `-foffload-lto`.
    Bitcode,
    /// A cubin.
    Cubin,
    /// PTX.
    Ptx,
    /// NVIDIA's LTO-IR, as it is or as a fatbin with one entry.
    LtoIr,
    /// An object for AMD's GPUs or processors of the host.
    Object,
}

impl Code {
    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Code::Bitcode => "LLVM bitcode",
            Code::Cubin | Code::Object => "machine code",
            Code::Ptx => "PTX",
            Code::LtoIr => "LTO-IR",
        }
    }

    /// The extension of its files.
    pub fn ending(self) -> &'static str {
        match self {
            Code::Bitcode => "bc",
            Code::Cubin => "cubin",
            Code::Ptx => "ptx",
            Code::LtoIr => "ltoir",
            Code::Object => "o",
        }
    }
}

impl<'a> DeviceImage<'a> {
    /// The image of a host file that is bitcode or an object.
    pub fn from_host(found: &'a FoundImage<'a>) -> Self {
        DeviceImage {
            origin: found.origin.clone(),
            from_host: true,
            code: if found.unit.is_some() { Code::Bitcode } else { Code::Object },
            bytes: found.image.image,
            unit: found.unit.as_ref(),
            rdc: None,
        }
    }

    /// The name of the image as an intermediate file: `stem` begins the names of its target's files, `place` is its index among the target's
    /// images.
    pub fn file_name(&self, stem: &dyn Display, place: usize) -> String {
        format!("{stem}.input.{place}.{}", self.code.ending())
    }
}
