//! The attributes of kernels (`.nv.info`).
//!
//! Names of attributes are those that cuobjdump prints.

use super::super::records::{Record, Value, records};
use super::{Copied, Renumbered};
use crate::bytes::u32_at;
use crate::error::FormatError;

/// Attributes whose bytes begin with a symbol.
const PARAM_CBANK: u8 = 0x0a;
/// Attributes whose bytes are symbols.
const EXTERNS: u8 = 0x0f;
/// Attributes of the cubin that are about one function, {u32 symbol, u32 value}: frame size, smallest stack, largest stack, registers.
const OF_FUNCTION: [u8; 4] = [0x11, 0x12, 0x23, 0x2f];

/// Attributes of a kernel whose bytes name no symbol: numbers, and offsets of instructions in its code.
const NUMBERS: [u8; 33] = [
    0x04, // CTAIDZ_USED
    0x05, // MAX_THREADS
    0x10, // REQNTID
    0x17, // KPARAM_INFO
    0x18, // SMEM_PARAM_SIZE
    0x1c, // EXIT_INSTR_OFFSETS
    0x1d, // S2RCTAID_INSTR_OFFSETS
    0x1e, // CRS_STACK_SIZE
    0x25, // LD_CACHEMOD_INSTR_OFFSETS
    0x26, // LOAD_CACHE_REQUEST
    0x27, // ATOM_SYS_INSTR_OFFSETS
    0x28, // COOP_GROUP_INSTR_OFFSETS
    0x29, // COOP_GROUP_MASK_REGIDS
    0x2d, // ATOMF16_EMUL_INSTR_OFFSETS
    0x2e, // ATOM16_EMUL_INSTR_REG_MAP
    0x30, // SW2393858_WAR
    0x31, // INT_WARP_WIDE_INSTR_OFFSETS
    0x33, // STATISTICS
    0x34, // INDIRECT_BRANCH_TARGETS
    0x35, // SW2861232_WAR
    0x36, // SW_WAR
    0x37, // CUDA_API_VERSION
    0x39, // MBARRIER_INSTR_OFFSETS
    0x3a, // COROUTINE_RESUME_ID_OFFSETS
    0x3d, // CTA_PER_CLUSTER
    0x3f, // MAX_CLUSTER_RANK
    0x40, // INSTR_REG_MAP
    0x44, // UNUSED_LOAD_BYTE_OFFSET
    0x45, // KPARAM_INFO_V2
    0x46, // SYSCALL_OFFSETS
    0x47, // SW_WAR_MEMBAR_SYS_INSTR_OFFSETS
    0x57, // STACK_CANARY_TRAP_OFFSETS
    0x59, // LOCAL_CTA_ASYNC_STORE_OFFSETS
];

/// All records of a section.
///
/// # Errors
/// A damaged one.
fn sound_records(bytes: &[u8]) -> Result<Vec<Record<'_>>, FormatError> {
    let mut records = records(bytes);
    let all = records.by_ref().collect();
    match records.rest {
        [] => Ok(all),
        _ => Err(FormatError::truncated(0, "an attribute of the cubin")),
    }
}

/// The attributes of a kernel, for a copy of it.
///
/// # Errors
/// A damaged record, or an attribute of which it is not known whether it names a symbol.
pub(super) fn of_kernel(bytes: &[u8], new: &Renumbered) -> Result<Vec<u8>, FormatError> {
    let mut copy = Vec::with_capacity(bytes.len());
    for Record { attribute, whole, value } in sound_records(bytes)? {
        let Value::Bytes(value) = value else {
            copy.extend_from_slice(whole);
            continue;
        };
        let symbols = match attribute {
            PARAM_CBANK => 1,
            EXTERNS => value.len() / 4,
            _ if NUMBERS.contains(&attribute) => 0,
            _ => return Err(unknown(attribute)),
        };
        copy.extend_from_slice(&whole[..4]);
        for place in 0..symbols as u64 {
            copy.extend(new.symbol(u32_at(value, place * 4, "a symbol of an attribute")?).to_le_bytes());
        }
        copy.extend_from_slice(value.get(symbols * 4..).unwrap_or_default());
    }
    Ok(copy)
}

/// The attributes of the cubin that copies add.
///
/// # Errors
/// A damaged record, or an attribute that may be about a copied kernel and is not known.
pub(super) fn of_cubin(bytes: &[u8], copied: &Copied) -> Result<Vec<u8>, FormatError> {
    let mut rows = Vec::new();
    for Record { attribute, whole, value } in sound_records(bytes)? {
        let Value::Bytes(value) = value else { continue };
        let Ok(symbol) = u32_at(value, 0, "") else { continue };
        for copy in copied.of(symbol) {
            if !OF_FUNCTION.contains(&attribute) {
                return Err(unknown(attribute));
            }
            rows.extend_from_slice(&whole[..4]);
            rows.extend(copy.symbol(symbol).to_le_bytes());
            rows.extend_from_slice(&whole[8..]);
        }
    }
    Ok(rows)
}

fn unknown(attribute: u8) -> FormatError {
    FormatError::unsupported(0, format!("attribute {attribute:#x} of a kernel, which cannot be copied"))
}
