//! The records of `.nv.info` and `.nv.compat`: {u8 format, u8 attribute, u16 value}; with format 4 the value is the size of bytes behind them.

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
        const WITH_BYTES: u8 = 4;
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
