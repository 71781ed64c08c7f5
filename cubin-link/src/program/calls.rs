//! Who calls whom: `.nv.callgraph` and `.nv.prototype` of all units.
//!
//! `.nv.callgraph` has rows of two numbers. A row {0, -1} to {0, -4} begins a part:
//!
//! | part | row |
//! | --- | --- |
//! | -1 | {caller, callee} |
//! | -2 | {function whose address is taken, prototype} |
//! | -3 | {caller, prototype of a call through a pointer} |
//! | -4 | {function, function whose address it takes} |
//!
//! Functions are symbols, prototypes offsets in `.strtab`. `.nv.prototype` has rows {function, prototype}.

use super::Program;
use crate::bytes::u32_at;
use crate::error::LinkError;
use crate::unit::{Kind, Section, Unit};

/// The calls of a program, by number of the symbol of the caller.
#[derive(Debug)]
pub(crate) struct Calls<'a> {
    /// What a function calls by name.
    pub(crate) callees: Vec<Vec<usize>>,
    /// The prototypes that a function has, if its address is taken.
    pub(crate) taken_as: Vec<Vec<&'a str>>,
    /// The prototypes of what a function calls through pointers.
    pub(crate) pointers: Vec<Vec<&'a str>>,
    /// The functions whose address a function takes.
    pub(crate) takes: Vec<Vec<usize>>,
    /// The functions whose address any code takes, even code of a definition that does not prevail.
    pub(crate) taken: Vec<usize>,
    /// The prototype with which a function is declared.
    pub(crate) declared_as: Vec<Vec<&'a str>>,
}

impl<'a> Calls<'a> {
    /// Reads the tables of all units. Rows about a definition that does not prevail do not count. `in_data` are the functions whose
    /// addresses are in variables.
    ///
    /// # Errors
    /// A damaged table.
    pub(crate) fn read(program: &Program<'a>, in_data: &[usize]) -> Result<Self, LinkError> {
        let count = program.symbols.len();
        let mut calls = Calls {
            callees: vec![Vec::new(); count],
            taken_as: vec![Vec::new(); count],
            pointers: vec![Vec::new(); count],
            takes: vec![Vec::new(); count],
            taken: Vec::new(),
            declared_as: vec![Vec::new(); count],
        };
        for (number, unit) in program.units.iter().enumerate() {
            let reader = Reader { program, unit, number };
            for section in &unit.sections {
                match section.kind {
                    Kind::Calls => reader.calls(section, &mut calls)?,
                    Kind::Prototypes => reader.prototypes(section, &mut calls)?,
                    _ => {}
                }
            }
        }
        calls.join_declared(program, in_data);
        Ok(calls)
    }

    /// A unit that does not take the address of its function declares the prototype. If another unit takes the address, nvlink moves the
    /// prototype to the functions whose addresses are taken.
    fn join_declared(&mut self, program: &Program<'_>, in_data: &[usize]) {
        let taken: Vec<usize> = self.takes.iter().flatten().chain(in_data).copied().collect();
        for function in taken.into_iter().filter(|function| program.symbols[*function].place.is_some()) {
            for text in &self.declared_as[function] {
                push(&mut self.taken_as[function], text);
            }
        }
        for (declared, taken) in self.declared_as.iter_mut().zip(&self.taken_as) {
            declared.retain(|text| !taken.contains(text));
        }
    }
}

struct Reader<'a, 'p> {
    program: &'p Program<'a>,
    unit: &'a Unit<'a>,
    number: usize,
}

impl<'a> Reader<'a, '_> {
    fn calls(&self, section: &Section<'_>, calls: &mut Calls<'a>) -> Result<(), LinkError> {
        let mut part = 0;
        for (first, second, at) in rows(self.unit, section)? {
            if first == 0 {
                part = second.cast_signed();
                continue;
            }
            let caller = self.function(first, at)?;
            if part == -4 && (self.counts(first) || self.counts(second)) {
                calls.taken.push(self.function(second, at)?);
            }
            if !self.counts(first) {
                continue;
            }
            match part {
                -1 => calls.callees[caller].push(self.function(second, at)?),
                -2 => push(&mut calls.taken_as[caller], self.prototype(second, at)?),
                -3 => calls.pointers[caller].push(self.prototype(second, at)?),
                -4 => calls.takes[caller].push(self.function(second, at)?),
                _ => return Err(LinkError::unsupported(self.unit.file, at, "unknown part of .nv.callgraph")),
            }
        }
        Ok(())
    }

    /// Whether rows about a function of this unit count: not if another unit's definition of it prevails. A unit that takes the address of
    /// a function which it does not define has a row for it, too.
    fn counts(&self, symbol: u32) -> bool {
        let symbol = symbol as usize;
        let defined = self.unit.symbols.get(symbol).is_some_and(|symbol| symbol.section != 0);
        !defined || self.program.prevails(self.number, symbol)
    }

    fn prototypes(&self, section: &Section<'_>, calls: &mut Calls<'a>) -> Result<(), LinkError> {
        for (first, second, at) in rows(self.unit, section)? {
            let function = self.function(first, at)?;
            push(&mut calls.declared_as[function], self.prototype(second, at)?);
        }
        Ok(())
    }

    fn function(&self, symbol: u32, at: u64) -> Result<usize, LinkError> {
        let number = self.program.numbers[self.number].get(symbol as usize).copied().flatten();
        number
            .filter(|number| self.program.symbols[*number].kind.is_code())
            .ok_or_else(|| LinkError::damaged(self.unit.file, at, "row about no function"))
    }

    fn prototype(&self, offset: u32, at: u64) -> Result<&'a str, LinkError> {
        self.unit
            .string(offset)
            // A kernel has none: an empty text.
            .filter(|text| text.is_empty() || text.starts_with('#'))
            .ok_or_else(|| LinkError::damaged(self.unit.file, at, "row with no prototype"))
    }
}

/// Adds what is not there yet.
fn push<T: PartialEq>(list: &mut Vec<T>, item: T) {
    if !list.contains(&item) {
        list.push(item);
    }
}

/// The rows of a table, each with its place in the file.
fn rows(unit: &Unit<'_>, section: &Section<'_>) -> Result<Vec<(u32, u32, u64)>, LinkError> {
    if !section.data.len().is_multiple_of(8) {
        return Err(LinkError::damaged(unit.file, section.offset, format!("half a row in {}", section.name)));
    }
    let rows = section.data.chunks_exact(8).enumerate();
    Ok(rows
        .filter_map(|(number, row)| Some((u32_at(row, 0)?, u32_at(row, 4)?, section.offset + number as u64 * 8)))
        .collect())
}
