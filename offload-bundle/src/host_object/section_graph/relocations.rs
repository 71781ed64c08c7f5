//! Reads the relocations of an object, in all forms of ELF.

use object::read::elf::{Crel, Rel, Rela, SectionHeader};

use super::Reader;
use crate::FormatError;

/// One relocation.
#[derive(Debug, Clone, Copy)]
pub(super) struct Relocation {
    /// Offset in the section that it changes.
    pub(super) offset: u64,
    /// Index of the symbol that it refers to; 0 for none.
    pub(super) symbol: u32,
}

impl<'a> Reader<'a> {
    /// Each section that has relocations, with them. A section may come more than once.
    pub(super) fn relocated_sections(
        &self,
    ) -> impl Iterator<Item = Result<(usize, Vec<Relocation>), FormatError>> + use<'_, 'a> {
        self.sections.iter().filter_map(|section| {
            let relocations = self.relocations(section).transpose()?;
            let target = section.sh_info(self.endian) as usize;
            Some(relocations.and_then(|relocations| {
                if target < self.sections.len() {
                    return Ok((target, relocations));
                }
                let offset = section.sh_offset(self.endian);
                Err(FormatError::damaged(offset, "relocations of a section that does not exist"))
            }))
        })
    }

    /// The relocations in a section; `None` if it holds none.
    fn relocations(
        &self,
        section: &object::elf::SectionHeader64<object::Endianness>,
    ) -> Result<Option<Vec<Relocation>>, FormatError> {
        let endian = self.endian;
        let damaged =
            |error: object::Error| FormatError::parser(section.sh_offset(endian), "damaged ELF relocations", error);
        if let Some((relocations, _)) = section.rela(endian, self.elf).map_err(damaged)? {
            let one = |rela: &object::elf::Rela64<_>| Relocation {
                offset: rela.r_offset(endian),
                symbol: Rela::r_sym(rela, endian, false),
            };
            return Ok(Some(relocations.iter().map(one).collect()));
        }
        if let Some((relocations, _)) = section.rel(endian, self.elf).map_err(damaged)? {
            let one = |rel: &object::elf::Rel64<_>| Relocation {
                offset: rel.r_offset(endian),
                symbol: Rel::r_sym(rel, endian),
            };
            return Ok(Some(relocations.iter().map(one).collect()));
        }
        if let Some((relocations, _)) = section.crel(endian, self.elf).map_err(damaged)? {
            let one = |crel: Crel| Relocation { offset: crel.r_offset, symbol: crel.r_sym };
            return relocations.map(|crel| crel.map(one).map_err(damaged)).collect::<Result<_, _>>().map(Some);
        }
        Ok(None)
    }
}
