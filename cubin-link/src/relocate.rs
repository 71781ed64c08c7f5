//! Applies relocations, and finds those that the driver has to apply when it loads the cubin.
//!
//! Offsets in banks of constants and in shared memory are known here. Addresses of functions and of global variables are not: the
//! cubin keeps their relocations. The names are those of cuobjdump.

use crate::bytes::{put, u32_at, u64_at};
use crate::error::LinkError;
use crate::layout::{Layout, Merged};
use crate::program::{Program, Reach};
use crate::shared::Shared;
use crate::unit::{Kind, Relocation, SymbolKind, Unit};

/// `R_CUDA_64`.
const ABS_64: u32 = 2;
/// `R_CUDA_G64`: the generic address of a variable.
const GENERIC_64: u32 = 4;
/// `R_CUDA_ABS32_32`: bits 32 to 63 of an instruction.
const ABS32_32: u32 = 55;
/// `R_CUDA_ABS32_LO_32`, `R_CUDA_ABS32_HI_32`: the same, half of an address.
const ABS32_LO: u32 = 56;
const ABS32_HI: u32 = 57;
/// `R_CUDA_ABS16_32`: bits 32 to 47 of an instruction.
const ABS16_32: u32 = 59;
/// `R_CUDA_CONST_FIELD21_38`: 16 bits of offset from bit 38 on; the bank behind it is right already.
const CONST_FIELD: u32 = 66;
/// `R_CUDA_UNUSED_CLEAR64`: to be cleared if the function is not there.
const UNUSED_CLEAR_64: u32 = 73;
/// `R_CUDA_ABS55_16_34`: the target of a call.
const CALL: u32 = 75;
/// `R_CUDA_UNIFIED`, `R_CUDA_UNIFIED32_LO_32`, `R_CUDA_UNIFIED32_HI_32`: the address of a function. It would be that of its entry in a
/// table of functions, which a program for these GPUs does not have.
const UNIFIED: u32 = 102;
const UNIFIED_LO: u32 = 112;
const UNIFIED_HI: u32 = 113;
/// `R_CUDA_ABS56_16_34`: the target of a call through a pointer, relative to the table of functions.
const POINTER_CALL: u32 = 114;
/// Where that table begins: at 0, where there is none.
const TABLE_OFFSET: &str = "__UFT_OFFSET";

/// A relocation that stays in the cubin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kept {
    pub(crate) offset: u64,
    pub(crate) kind: u32,
    /// Number of a symbol of the program.
    pub(crate) symbol: usize,
    pub(crate) addend: i64,
}

/// Relocates sections of a program.
pub(crate) struct Relocator<'p, 'a> {
    pub(crate) program: &'p Program<'a>,
    pub(crate) reach: &'p Reach,
    pub(crate) layout: &'p Layout<'a>,
    pub(crate) shared: &'p Shared,
    /// For each unit: sections with their relocations.
    pub(crate) relocations: &'p [Vec<(usize, Vec<Relocation>)>],
}

/// What one relocation does.
enum Action {
    /// Nothing is left to do.
    Drop,
    Keep(Kept),
    /// Writes `width` bits from bit `shift` on.
    Write {
        shift: u32,
        width: u32,
        value: u64,
    },
}

impl Relocator<'_, '_> {
    /// The code of a function, and the relocations that it keeps, in the order of nvlink.
    ///
    /// # Errors
    /// A relocation that is not known.
    pub(crate) fn code(&self, function: usize) -> Result<(Vec<u8>, Vec<Kept>), LinkError> {
        let Some(place) = self.program.symbols[function].place else { return Ok((Vec::new(), Vec::new())) };
        let section = self.program.symbol(place).section;
        let mut bytes = self.program.units[place.unit].sections[section].data.to_vec();
        let mut kept = Vec::new();
        for relocation in self.of(place.unit, section).iter().rev() {
            let action = self.in_code(place.unit, function, relocation)?;
            self.act(place.unit, relocation, action, 0, &mut bytes, &mut kept)?;
        }
        Ok((bytes, kept))
    }

    /// The bytes of a section of data, and the relocations that it keeps, in the order of nvlink.
    ///
    /// # Errors
    /// A relocation that is not known.
    pub(crate) fn data(&self, merged: &Merged<'_>) -> Result<(Vec<u8>, Vec<Kept>), LinkError> {
        let mut bytes = merged.bytes(self.program);
        let mut kept = Vec::new();
        for piece in merged.pieces.iter().rev() {
            for relocation in self.of(piece.unit, piece.section).iter().rev() {
                let action = if merged.kind == Kind::Frames {
                    self.in_frames(piece.unit, relocation)?
                } else if self.program.is_replaced(piece.unit, piece.section, relocation.offset) {
                    Action::Drop
                } else {
                    self.in_data(piece.unit, relocation)?
                };
                self.act(piece.unit, relocation, action, piece.base, &mut bytes, &mut kept)?;
            }
        }
        Ok((bytes, kept))
    }

