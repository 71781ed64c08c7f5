//! What a unit says of its own functions in `.nv.info`.

use crate::error::LinkError;
use crate::unit::{Attribute, Kind, Unit, records};

/// A record of `.nv.info` that the cubin may have, too. A function is a symbol of the unit.
#[derive(Debug, Clone, Copy)]
pub(crate) enum OwnRecord {
    Registers(usize),
    Frame(usize),
    /// A record about the whole unit, with its bytes.
    Unit([u8; 4]),
}

/// Registers and frames of the functions of a unit, by number of the symbol.
#[derive(Debug, Default)]
pub(crate) struct Own {
    /// `REGCOUNT`.
    pub(crate) registers: Vec<Option<u32>>,
    /// `FRAME_SIZE`, in bytes.
    pub(crate) frame: Vec<Option<u32>>,
    /// All records that are linked, in order.
    pub(crate) records: Vec<OwnRecord>,
}

impl Own {
    /// Reads `.nv.info`.
    ///
    /// # Errors
    /// A damaged record, or an attribute that is not known.
    pub(crate) fn read(unit: &Unit<'_>) -> Result<Self, LinkError> {
        let count = unit.symbols.len();
        let mut own = Own { registers: vec![None; count], frame: vec![None; count], records: Vec::new() };
        for section in unit.sections.iter().filter(|section| section.kind == Kind::Attributes) {
            let damaged = || LinkError::damaged(unit.file, section.offset, "damaged record in .nv.info");
            for record in records(section.data).ok_or_else(damaged)? {
                if record.attribute == Attribute::OF_UNIT
                    && let Ok(bytes) = record.whole.try_into()
                {
                    own.records.push(OwnRecord::Unit(bytes));
                    continue;
                }
                let (Some(symbol), Some(number)) = (record.word(0), record.word(4)) else {
                    return Err(unknown(unit, section.offset, record.attribute));
                };
                let symbol = symbol as usize;
                if !unit.symbols.get(symbol).is_some_and(|symbol| symbol.kind.is_code() && symbol.section != 0) {
                    return Err(LinkError::damaged(unit.file, section.offset, "attribute of no function in .nv.info"));
                }
                match record.attribute {
                    Attribute::REGISTERS => {
                        own.registers[symbol] = Some(number);
                        own.records.push(OwnRecord::Registers(symbol));
                    }
                    Attribute::FRAME => {
                        own.frame[symbol] = Some(number);
                        own.records.push(OwnRecord::Frame(symbol));
                    }
                    // The linker computes what the whole program takes.
                    Attribute::MAX_STACK if number == 0 => {}
                    _ => return Err(unknown(unit, section.offset, record.attribute)),
                }
            }
        }
        Ok(own)
    }
}

fn unknown(unit: &Unit<'_>, offset: u64, attribute: u8) -> LinkError {
    LinkError::unsupported(unit.file, offset, format!("attribute {attribute:#x} in .nv.info"))
}
