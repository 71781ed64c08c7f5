//! `.nv.info` of the cubin and of each function.

use crate::error::LinkError;
use crate::program::OwnRecord;
use crate::unit::{Attribute, Kind, Record, SymbolKind, Value, records};

use super::plan::{Image, Part};
use super::symbols::SymbolTable;

/// The forms of values.
const BYTE: u8 = 2;
const SIZED: u8 = 4;

/// `.nv.info`: frame and registers of each function, the last one first, and the stack that each kernel takes.
pub(super) fn of_cubin(image: &Image<'_, '_>, symbols: &SymbolTable<'_>) -> Vec<u8> {
    let program = image.program;
    let mut bytes = Vec::new();
    let row = |bytes: &mut Vec<u8>, attribute: u8, function: usize, number: u32| {
        bytes.extend([SIZED, attribute, 8, 0]);
        bytes.extend([symbols.of(function), number].map(u32::to_le_bytes).concat());
    };
    for (unit, own) in program.own.iter().enumerate().rev() {
        let function = |symbol: usize| {
            let function = program.numbers[unit][symbol].filter(|_| program.prevails(unit, symbol));
            function.filter(|function| image.has_code(*function))
        };
        for record in own.records.iter().rev() {
            match *record {
                OwnRecord::Unit(record) => bytes.extend(record),
                OwnRecord::Frame(symbol) => {
                    if let (Some(function), Some(frame)) = (function(symbol), own.frame[symbol]) {
                        row(&mut bytes, Attribute::FRAME, function, frame);
                    }
                }
                OwnRecord::Registers(symbol) => {
                    let Some(function) = function(symbol) else { continue };
                    let total = image.totals[function].as_ref().map(|totals| totals.registers);
                    if let Some(registers) = total.or(own.registers[symbol]) {
                        row(&mut bytes, Attribute::REGISTERS, function, registers);
                    }
                }
            }
        }
    }
    let mut kernels: Vec<usize> = (0..program.symbols.len()).filter(|number| image.totals[*number].is_some()).collect();
    kernels.sort_by_key(|kernel| symbols.of(*kernel));
    for kernel in kernels {
        let stack = image.totals[kernel].as_ref().and_then(|totals| totals.stack);
        row(&mut bytes, Attribute::MIN_STACK, kernel, stack.unwrap_or(u32::MAX));
    }
    bytes
}

/// `.nv.info.NAME`: the records of the unit, the last one first, with what the whole program makes of them.
///
/// # Errors
/// A damaged record, or an attribute that is not known.
pub(super) fn of_function(
    image: &Image<'_, '_>,
    symbols: &SymbolTable<'_>,
    function: usize,
) -> Result<Vec<u8>, LinkError> {
    let Some(place) = image.program.symbols[function].place else { return Ok(Vec::new()) };
    let unit = &image.program.units[place.unit];
    let code = image.program.symbol(place).section;
    let section = unit.sections.iter().find(|section| section.kind == Kind::FunctionAttributes(code));
    let mut writer = Records::new(image, symbols, function);
    if let Some(section) = section {
        let damaged = || LinkError::damaged(unit.file, section.offset, format!("damaged record in {}", section.name));
        for record in records(section.data).ok_or_else(damaged)?.into_iter().rev() {
            let unknown =
                || LinkError::unsupported(unit.file, section.offset, format!("attribute {:#x}", record.attribute));
            let known = Attribute::of_function(record.attribute).ok_or_else(unknown)?;
            writer.record(place.unit, &record, known).ok_or_else(unknown)?;
        }
    }
    Ok(writer.finish())
}

struct Records<'r, 'p, 'a> {
    image: &'r Image<'p, 'a>,
    symbols: &'r SymbolTable<'a>,
    /// Functions of the system that are called.
    externs: Vec<usize>,
    /// Of a kernel: number of barriers.
    barriers: u16,
    /// Of a kernel whose stack is not limited.
    endless: bool,
    bytes: Vec<u8>,
}

impl<'r, 'p, 'a> Records<'r, 'p, 'a> {
    fn new(image: &'r Image<'p, 'a>, symbols: &'r SymbolTable<'a>, function: usize) -> Self {
        let totals = image.totals[function].as_ref();
        let callees = image.calls.callees[function].iter().copied();
        let direct = callees.filter(|callee| image.program.symbols[*callee].place.is_none()).collect();
        Records {
            image,
            symbols,
            externs: totals.map_or(direct, |totals| totals.externs.clone()),
            barriers: totals.map_or(0, |totals| totals.barriers),
            endless: totals.is_some_and(|totals| totals.stack.is_none()),
            bytes: Vec::new(),
        }
    }

    fn record(&mut self, unit: usize, record: &Record<'_>, known: Attribute) -> Option<()> {
        match (known, record.value) {
            (Attribute::Numbers, _) => self.bytes.extend_from_slice(record.whole),
            (Attribute::CallStack, Value::Bytes(_)) if self.endless => self.write_endless(),
            (Attribute::CallStack, Value::Bytes(_)) => self.bytes.extend_from_slice(record.whole),
            (Attribute::Parameters, Value::Bytes(value)) => {
                let symbol = self.constants(unit, record.word(0)?)?;
                self.bytes.extend_from_slice(&record.whole[..4]);
                self.bytes.extend(symbol.to_le_bytes());
                self.bytes.extend_from_slice(value.get(4..)?);
            }
            (Attribute::Externs, Value::Bytes(_)) => self.write_externs(),
            (Attribute::Barriers, Value::Short(count)) => {
                let count = count.max(std::mem::take(&mut self.barriers));
                self.bytes.extend([BYTE, Attribute::BARRIERS]);
                self.bytes.extend(count.to_le_bytes());
            }
            _ => return None,
        }
        Some(())
    }

    /// The symbol of a section of constants, for its symbol in the unit.
    fn constants(&self, unit: usize, symbol: u32) -> Option<u32> {
        let symbol = self.image.program.units[unit].symbols.get(symbol as usize)?;
        if symbol.kind != SymbolKind::Section {
            return None;
        }
        self.symbols.of_section(Part::FunctionConstants(unit, symbol.section))
    }

    fn write_externs(&mut self) {
        let externs = std::mem::take(&mut self.externs);
        if externs.is_empty() {
            return;
        }
        let mut numbers: Vec<u32> = externs.iter().map(|function| self.symbols.of(*function)).collect();
        numbers.sort_unstable();
        self.bytes.extend([SIZED, Attribute::EXTERNS]);
        self.bytes.extend((numbers.len() as u16 * 4).to_le_bytes());
        self.bytes.extend(numbers.into_iter().flat_map(u32::to_le_bytes));
    }

    /// What the function itself has no record of.
    fn finish(mut self) -> Vec<u8> {
        if self.barriers != 0 {
            self.bytes.extend([BYTE, Attribute::BARRIERS]);
            self.bytes.extend(self.barriers.to_le_bytes());
        }
        self.write_externs();
        if self.endless {
            self.write_endless();
        }
        self.bytes
    }

    fn write_endless(&mut self) {
        self.endless = false;
        self.bytes.extend([SIZED, Attribute::CALL_STACK, 4, 0]);
        self.bytes.extend(u32::MAX.to_le_bytes());
    }
}
