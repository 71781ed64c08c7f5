//! The processors of code objects, from the flags of their ELF headers (LLVM's "User Guide for AMDGPU Backend", "ELF Header").

use super::gpus::{Gpu, processor};
use super::{FeatureSetting, TargetId};
use crate::FormatError;
use crate::bytes::{slice, u16_at, u32_at};

/// `e_machine` of AMD GPUs.
pub const EM_AMDGPU: u16 = 224;

/// `e_ident[EI_OSABI]` of HSA, for which HIP's code is.
const ELFOSABI_AMDGPU_HSA: u8 = 64;

/// `EF_AMDGPU_MACH`, the bits of `e_flags` with the processor.
const MACHINE: u32 = 0xff;

/// The versions of code objects whose features can have no setting, and whose processors can be generic.
const FIRST_WITH_ANY: u8 = 4;
const FIRST_WITH_GENERIC: u8 = 6;

/// `e_type` of relocatable objects and of code objects.
const ET_REL: u16 = 1;
const ET_DYN: u16 = 3;

/// The header of a device object or code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CodeHeader {
    /// The version of the code object: 2 to 6.
    pub version: u8,
    /// The processor with its features. `None`: a processor that the table does not list.
    pub target: Option<TargetId>,
    /// The version of code for a generic processor; 0 for other code.
    pub generic_version: u8,
    /// The object is one of several that ld.lld links to a code object.
    pub relocatable: bool,
}

/// Whether the data starts as an ELF file for AMD GPUs does.
pub fn is_code(data: &[u8]) -> bool {
    data.starts_with(b"\x7fELF\x02\x01") && u16_at(data, 18, "e_machine") == Ok(EM_AMDGPU)
}

/// Reads the header.
///
/// # Errors
/// Data that is no ELF file for AMD GPUs, or of an unknown type or version.
pub fn header(data: &[u8]) -> Result<CodeHeader, FormatError> {
    const WHAT: &str = "the ELF header";
    if !is_code(data) {
        return Err(FormatError::wrong_format(0, "no ELF file for AMD GPUs"));
    }
    slice(data, 0, 64, WHAT)?;
    let [os, abi] = [7, 8].map(|at| data.get(at).copied().unwrap_or_default());
    if os != ELFOSABI_AMDGPU_HSA || abi > 4 {
        let what = format!("AMD GPU code of unknown ABI (OS ABI {os}, version {abi})");
        return Err(FormatError::unsupported(7, what));
    }
    let relocatable = match u16_at(data, 16, WHAT)? {
        ET_REL => true,
        ET_DYN => false,
        kind => return Err(FormatError::unsupported(16, format!("AMD GPU code of ELF type {kind}"))),
    };
    // ABI versions count from code object version 2.
    let version = abi + 2;
    let flags = u32_at(data, 48, WHAT)?;
    let generic_version = if version >= FIRST_WITH_GENERIC { flags.to_be_bytes()[0] } else { 0 };
    Ok(CodeHeader { version, target: target(flags, version), generic_version, relocatable })
}

fn target(flags: u32, version: u8) -> Option<TargetId> {
    let name = processor(flags & MACHINE)?;
    let processor = name.to_owned();
    if version < FIRST_WITH_ANY {
        // A single bit says that a feature of the processor is on.
        let bit = |bit: u32| if flags & bit != 0 { FeatureSetting::On } else { FeatureSetting::Off };
        let gpu = Gpu::find(name);
        let setting = |has: Option<bool>, at| if has == Some(true) { bit(at) } else { FeatureSetting::Any };
        let xnack = setting(gpu.map(|gpu| gpu.has_xnack), 0x100);
        let sramecc = setting(gpu.map(|gpu| gpu.has_sramecc), 0x200);
        return Some(TargetId { processor, xnack, sramecc });
    }
    let setting = |shift: u32| match flags >> shift & 3 {
        0 | 1 => FeatureSetting::Any,
        2 => FeatureSetting::Off,
        _ => FeatureSetting::On,
    };
    Some(TargetId { processor, xnack: setting(8), sramecc: setting(10) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn elf(kind: u16, abi: u8, flags: u32) -> Vec<u8> {
        let mut data = vec![0; 64];
        data[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 64, abi]);
        data[16..18].copy_from_slice(&kind.to_le_bytes());
        data[18..20].copy_from_slice(&EM_AMDGPU.to_le_bytes());
        data[48..52].copy_from_slice(&flags.to_le_bytes());
        data
    }

    #[test]
    fn flags_name_processor_and_features() {
        let read = |abi, flags| header(&elf(3, abi, flags)).unwrap();
        let target = |abi, flags| read(abi, flags).target.map(|target| target.to_string());
        assert_eq!(target(4, 0x53f).as_deref(), Some("gfx90a"));
        assert_eq!(target(4, 0xb3f).as_deref(), Some("gfx90a:sramecc-:xnack+"));
        assert_eq!(target(4, 0x041).as_deref(), Some("gfx1100"));
        assert_eq!(target(4, 0x0100_0051).as_deref(), Some("gfx9-generic"));
        assert_eq!(target(4, 0x0ff), None);
        assert_eq!(target(1, 0x13f).as_deref(), Some("gfx90a:sramecc-:xnack+"));
        assert_eq!((read(4, 0x0100_0051).generic_version, read(3, 0x0100_0051).generic_version), (1, 0));
        assert_eq!((read(3, 0x53f).version, read(3, 0x53f).relocatable), (5, false));
        assert!(header(&elf(1, 4, 0x53f)).unwrap().relocatable);
    }

    #[test]
    fn other_files_are_rejected() {
        for data in [elf(2, 4, 0x3f), elf(3, 5, 0x3f), elf(3, 4, 0x3f)[..40].to_vec(), b"\x7fELF".to_vec()] {
            assert!(header(&data).is_err());
        }
    }
}
