//! Relabels a cubin for a later GPU of its generation.

use super::{Cubin, NOTE_CUINFO, context, parse, section_headers};
use crate::arch::GpuArch;
use crate::bytes::put;
use crate::bytes::{slice, u32_at};
use crate::error::{EditError, FormatError};

/// `e_flags` in the file header.
const E_FLAGS: u64 = 48;

/// Copies a 64-bit cubin and records `target` as its real and virtual architecture. The code does not change: the caller knows that
/// `target` runs it.
///
/// Device linkers compare these numbers, and give a linked cubin the lowest virtual architecture of its parts.
///
/// # Errors
/// Data that is not a cubin, a damaged cubin, or one of a layout without these numbers.
pub fn retargeted(data: &[u8], target: GpuArch) -> Result<Vec<u8>, FormatError> {
    let cubin = parse(data)?;
    let number =
        u8::try_from(target.number).map_err(|_| FormatError::new(E_FLAGS, EditError::UnrecordableTarget(target)))?;
    if !cubin.is_64_bit() {
        return Err(FormatError::new(4, EditError::Cubin32));
    }
    let mut copy = data.to_vec();
    if cubin.is_new_abi() {
        put(&mut copy, E_FLAGS + 1, &[number]);
        put(&mut copy, virtual_architecture(&cubin)?, &u16::from(number).to_le_bytes());
    } else {
        put(&mut copy, E_FLAGS, &[number]);
        put(&mut copy, E_FLAGS + 2, &[number]);
    }
    Ok(copy)
}

/// Where the new layout keeps the virtual architecture: in the note {name size, description size, type, name, u16 2, u16 sm}.
fn virtual_architecture(cubin: &Cubin<'_>) -> Result<u64, FormatError> {
    let headers = section_headers(cubin.data, &cubin.header, context(&cubin.header)?)?;
    let place = cubin.sections.iter().position(|section| section.name == NOTE_CUINFO);
    let missing = || FormatError::damaged(0, format!("cubin without {NOTE_CUINFO}"));
    let note = place.and_then(|place| headers.get(place)).ok_or_else(missing)?;
    let bytes = slice(cubin.data, note.sh_offset, note.sh_size, "the cubin's note of its virtual architecture")?;
    let name_size = u32_at(bytes, 0, "name size").map_err(|error| error.shifted(note.sh_offset))?;
    let at = 12 + u64::from(name_size).next_multiple_of(4) + 2;
    slice(bytes, at, 2, "the cubin's virtual architecture").map_err(|error| error.shifted(note.sh_offset))?;
    Ok(note.sh_offset + at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn only_the_recorded_numbers_change() {
        let data = samples::cubin(GpuArch::plain(86), true);
        let other = retargeted(&data, GpuArch::plain(87)).expect("a sound cubin");
        assert_eq!(parse(&other).expect("a sound cubin").arch(), GpuArch::plain(87));
        let changed: Vec<_> = data.iter().zip(&other).filter(|(one, other)| one != other).collect();
        assert_eq!(changed, [(&86, &87), (&86, &87)]);
        assert_eq!(retargeted(&other, GpuArch::plain(86)).as_ref(), Ok(&data));
    }

    #[test]
    fn the_old_layout_has_both_numbers_in_its_flags() {
        let mut data = samples::cubin(GpuArch::plain(86), true);
        (data[7], data[8]) = (0x33, 7);
        data[48..52].copy_from_slice(&0x0056_0556_u32.to_le_bytes());
        let other = retargeted(&data, GpuArch::plain(87)).expect("a sound cubin");
        assert_eq!(other[48..52], 0x0057_0557_u32.to_le_bytes());
    }

    #[test]
    fn damaged_cubins_are_refused() {
        let data = samples::cubin(GpuArch::plain(86), true);
        let target = GpuArch::plain(87);
        for length in 0..data.len() {
            assert!(retargeted(&data[..length], target).is_err(), "{length}");
        }
        let name = b".note.nv.cuinfo";
        let mut nameless = data.clone();
        let at = nameless.windows(name.len()).position(|window| window == name).expect("the note's name");
        nameless[at + 1] = b'x';
        assert!(retargeted(&nameless, target).is_err());
        assert!(retargeted(&data, GpuArch::plain(300)).is_err());
    }
}
