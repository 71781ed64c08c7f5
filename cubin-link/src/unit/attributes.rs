//! The records of `.nv.info` and `.nv.compat`, and which attributes are known.
//!
//! A record is a byte with the form of its value, a byte with the attribute, and the value: two bytes, or their number and as many
//! bytes. Attributes have the names that cuobjdump prints.

use crate::bytes::{u16_at, u32_at};

/// One record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    pub(crate) attribute: u8,
    /// All of its bytes.
    pub(crate) whole: &'a [u8],
    pub(crate) value: Value<'a>,
}

/// The value of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    /// Two bytes in the record itself.
    Short(u16),
    Bytes(&'a [u8]),
}

impl<'a> Record<'a> {
    /// The number of 4 bytes at `at` of its value.
    pub(crate) fn word(&self, at: usize) -> Option<u32> {
        match self.value {
            Value::Short(_) => None,
            Value::Bytes(bytes) => u32_at(bytes, at),
        }
    }

    /// The bytes of its value; none if it is short.
    pub(crate) fn bytes(&self) -> &'a [u8] {
        match self.value {
            Value::Short(_) => &[],
            Value::Bytes(bytes) => bytes,
        }
    }
}

/// What this linker has to know of an attribute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Attribute {
    /// `PARAM_CBANK`: the value begins with the symbol of a section of constants.
    Parameters,
    /// `EXTERNS`: the undefined functions that a function calls, as symbols.
    Externs,
    /// `NUM_BARRIERS`.
    Barriers,
    /// `CRS_STACK_SIZE`.
    CallStack,
    /// Numbers, and offsets of instructions in the function's code: kept as they are.
    Numbers,
}

impl Attribute {
    pub(crate) const EXTERNS: u8 = 0x0f;
    pub(crate) const BARRIERS: u8 = 0x4c;
    pub(crate) const CALL_STACK: u8 = 0x1e;
    /// `MAXREG_COUNT`: the number of registers that a kernel may have with all that it runs; 255 if it has no limit of its own.
    pub(crate) const MOST_REGISTERS: u8 = 0x1b;
    /// Of a cubin: `FRAME_SIZE`, `MIN_STACK_SIZE`, `MAX_STACK_SIZE`, `REGCOUNT`; each is {symbol, number}.
    pub(crate) const FRAME: u8 = 0x11;
    pub(crate) const MIN_STACK: u8 = 0x12;
    pub(crate) const MAX_STACK: u8 = 0x23;
    pub(crate) const REGISTERS: u8 = 0x2f;
    /// Of a cubin without kernels; no name is printed.
    pub(crate) const OF_UNIT: u8 = 0x5f;

    /// An attribute of a function; `None` if it is not known how it is linked.
    pub(crate) fn of_function(attribute: u8) -> Option<Self> {
        Some(match attribute {
            0x0a => Attribute::Parameters,
            Self::EXTERNS => Attribute::Externs,
            Self::BARRIERS => Attribute::Barriers,
            Self::CALL_STACK => Attribute::CallStack,
            0x04 // CTAIDZ_USED
            | 0x05 // MAX_THREADS
            | 0x10 // REQNTID
            | 0x17 // KPARAM_INFO
            | 0x19 // CBANK_PARAM_SIZE
            | Self::MOST_REGISTERS
            | 0x1c // EXIT_INSTR_OFFSETS
            | 0x1d // S2RCTAID_INSTR_OFFSETS
            | 0x27 // ATOM_SYS_INSTR_OFFSETS
            | 0x28 // COOP_GROUP_INSTR_OFFSETS
            | 0x29 // COOP_GROUP_MASK_REGIDS
            | 0x31 // INT_WARP_WIDE_INSTR_OFFSETS
            | 0x34 // INDIRECT_BRANCH_TARGETS
            | 0x36 // SW_WAR
            | 0x37 // CUDA_API_VERSION
            | 0x39 // MBARRIER_INSTR_OFFSETS
            | 0x3d // CTA_PER_CLUSTER
            | 0x3e // EXPLICIT_CLUSTER
            | 0x44 // UNUSED_LOAD_BYTE_OFFSET
            | 0x50 // SPARSE_MMA_MASK
            | 0x55 // ANNOTATIONS: of instructions, by their offset
            | 0x5f // no name is printed
            => Attribute::Numbers,
            _ => return None,
        })
    }
}

/// All records of a section; `None` if a part of one is missing.
pub(crate) fn records(bytes: &[u8]) -> Option<Vec<Record<'_>>> {
    /// The form of a value with its size.
    const SIZED: u8 = 4;
    let mut all = Vec::new();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (form, attribute, short) = (*rest.first()?, *rest.get(1)?, u16_at(rest, 2)?);
        let size = if form == SIZED { usize::from(short) } else { 0 };
        let whole = rest.get(..4 + size)?;
        let value = match form {
            1..=3 => Value::Short(short),
            SIZED => Value::Bytes(&whole[4..]),
            _ => return None,
        };
        all.push(Record { attribute, whole, value });
        rest = &rest[4 + size..];
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_whole() {
        let bytes = [2, 0x4c, 1, 0, 4, 0x2f, 8, 0, 1, 0, 0, 0, 24, 0, 0, 0];
        let all = records(&bytes).expect("two records");
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].attribute, all[0].value), (0x4c, Value::Short(1)));
        assert_eq!((all[1].word(0), all[1].word(4), all[1].word(8)), (Some(1), Some(24), None));
        for end in [1, 3, 5, 8, 15] {
            assert_eq!(records(&bytes[..end]), None, "{end}");
        }
        assert_eq!(records(&[9, 1, 0, 0]), None);
    }
}
