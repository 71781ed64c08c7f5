//! The records of `.nv.info` and `.nv.compat`: {u8 format, u8 attribute, u16 value}; with format 4 the value is the size of bytes behind them.

/// The format of a record with bytes behind it. Those before it have a value of no, one or two bytes in place of the size.
const WITH_BYTES: u8 = 4;

/// One record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Record<'r> {
    pub attribute: u8,
    pub value: Value<'r>,
    /// All of its bytes.
    pub whole: &'r [u8],
}

/// The value of a record.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'r> {
    Number(u16),
    Bytes(&'r [u8]),
}

/// Where a section has something that is no record: a format that no attribute has, or a size beyond the end.
pub(super) fn no_record(section: &[u8]) -> Option<usize> {
    let mut all = records(section);
    let is_other = |record: &Record<'_>| !(1..=WITH_BYTES).contains(&record.whole[0]);
    match all.find(is_other) {
        Some(record) => Some(section.len() - all.rest.len() - record.whole.len()),
        None => (!all.rest.is_empty()).then(|| section.len() - all.rest.len()),
    }
}

/// Walks over the records of a section.
pub(super) struct Records<'r> {
    /// What is left; bytes stay if the last record goes beyond the end.
    pub rest: &'r [u8],
}

pub(super) fn records(section: &[u8]) -> Records<'_> {
    Records { rest: section }
}

impl<'r> Iterator for Records<'r> {
    type Item = Record<'r>;

    fn next(&mut self) -> Option<Record<'r>> {
        let (&[format, attribute, low, high], tail) = self.rest.split_first_chunk::<4>()?;
        let number = u16::from_le_bytes([low, high]);
        let value = match format {
            WITH_BYTES => Value::Bytes(tail.get(..number.into())?),
            _ => Value::Number(number),
        };
        let size = if let Value::Bytes(bytes) = value { 4 + bytes.len() } else { 4 };
        let (whole, rest) = self.rest.split_at(size);
        self.rest = rest;
        Some(Record { attribute, value, whole })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_record_has_a_place() {
        let sound = [3, 0x1b, 0xff, 0, 4, 0x2f, 2, 0, 7, 7, 1, 0x2a, 0, 0];
        let with = |at: usize, byte: u8| {
            let mut section = sound;
            section[at] = byte;
            no_record(&section)
        };
        assert_eq!([no_record(&[]), no_record(&sound), with(0, 2)], [None; 3]);
        assert_eq!([with(0, 0), with(0, 5), with(10, 0x21)], [Some(0), Some(0), Some(10)]);
        // A size beyond the end, and a section that ends in a record.
        assert_eq!([with(6, 9), no_record(&sound[..12])], [Some(4), Some(10)]);
    }
}
