//! The device code of one target.

use llvm_passes::unit::Unit;
use offload_bundle::arch::GpuArch;

use crate::host::embedded_images::Origin;

/// What is linked for one GPU target.
#[derive(Clone)]
pub struct TargetImages<'a> {
    /// The target.
    pub arch: GpuArch,
    /// All its images, in link order.
    pub images: Vec<DeviceImage<'a>>,
}

impl<'a> TargetImages<'a> {
    /// The images of one form, with their place among all images.
    pub fn of_code(&self, code: Code) -> impl Iterator<Item = (usize, &DeviceImage<'a>)> {
        self.images.iter().enumerate().filter(move |(_, image)| image.code == code)
    }

    /// The bitcode units, in link order.
    pub fn units(&self) -> Vec<&'a Unit<'a>> {
        self.images.iter().filter_map(|image| image.unit).collect()
    }

    /// The place of an image among the bitcode units, if it is one.
    pub fn unit_of(&self, image: usize) -> Option<usize> {
        let is_bitcode = |image: &&DeviceImage<'_>| image.code == Code::Bitcode;
        let place = self.images[..image].iter().filter(is_bitcode).count();
        self.images.get(image).filter(is_bitcode).map(|_| place)
    }
}

/// One image of a target.
#[derive(Clone)]
pub struct DeviceImage<'a> {
    /// Where it came from.
    pub origin: Origin,
    /// It was found in a host file; otherwise the line gives it to the device link itself.
    pub from_host: bool,
    /// What it is.
    pub code: Code,
    /// Its bytes.
    pub bytes: &'a [u8],
    /// The bitcode as a unit that is opened once, if it is bitcode.
    pub unit: Option<&'a Unit<'a>>,
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
    /// NVIDIA's LTO-IR.
    LtoIr,
}

impl Code {
    /// What messages call it.
    pub fn name(self) -> &'static str {
        match self {
            Code::Bitcode => "LLVM bitcode",
            Code::Cubin => "machine code",
            Code::Ptx => "PTX",
            Code::LtoIr => "LTO-IR",
        }
    }

    /// How its files end.
    pub fn ending(self) -> &'static str {
        match self {
            Code::Bitcode => "bc",
            Code::Cubin => "cubin",
            Code::Ptx => "ptx",
            Code::LtoIr => "ltoir",
        }
    }
}

impl DeviceImage<'_> {
    /// What the image is called as a file, by its place among those of its target.
    pub fn file_name(&self, arch: GpuArch, place: usize) -> String {
        format!("{arch}.input.{place}.{}", self.code.ending())
    }
}
