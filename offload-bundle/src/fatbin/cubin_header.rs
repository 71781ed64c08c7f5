//! Reads the few fields of a cubin that nvFatbin reads, from arbitrary bytes.

use super::encode::Block;
use crate::bytes::{c_str, slice, u16_at, u32_at, u64_at};

const OSABI_NEW: u8 = 0x41;
const FINALIZABLE: u32 = 0x02;

/// Fields beyond the end of the bytes are 0; nvFatbin reads on there.
pub(super) struct CubinHeader {
    pub(super) is_64_bit: bool,
    pub(super) abi_version: u8,
    /// 90 of sm_90.
    pub(super) number: u32,
    pub(super) finalizable: bool,
}

impl CubinHeader {
    pub(super) fn read(image: &[u8]) -> Self {
        let byte = |at: usize| image.get(at).copied().unwrap_or(0);
        let is_64_bit = byte(4) == 2;
        let flags_at = if is_64_bit { 48 } else { 36 };
        let flags = u32::from_le_bytes([0, 1, 2, 3].map(|index| byte(flags_at + index)));
        let is_new = byte(7) == OSABI_NEW;
        Self {
            is_64_bit,
            abi_version: byte(8),
            number: if is_new { flags >> 8 & 0xff } else { flags & 0xff },
            finalizable: is_new && flags & FINALIZABLE != 0,
        }
    }

    /// A copy of `.nv.compat`, if the driver may finalize the code and the section can be found.
    pub(super) fn compat_block(&self, image: &[u8]) -> Block {
        let found = if self.finalizable && self.is_64_bit { nv_compat(image) } else { None };
        found.map_or(Block::None, |compat| Block::Compat(compat.to_vec()))
    }
}

fn nv_compat(image: &[u8]) -> Option<&[u8]> {
    let what = "the section table";
    let table = u64_at(image, 40, what).ok()?;
    let size = u64::from(u16_at(image, 58, what).ok()?);
    let count = u64::from(u16_at(image, 60, what).ok()?);
    let names_index = u64::from(u16_at(image, 62, what).ok()?);
    let header = |index: u64| slice(image, table.checked_add(index * size)?, 64, what).ok();
    let contents =
        |header: &[u8]| slice(image, u64_at(header, 24, what).ok()?, u64_at(header, 32, what).ok()?, what).ok();
    let names = contents(header(names_index)?)?;
    let is_compat = |header: &&[u8]| {
        let name = u32_at(header, 0, what).map(u64::from);
        name.and_then(|name| c_str(names, name, what)).is_ok_and(|name| name == ".nv.compat")
    };
    contents((0..count).map_while(header).find(is_compat)?)
}
