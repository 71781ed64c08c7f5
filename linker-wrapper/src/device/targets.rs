//! The device code of one target.

use offload_bundle::arch::GpuArch;

use crate::host::embedded_images::Origin;

/// What is linked for one GPU target.
#[derive(Debug, Clone)]
pub struct TargetPlan<'a> {
    /// The target.
    pub arch: GpuArch,
    /// All its images, in link order.
    pub images: Vec<PlannedImage<'a>>,
}

/// One image of a target.
#[derive(Debug, Clone)]
pub struct PlannedImage<'a> {
    /// Where it came from.
    pub origin: Origin,
    /// It was found in a host file; otherwise the line gives it to the device link itself.
    pub from_host: bool,
    /// What it is.
    pub code: Code,
    /// Its bytes.
    pub bytes: &'a [u8],
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
