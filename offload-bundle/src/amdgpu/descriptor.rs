//! Kernel descriptors: 64 bytes for each kernel that tell the hardware how many registers, how much scratch memory and how much LDS to
//! allocate (LLVM's "User Guide for AMDGPU Backend", "Kernel Descriptor").

use serde::{Deserialize, Serialize};

use crate::FormatError;
use crate::bytes::{slice, u16_at, u32_at};

/// Size of a descriptor in bytes.
pub const SIZE: u64 = 64;

/// Offsets of its fields.
const GROUP_SEGMENT: u64 = 0;
const PRIVATE_SEGMENT: u64 = 4;
const RSRC3: u64 = 44;
const RSRC1: u64 = 48;
const PROPERTIES: u64 = 56;

/// `KERNEL_CODE_PROPERTIES`: the kernel runs with 32 lanes.
const WAVE32: u16 = 1 << 10;

/// `COMPUTE_PGM_RSRC1`: the registers, in units of the hardware.
const VGPRS: u32 = 0x3f;
const SGPRS_SHIFT: u32 = 6;
const SGPRS: u32 = 0xf;

/// `COMPUTE_PGM_RSRC3` of gfx90a and its successors: where accumulation registers start, in units of four.
const ACCUM_OFFSET: u32 = 0x3f;

/// A descriptor's fields that depend on the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Descriptor {
    /// LDS in bytes.
    pub group_segment: u32,
    /// Scratch memory of a lane in bytes.
    pub private_segment: u32,
    /// `COMPUTE_PGM_RSRC1`.
    pub rsrc1: u32,
    /// `COMPUTE_PGM_RSRC3`.
    pub rsrc3: u32,
    /// `KERNEL_CODE_PROPERTIES`.
    pub properties: u16,
}

/// The registers of a kernel with everything that it calls.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Registers {
    /// Vector registers, without accumulation registers.
    pub vgprs: u32,
    /// Accumulation registers.
    pub agprs: u32,
    /// Scalar registers, with those that the hardware adds: VCC, the flat scratch address, the XNACK mask.
    pub sgprs: u32,
}

impl Registers {
    /// The larger number of each kind.
    #[must_use]
    pub fn max(self, other: Self) -> Self {
        Registers {
            vgprs: self.vgprs.max(other.vgprs),
            agprs: self.agprs.max(other.agprs),
            sgprs: self.sgprs.max(other.sgprs),
        }
    }
}

/// What calls through pointers mean for the registers of an object's kernels. Scalar registers are those without what the hardware adds.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PointerCalls {
    /// The most registers of each kind that a function needs which may be called through a pointer.
    pub functions: Registers,
    /// The kernels all of whose calls are known. One that calls through pointers has what it needs without those functions.
    pub kernels: Vec<(String, Option<Registers>)>,
}

impl PointerCalls {
    /// Whether a kernel is known to call through pointers.
    pub fn has_callers(&self) -> bool {
        self.kernels.iter().any(|(_, own)| own.is_some())
    }

    /// Those of two objects of one program.
    #[must_use]
    pub fn joined(mut self, other: Self) -> Self {
        self.kernels.extend(other.kernels);
        PointerCalls { functions: self.functions.max(other.functions), kernels: self.kernels }
    }
}

/// How a generation of GPUs counts registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RegisterFile {
    /// Accumulation registers follow the vector registers in one file.
    unified: bool,
    /// Vector registers are allocated in these units, by waves of 64 and of 32.
    vgpr_units: [u32; 2],
    /// Scalar registers are allocated by the kernel.
    counts_sgprs: bool,
}

impl RegisterFile {
    /// The rules for a processor; `None` for one whose rules are not known.
    pub fn of(processor: &str) -> Option<Self> {
        let generation = processor.strip_prefix("gfx")?;
        let unified = ["90a", "940", "941", "942", "950", "9-4-generic"].contains(&generation);
        let is_later = |first: &str| generation.starts_with(first) && generation.len() >= first.len() + 2;
        if unified {
            return Some(RegisterFile { unified, vgpr_units: [8, 8], counts_sgprs: true });
        }
        if generation.starts_with("125") || generation.starts_with("13") {
            return None;
        }
        if ["10", "11", "12"].into_iter().any(is_later) {
            return Some(RegisterFile { unified, vgpr_units: [4, 8], counts_sgprs: false });
        }
        let old = ["6", "7", "8", "9"].iter().any(|first| generation.starts_with(first));
        old.then_some(RegisterFile { unified, vgpr_units: [4, 4], counts_sgprs: true })
    }

