//! Rewrites archives with other contents of their members, and corrects the index of symbols.

use crate::bytes::{slice, u32_at};
use crate::error::{EditError, FormatError};

const MAGIC_SIZE: u64 = 8;
const HEADER_SIZE: u64 = 60;

/// A member as stored in the file; tables count as members here.
struct Raw<'a> {
    /// Where its header starts.
    offset: u64,
    header: &'a [u8],
    /// Preceded by its BSD name, if it has one.
    data: &'a [u8],
}

impl Raw<'_> {
    fn name(&self) -> &[u8] {
        let field = self.header.get(..16).unwrap_or_default();
        let name = match field.strip_prefix(b"#1/") {
            Some(_) => self.data.split(|byte| *byte == 0).next().unwrap_or_default(),
            None => field,
        };
        name.trim_ascii_end()
    }

    /// The BSD name, if there is one, and the contents.
    fn split(&self) -> Result<(&[u8], &[u8]), FormatError> {
        let damaged = || FormatError::damaged(self.offset, "an archive member whose name goes beyond its end");
        self.data.split_at_checked(self.bsd_name_size().ok_or_else(damaged)?).ok_or_else(damaged)
    }

    /// In bytes; `None` if the header does not tell.
    fn bsd_name_size(&self) -> Option<usize> {
        match self.header.get(..16)?.strip_prefix(b"#1/") {
            Some(digits) => std::str::from_utf8(digits).ok()?.trim_end().parse().ok(),
            None => Some(0),
        }
    }
}

/// Rewrites an archive. `edit` gets the contents of each member, tables included, with their offset in the file, and returns what takes their
/// place, if anything does.
///
/// # Errors
/// Those of `edit`; a damaged archive, or one whose index cannot be corrected.
pub(crate) fn rewrite<E: From<FormatError>>(
    archive: &[u8],
    mut edit: impl FnMut(u64, &[u8]) -> Result<Option<Vec<u8>>, E>,
) -> Result<Vec<u8>, E> {
    let mut out = slice(archive, 0, MAGIC_SIZE, "the magic")?.to_vec();
    let raws = raws(archive)?;
    // Old and new offsets of the headers.
    let mut moves = Vec::with_capacity(raws.len());
    let mut indices = Vec::new();
    for raw in &raws {
        moves.push((raw.offset, out.len() as u64));
        if is_index(raw.name()) {
            indices.push((out.len(), raw));
        }
        let (name, content) = raw.split()?;
        let at = raw.offset.saturating_add(HEADER_SIZE).saturating_add(name.len() as u64);
        let edited = edit(at, content)?;
        append(&mut out, raw, &[name, edited.as_deref().unwrap_or(content)])?;
    }
    for (at, raw) in indices {
        rewrite_index(&mut out, at, raw, &moves)?;
    }
    Ok(out)
}

fn raws(data: &[u8]) -> Result<Vec<Raw<'_>>, FormatError> {
    let mut raws = Vec::new();
    let mut offset = MAGIC_SIZE;
    while offset < data.len() as u64 {
        let header = slice(data, offset, HEADER_SIZE, "the header of an archive member")?;
        let size = header.get(48..58).and_then(|field| std::str::from_utf8(field).ok()?.trim().parse().ok());
        let size: u64 = size.ok_or_else(|| FormatError::damaged(offset + 48, "an archive member without a size"))?;
        let contents = slice(data, offset + HEADER_SIZE, size, "an archive member")?;
        raws.push(Raw { offset, header, data: contents });
        offset = (offset + HEADER_SIZE + size).next_multiple_of(2);
    }
    Ok(raws)
}

fn append(out: &mut Vec<u8>, raw: &Raw<'_>, parts: &[&[u8]]) -> Result<(), FormatError> {
    let size = format!("{:<10}", parts.iter().map(|part| part.len()).sum::<usize>());
    let mut header = raw.header.to_vec();
    match header.get_mut(48..58) {
        Some(field) if size.len() == 10 => field.copy_from_slice(size.as_bytes()),
        _ => return Err(FormatError::damaged(raw.offset, "archive member too large for its header")),
    }
    out.extend(header);
    parts.iter().for_each(|part| out.extend_from_slice(part));
    if out.len() % 2 == 1 {
        out.push(b'\n');
    }
    Ok(())
}

