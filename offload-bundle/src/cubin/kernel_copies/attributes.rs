//! The attributes of kernels (`.nv.info`).

use super::super::attribute_names::is_number;
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
            _ if is_number(attribute) => 0,
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