    /// Whether scalar registers are allocated by the kernel.
    pub fn counts_sgprs(self) -> bool {
        self.counts_sgprs
    }

    /// All vector registers, as the metadata of a kernel counts them.
    pub fn total_vgprs(self, registers: Registers) -> u32 {
        match (self.unified, registers.agprs) {
            (true, 1..) => registers.vgprs.div_ceil(4).saturating_mul(4).saturating_add(registers.agprs),
            (true, 0) => registers.vgprs,
            (false, agprs) => registers.vgprs.max(agprs),
        }
    }
}

impl Descriptor {
    /// Reads the descriptor at an offset.
    ///
    /// # Errors
    /// It goes beyond the data.
    pub fn read(data: &[u8], offset: u64) -> Result<Self, FormatError> {
        const WHAT: &str = "the kernel descriptor";
        let bytes = slice(data, offset, SIZE, WHAT)?;
        let number = |at: u64| u32_at(bytes, at, WHAT).map_err(|error| error.shifted(offset));
        Ok(Descriptor {
            group_segment: number(GROUP_SEGMENT)?,
            private_segment: number(PRIVATE_SEGMENT)?,
            rsrc1: number(RSRC1)?,
            rsrc3: number(RSRC3)?,
            properties: u16_at(bytes, PROPERTIES, WHAT)?,
        })
    }

    /// Whether the kernel runs with 32 lanes.
    pub fn is_wave32(&self) -> bool {
        self.properties & WAVE32 != 0
    }

    /// The same descriptor for these registers.
    #[must_use]
    pub fn with_registers(self, registers: Registers, file: RegisterFile) -> Self {
        let units = |count: u32, unit: u32| count.max(1).div_ceil(unit) - 1;
        let vgprs = units(file.total_vgprs(registers), file.vgpr_units[usize::from(self.is_wave32())]);
        let sgprs = if file.counts_sgprs { units(registers.sgprs, 8) } else { 0 };
        let rsrc1 = self.rsrc1 & !(VGPRS | SGPRS << SGPRS_SHIFT);
        let rsrc1 = rsrc1 | (vgprs & VGPRS) | (sgprs & SGPRS) << SGPRS_SHIFT;
        let rsrc3 = match file.unified {
            true => self.rsrc3 & !ACCUM_OFFSET | units(registers.vgprs, 4) & ACCUM_OFFSET,
            false => self.rsrc3,
        };
        Descriptor { rsrc1, rsrc3, ..self }
    }

    /// The words that depend on registers, with their offsets.
    pub(super) fn words(&self) -> [(u64, u32); 2] {
        [(RSRC1, self.rsrc1), (RSRC3, self.rsrc3)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Descriptor = Descriptor { group_segment: 0, private_segment: 0, rsrc1: 0, rsrc3: 0, properties: 0 };

    fn fields(processor: &str, properties: u16, vgprs: u32, agprs: u32, sgprs: u32) -> (u32, u32, u32) {
        let file = RegisterFile::of(processor).unwrap();
        let Descriptor { rsrc1, rsrc3, .. } =
            Descriptor { properties, ..NONE }.with_registers(Registers { vgprs, agprs, sgprs }, file);
        (rsrc1 & VGPRS, rsrc1 >> SGPRS_SHIFT & SGPRS, rsrc3 & ACCUM_OFFSET)
    }

    #[test]
    fn registers_are_counted_as_the_hardware_allocates_them() {
        // Seen in objects of LLVM 22.
        assert_eq!(fields("gfx90a", 0, 41, 0, 42), (5, 5, 10));
        assert_eq!(fields("gfx90a", 0, 85, 0, 42), (10, 5, 21));
        assert_eq!(fields("gfx1100", WAVE32, 85, 0, 38), (10, 0, 0));
        assert_eq!(fields("gfx906", 0, 1, 0, 1), (0, 0, 0));
        // Accumulation registers follow at a multiple of four.
        assert_eq!(fields("gfx942", 0, 5, 3, 1), (1, 0, 1));
        assert_eq!(fields("gfx908", 0, 5, 9, 1), (2, 0, 0));
    }

    #[test]
    fn unknown_rules_are_none() {
        for processor in ["gfx1250", "gfx1310", "sm_90", ""] {
            assert_eq!(RegisterFile::of(processor), None, "{processor}");
        }
        assert!(RegisterFile::of("gfx10-3-generic").is_some() && RegisterFile::of("gfx9-generic").is_some());
    }
}