fn is_index(name: &[u8]) -> bool {
    matches!(name, b"/" | b"/SYM64/") || name.starts_with(b"__.SYMDEF")
}

/// Corrects the offsets of members in the index that starts at `at` of `out`.
fn rewrite_index(out: &mut [u8], at: usize, raw: &Raw<'_>, moves: &[(u64, u64)]) -> Result<(), FormatError> {
    let moved = |old: u64| {
        let found =
            moves.binary_search_by_key(&old, |(from, _)| *from).ok().and_then(|at| moves.get(at)).map(|(_, to)| *to);
        found.ok_or_else(|| {
            FormatError::damaged(raw.offset, "the archive's index names a member that is not there; run ranlib")
        })
    };
    let body = at + HEADER_SIZE as usize;
    let Some(index) = out.get_mut(body..body + raw.data.len()) else { return Ok(()) };
    let small = |number: u64| u32::try_from(number).map_err(|_| FormatError::new(raw.offset, EditError::IndexOverflow));
    match raw.name() {
        b"/" => {
            for field in entries(index, 4, 4, raw.offset)? {
                let old = u32::from_be_bytes(field.try_into().unwrap_or_default());
                field.copy_from_slice(&small(moved(old.into())?)?.to_be_bytes());
            }
        }
        b"/SYM64/" => {
            for field in entries(index, 8, 8, raw.offset)? {
                let old = u64::from_be_bytes(field.try_into().unwrap_or_default());
                field.copy_from_slice(&moved(old)?.to_be_bytes());
            }
        }
        name if name == b"__.SYMDEF" || name == b"__.SYMDEF SORTED" => {
            // A name, then the size in bytes of the pairs {u32 name, u32 member}, little endian.
            let skipped = raw.split()?.0.len();
            let size = u32_at(index, skipped as u64, "the archive's index").map_err(|e| e.shifted(raw.offset))?;
            let pairs = index.get_mut(skipped + 4..).unwrap_or_default();
            for pair in pairs.chunks_exact_mut(8).take(size as usize / 8) {
                let (_, field) = pair.split_at_mut(4);
                let old = u32::from_le_bytes((&*field).try_into().unwrap_or_default());
                field.copy_from_slice(&small(moved(old.into())?)?.to_le_bytes());
            }
        }
        _ => {
            return Err(FormatError::new(raw.offset, EditError::UnknownIndex));
        }
    }
    Ok(())
}

/// The big-endian numbers of `width` bytes that follow their count of `count_width` bytes.
fn entries(
    index: &mut [u8],
    count_width: usize,
    width: usize,
    offset: u64,
) -> Result<impl Iterator<Item = &mut [u8]>, FormatError> {
    if index.len() < count_width {
        return Err(FormatError::damaged(offset, "damaged index of the archive"));
    }
    let (count, fields) = index.split_at_mut(count_width);
    let count = count.iter().fold(0usize, |sum, byte| sum.wrapping_shl(8) | usize::from(*byte));
    if count > fields.len() / width {
        return Err(FormatError::damaged(offset, "damaged index of the archive"));
    }
    Ok(fields.chunks_exact_mut(width).take(count))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    fn rewritten(archive: &[u8]) -> Result<Vec<u8>, FormatError> {
        rewrite(archive, |_, content| Ok((content == b"old").then(|| b"new, and longer".to_vec())))
    }

    #[test]
    fn members_move() {
        let archive = samples::archive(&[("a.o", b"old"), ("b.o", b"even")]);
        assert_eq!(rewritten(&archive), Ok(samples::archive(&[("a.o", b"new, and longer"), ("b.o", b"even")])));
    }

    #[test]
    fn a_name_of_unknown_length_is_an_error() {
        let archive = samples::archive(&[("a.o", b"old")]);
        let place = archive.windows(4).position(|bytes| bytes == b"/0  ").expect("the member's name");
        for name in [b"#1/x", b"#1/9"] {
            let mut damaged = archive.clone();
            damaged[place..place + 4].copy_from_slice(name);
            assert!(rewritten(&damaged).unwrap_err().to_string().contains("name goes beyond its end"));
        }
    }
}
