//! Checked reads and writes of little-endian numbers.

/// The number of 2 bytes at `at`.
pub(crate) fn u16_at(data: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_le_bytes(data.get(at..at.checked_add(2)?)?.try_into().ok()?))
}

/// The number of 4 bytes at `at`.
pub(crate) fn u32_at(data: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(data.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// The number of 8 bytes at `at`.
pub(crate) fn u64_at(data: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(data.get(at..at.checked_add(8)?)?.try_into().ok()?))
}

/// The NUL-terminated UTF-8 string at `at`, without its NUL.
pub(crate) fn c_str(data: &[u8], at: usize) -> Option<&str> {
    let tail = data.get(at..)?;
    let end = tail.iter().position(|byte| *byte == 0)?;
    std::str::from_utf8(&tail[..end]).ok()
}

/// Writes `bytes` at `at`, if they fit in.
pub(crate) fn put(data: &mut [u8], at: usize, bytes: &[u8]) -> Option<()> {
    data.get_mut(at..at.checked_add(bytes.len())?)?.copy_from_slice(bytes);
    Some(())
}

/// `value` rounded up to a multiple of `alignment`, where 0 and 1 align nothing; `None` beyond the range of numbers.
pub(crate) fn aligned(value: u64, alignment: u64) -> Option<u64> {
    value.checked_next_multiple_of(alignment.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_strings_end_inside() {
        assert_eq!(u32_at(&[1, 0, 0, 0], 0), Some(1));
        assert_eq!(u32_at(&[1, 0, 0, 0], 1), None);
        assert_eq!(u64_at(&[0; 8], usize::MAX), None);
        assert_eq!(c_str(b"ab\0c", 1), Some("b"));
        assert_eq!(c_str(b"ab\0c", 3), None);
        assert_eq!(put(&mut [0; 4], 2, &[1, 2, 3]), None);
        assert_eq!((aligned(5, 4), aligned(5, 0), aligned(u64::MAX, 8)), (Some(8), Some(5), None));
    }
}