    fn of(&self, unit: usize, section: usize) -> &[Relocation] {
        let all = self.relocations[unit].iter().find(|(of, _)| *of == section);
        all.map_or(&[], |(_, relocations)| relocations)
    }

    fn in_code(&self, unit: usize, function: usize, relocation: &Relocation) -> Result<Action, LinkError> {
        let here = &self.program.units[unit];
        let symbol = &here.symbols[relocation.symbol];
        if relocation.kind == POINTER_CALL && symbol.name == TABLE_OFFSET && relocation.addend == 0 {
            return Ok(Action::Drop);
        }
        let write = |width: u32, shift, value: u64| {
            // Instructions with a register take signed offsets.
            let value = i64::try_from(value).ok().and_then(|value| value.checked_add(relocation.addend));
            let value = value.filter(|value| (-1 << (width - 1)..1 << width).contains(value));
            let value = value.ok_or_else(|| LinkError::unsupported(here.file, relocation.at, "value out of range"))?;
            Ok(Action::Write { shift, width, value: value.cast_unsigned() })
        };
        if relocation.kind == CONST_FIELD && symbol.kind == SymbolKind::FunctionConstant {
            return write(16, 38, symbol.value);
        }
        let number = self.program.numbers[unit][relocation.symbol].ok_or_else(|| self.unknown(unit, relocation))?;
        match (relocation.kind, symbol.kind) {
            (
                ABS32_LO | ABS32_HI,
                SymbolKind::Function | SymbolKind::Kernel | SymbolKind::Global | SymbolKind::Managed,
            )
            | (CALL, SymbolKind::Function | SymbolKind::Kernel) => Ok(self.keep(relocation, number, relocation.kind)),
            (UNIFIED_LO, SymbolKind::Function) => Ok(self.keep(relocation, number, ABS32_LO)),
            (UNIFIED_HI, SymbolKind::Function) => Ok(self.keep(relocation, number, ABS32_HI)),
            (ABS32_32, SymbolKind::Shared) => {
                let offset = self.shared.offset(function, number);
                write(32, 32, offset.ok_or_else(|| self.unknown(unit, relocation))?)
            }
            (ABS16_32 | CONST_FIELD, SymbolKind::Constant) => {
                let offset = self.constant(number).ok_or_else(|| self.unknown(unit, relocation))?;
                write(16, if relocation.kind == ABS16_32 { 32 } else { 38 }, offset)
            }
            _ => Err(self.unknown(unit, relocation)),
        }
    }

    fn in_data(&self, unit: usize, relocation: &Relocation) -> Result<Action, LinkError> {
        let symbol = &self.program.units[unit].symbols[relocation.symbol];
        let number = self.program.numbers[unit][relocation.symbol].ok_or_else(|| self.unknown(unit, relocation))?;
        match (relocation.kind, symbol.kind) {
            (GENERIC_64, SymbolKind::Global | SymbolKind::Managed) => Ok(self.keep(relocation, number, GENERIC_64)),
            // nvlink 13.0 leaves zeros in the variable.
            (UNIFIED, SymbolKind::Function)
                if self.program.is_repeated(unit, relocation.symbol) && !self.reach.needed[number] =>
            {
                let what = format!("variable with the address of {}, which nothing else needs", symbol.name);
                Err(LinkError::unsupported(self.program.units[unit].file, relocation.at, what))
            }
            (UNIFIED, SymbolKind::Function) => Ok(self.keep(relocation, number, ABS_64)),
            _ => Err(self.unknown(unit, relocation)),
        }
    }

