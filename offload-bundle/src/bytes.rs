//! Checked reads of little-endian numbers, ranges and strings out of untrusted bytes.

use crate::error::{FormatError, FormatErrorKind};

/// `data[offset..offset + len]`, or an error that names `what`.
pub(crate) fn slice<'a>(data: &'a [u8], offset: u64, len: u64, what: &str) -> Result<&'a [u8], FormatError> {
    let range = offset.checked_add(len).and_then(|end| Some(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
    range.and_then(|range| data.get(range)).ok_or_else(|| FormatError::truncated(offset, what))
}

/// An array of `N` bytes at `offset`.
fn array<const N: usize>(data: &[u8], offset: u64, what: &str) -> Result<[u8; N], FormatError> {
    let bytes = slice(data, offset, N as u64, what)?;
    bytes.try_into().map_err(|_| FormatError::truncated(offset, what))
}

/// The little-endian number of 2 bytes at `offset`.
pub(crate) fn u16_at(data: &[u8], offset: u64, what: &str) -> Result<u16, FormatError> {
    array(data, offset, what).map(u16::from_le_bytes)
}

/// The little-endian number of 4 bytes at `offset`.
pub(crate) fn u32_at(data: &[u8], offset: u64, what: &str) -> Result<u32, FormatError> {
    array(data, offset, what).map(u32::from_le_bytes)
}

/// The little-endian number of 8 bytes at `offset`.
pub(crate) fn u64_at(data: &[u8], offset: u64, what: &str) -> Result<u64, FormatError> {
    array(data, offset, what).map(u64::from_le_bytes)
}

/// The NUL-terminated UTF-8 string at `offset`, without its NUL.
pub(crate) fn c_str<'a>(data: &'a [u8], offset: u64, what: &str) -> Result<&'a str, FormatError> {
    let tail = usize::try_from(offset)
        .ok()
        .and_then(|start| data.get(start..))
        .ok_or_else(|| FormatError::truncated(offset, what))?;
    let end = memchr::memchr(0, tail)
        .ok_or_else(|| FormatError::new(offset, FormatErrorKind::Unterminated { what: what.to_owned() }))?;
    utf8(&tail[..end], offset, what)
}

/// `bytes`, found at `offset`, as text.
pub(crate) fn utf8<'a>(bytes: &'a [u8], offset: u64, what: &str) -> Result<&'a str, FormatError> {
    std::str::from_utf8(bytes).map_err(|_| FormatError::new(offset, FormatErrorKind::NotUtf8 { what: what.to_owned() }))
}

/// Zero bytes that bring `len` up to a multiple of 8.
pub(crate) fn padding_to_8(len: usize) -> &'static [u8] {
    const ZEROS: [u8; 8] = [0; 8];
    &ZEROS[..len.wrapping_neg() & 7]
}

/// Appends zeros until the length is a multiple of 8.
pub(crate) fn pad_to_8(out: &mut Vec<u8>) {
    out.extend_from_slice(padding_to_8(out.len()));
}

/// The number of zero bytes at the start of `data` from `offset` on.
pub(crate) fn zeros_from(data: &[u8], offset: u64) -> u64 {
    let tail = usize::try_from(offset).ok().and_then(|start| data.get(start..)).unwrap_or_default();
    tail.iter().take_while(|&&byte| byte == 0).count() as u64
}

/// Writes `bytes` at an offset that the caller has checked.
pub(crate) fn put(data: &mut [u8], at: u64, bytes: &[u8]) {
    let start = usize::try_from(at).unwrap_or(usize::MAX);
    if let Some(place) = start.checked_add(bytes.len()).and_then(|end| data.get_mut(start..end)) {
        place.copy_from_slice(bytes);
    }
}