    fn in_frames(&self, unit: usize, relocation: &Relocation) -> Result<Action, LinkError> {
        let here = &self.program.units[unit];
        let symbol = &here.symbols[relocation.symbol];
        if symbol.kind == SymbolKind::Section && relocation.kind == ABS_64 {
            let frames = here.sections[symbol.section].kind == Kind::Frames;
            let base = self.layout.place(unit, symbol.section).filter(|_| frames).map(|(_, base)| base);
            let value = base.and_then(|base| base.checked_add_signed(relocation.addend));
            let value = value.ok_or_else(|| self.unknown(unit, relocation))?;
            return Ok(Action::Write { shift: 0, width: 64, value });
        }
        let number = self.program.numbers[unit][relocation.symbol].filter(|_| symbol.kind.is_code());
        let number = number.ok_or_else(|| self.unknown(unit, relocation))?;
        let needed = self.reach.needed[number];
        match relocation.kind {
            ABS_64 if needed && self.program.prevails(unit, relocation.symbol) => {
                Ok(self.keep(relocation, number, ABS_64))
            }
            // The frame of a definition that does not prevail keeps its size, and is of no code.
            UNUSED_CLEAR_64 if !needed && self.program.prevails(unit, relocation.symbol) => {
                Ok(Action::Write { shift: 0, width: 64, value: 0 })
            }
            ABS_64 | UNUSED_CLEAR_64 => Ok(Action::Drop),
            _ => Err(self.unknown(unit, relocation)),
        }
    }

    /// Keeps a relocation by something that the cubin has.
    fn keep(&self, relocation: &Relocation, symbol: usize, kind: u32) -> Action {
        // Code that cannot run may refer to functions that are not there.
        if self.program.symbols[symbol].kind.is_code() && !self.reach.needed[symbol] {
            return Action::Drop;
        }
        Action::Keep(Kept { offset: relocation.offset, kind, symbol, addend: relocation.addend })
    }

    /// The offset of a constant in its bank.
    fn constant(&self, number: usize) -> Option<u64> {
        let place = self.program.symbols[number].place?;
        let symbol = self.program.symbol(place);
        let (_, base) = self.layout.place(place.unit, symbol.section)?;
        base.checked_add(symbol.value)
    }

    fn act(
        &self,
        unit: usize,
        relocation: &Relocation,
        action: Action,
        base: u64,
        bytes: &mut [u8],
        kept: &mut Vec<Kept>,
    ) -> Result<(), LinkError> {
        let offset = base.saturating_add(relocation.offset);
        match action {
            Action::Drop => {}
            Action::Keep(mut entry) => {
                entry.offset = offset;
                kept.push(entry);
            }
            Action::Write { shift, width, value } => {
                let written = usize::try_from(offset).ok().and_then(|at| write(bytes, at, shift, width, value));
                written.ok_or_else(|| {
                    LinkError::damaged(
                        self.program.units[unit].file,
                        relocation.at,
                        "relocation outside of its section",
                    )
                })?;
            }
        }
        Ok(())
    }

    fn unknown(&self, unit: usize, relocation: &Relocation) -> LinkError {
        let unit: &Unit<'_> = &self.program.units[unit];
        let symbol = &unit.symbols[relocation.symbol];
        let what = format!("relocation of type {} by {} ({:?})", relocation.kind, symbol.name, symbol.kind);
        LinkError::unsupported(unit.file, relocation.at, what)
    }
}

/// Writes the low `width` bits of `value` from bit `shift` of the 8 bytes at `at` on; 4 bytes are enough for 32 bits at 32.
fn write(bytes: &mut [u8], at: usize, shift: u32, width: u32, value: u64) -> Option<()> {
    if width == 64 {
        return put(bytes, at, &value.to_le_bytes());
    }
    let mask = (1_u64 << width) - 1;
    if shift == 32 && width == 32 {
        u32_at(bytes, at)?;
        return put(bytes, at.checked_add(4)?, &(value as u32).to_le_bytes());
    }
    let word = u64_at(bytes, at)?;
    let word = word & !(mask << shift) | (value & mask) << shift;
    put(bytes, at, &word.to_le_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_written_where_nvlink_writes_them() {
        // ULDC of a constant at 30 in bank 3, and UMOV of a shared variable at 0x190.
        let mut code = 0x000f_e400_0000_0200_00c0_0000_0004_7ab9_u128.to_le_bytes();
        write(&mut code, 0, 38, 16, 30).expect("it fits");
        assert_eq!(u128::from_le_bytes(code), 0x000f_e400_0000_0200_00c0_0780_0004_7ab9);
        let mut code = 0x000f_e200_0000_0000_0000_0000_0004_7882_u128.to_le_bytes();
        write(&mut code, 0, 32, 32, 0x190).expect("it fits");
        assert_eq!(u128::from_le_bytes(code), 0x000f_e200_0000_0000_0000_0190_0004_7882);
        assert_eq!(write(&mut code, 10, 38, 16, 30), None);
        assert_eq!(write(&mut code, usize::MAX, 32, 32, 30), None);
    }
}
