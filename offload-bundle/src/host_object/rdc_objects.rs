//! The units of `nvcc -rdc=true` in a relocatable object: their ids, their fatbins, and whether a device link registers them already.
//!
//! nvcc gives each unit an id. The unit defines the wrapper record `__fatbinwrap<id>`, which points into the section `__nv_relfatbin`,
//! and a constructor of it calls `__cudaRegisterLinkedBinary<id>`, which a device link has to define. `ld -r` concatenates the sections of
//! several units; the relocation of a wrapper then tells which fatbin is whose.

use std::collections::{HashMap, HashSet};
use std::sync::LazyLock;

use memchr::memmem::Finder;
use object::read::{Object, ObjectSection, ObjectSymbol};
use object::{File, ObjectKind, SectionIndex};

use super::Section;
use super::device_links::{MODULE_IDS, relocation_target};
use crate::FormatError;
use crate::bytes::utf8;
use crate::fatbin;

/// The symbol of a unit's wrapper record, in front of its id.
pub const WRAPPER_PREFIX: &str = "__fatbinwrap";
/// The function that registers a unit, in front of its id.
pub const REGISTER_PREFIX: &str = "__cudaRegisterLinkedBinary";

/// What the id of clang's units together starts with, where fatlink links them with units of nvcc; the id of one of those follows.
///
/// `clang` stands where nvcc has the name of the source file, behind its length.
pub const CLANG_ID_PREFIX: &str = "_0_5_clang";

/// A pointer that the result of a relocatable device link (`nvcc -dlink -r`) defines, weakly, to its record (`crt/prelink.stub` of CUDA
/// 13.0). Such a result is like a unit: its code is that of other units, which are in the same object then, behind it.
pub const PRELINKED_MARK: &str = "__nv__fatDeviceText_dummy";

const FATBINS: &str = "__nv_relfatbin";
const WRAPPERS: &str = ".nvFatBinSegment";
/// Where a wrapper record has the pointer to its fatbin.
const WRAPPER_DATA: u64 = 8;

/// A unit of relocatable device code that nvcc compiled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RdcObject<'a> {
    /// Its id, with the underscore that it starts with.
    pub id: &'a str,
    /// Its fatbin: one container.
    pub fatbin: &'a [u8],
    /// Where the fatbin starts, in bytes from the start of the file given.
    pub offset: u64,
    /// Who registers it.
    pub registration: RdcRegistration,
    /// Whether it is the result of a relocatable device link.
    pub is_prelinked: bool,
}

/// Whether a file has the function that registers a unit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RdcRegistration {
    /// The unit calls it, and the file does not define it: a device link has to.
    Undefined,
    /// The file defines it: it holds the result of a device link.
    Defined,
    /// Nothing calls it: no host code of the unit refers to its device code.
    Unused,
}

/// The id in the name of a function that registers a unit; `None` for other symbols.
pub fn registered_id(symbol: &[u8]) -> Option<&str> {
    id_behind(symbol, REGISTER_PREFIX)
}

fn id_behind<'a>(symbol: &'a [u8], prefix: &str) -> Option<&'a str> {
    let id = symbol.strip_prefix(prefix.as_bytes())?;
    std::str::from_utf8(id).ok().filter(|id| !id.is_empty())
}

/// The units of a relocatable object, in the order of their fatbins; none in other ELF files, whose device code is linked.
///
/// # Errors
/// A damaged file; a unit without its fatbin, or a fatbin without its unit. Offsets are those of the file.
pub fn rdc_objects(elf: &[u8]) -> Result<Vec<RdcObject<'_>>, FormatError> {
    /// What the names of the sections with units and with their ids have in common.
    static COMMON: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("__nv_"));

    if super::lacks(elf, &COMMON) {
        return Ok(Vec::new());
    }
    let headers = super::sections(elf)?;
    let is_carrier = |section: &&Section<'_>| section.name == FATBINS.as_bytes();
    let carriers: Vec<&Section<'_>> = headers.iter().filter(is_carrier).collect();
    // Most objects are none of nvcc's: their symbols are not read.
    if carriers.is_empty() && !headers.iter().any(|section| section.name == MODULE_IDS) {
        return Ok(Vec::new());
    }
    let file = File::parse(elf).map_err(|e| FormatError::parser(0, "damaged ELF file", e))?;
    if file.kind() != ObjectKind::Relocatable {
        return Ok(Vec::new());
    }
    if let Some(first) = carriers.first()
        && (!file.is_64() || !file.is_little_endian())
    {
        let what = format!("section {FATBINS}: only 64-bit little-endian files are supported");
        return Err(FormatError::unsupported(first.offset, what));
    }
    let symbols = Symbols::of(&file)?;
    symbols.reject_lost(&headers)?;
    let targets = wrapper_targets(&file);
    let prelinked = symbols.mark.and_then(|mark| target_at(&file, mark));
    let mut objects = Vec::with_capacity(symbols.wrappers.len());
    for wrapper in &symbols.wrappers {
        let missing = || {
            let what = format!("the record {WRAPPER_PREFIX}{} leads to no fatbin in section {FATBINS}", wrapper.id);
            FormatError::damaged(offset_of(&headers, WRAPPERS), what)
        };
        let target = targets.get(&(wrapper.section, wrapper.address.wrapping_add(WRAPPER_DATA))).ok_or_else(missing)?;
        let (index, at) = *target;
        let section = headers.get(index.0).filter(is_carrier).ok_or_else(missing)?;
        let data = section.data(elf).map_err(|e| e.within(FATBINS))?;
        let fatbin = fatbin::container_at(data, at).map_err(|e| e.shifted(section.offset).within(FATBINS))?;
        let registration = symbols.registration(wrapper.id);
        let is_prelinked = prelinked == Some((wrapper.section, wrapper.address));
        let offset = section.offset.saturating_add(at);
        objects.push(RdcObject { id: wrapper.id, fatbin, offset, registration, is_prelinked });
    }
    objects.sort_by_key(|object| object.offset);
    reject_unowned(elf, &carriers, &objects)?;
    Ok(objects)
}

/// Where the record of a unit is.
struct Wrapper<'a> {
    id: &'a str,
    section: SectionIndex,
    address: u64,
}

/// The symbols of a file that the device link is concerned with.
struct Symbols<'a> {
    wrappers: Vec<Wrapper<'a>>,
    defined: HashSet<&'a str>,
    undefined: Vec<&'a str>,
    /// Where [`PRELINKED_MARK`] is.
    mark: Option<(SectionIndex, u64)>,
}

impl<'a> Symbols<'a> {
    fn of(file: &File<'a>) -> Result<Self, FormatError> {
        let mut found = Symbols { wrappers: Vec::new(), defined: HashSet::new(), undefined: Vec::new(), mark: None };
        for symbol in file.symbols() {
            let name = symbol.name_bytes().map_err(|e| FormatError::parser(0, "damaged symbol table", e))?;
            if let Some(id) = registered_id(name) {
                if symbol.is_undefined() {
                    found.undefined.push(id);
                } else {
                    found.defined.insert(id);
                }
            } else if name.starts_with(WRAPPER_PREFIX.as_bytes())
                && let Some(section) = symbol.section_index()
            {
                let id = utf8(&name[WRAPPER_PREFIX.len()..], 0, "the name of a fatbin's record")?;
                found.wrappers.push(Wrapper { id, section, address: symbol.address() });
            } else if name == PRELINKED_MARK.as_bytes() {
                found.mark = symbol.section_index().map(|section| (section, symbol.address()));
            }
        }
        Ok(found)
    }

    fn registration(&self, id: &str) -> RdcRegistration {
        if self.defined.contains(id) {
            RdcRegistration::Defined
        } else if self.undefined.contains(&id) {
            RdcRegistration::Undefined
        } else {
            RdcRegistration::Unused
        }
    }

    /// A unit that calls its registration has a record.
    fn reject_lost(&self, headers: &[Section<'_>]) -> Result<(), FormatError> {
        let known: HashSet<&str> = self.wrappers.iter().map(|wrapper| wrapper.id).collect();
        match self.undefined.iter().find(|id| !known.contains(**id)) {
            Some(id) => {
                let what = format!("{REGISTER_PREFIX}{id} is called, but {WRAPPER_PREFIX}{id} is missing");
                Err(FormatError::damaged(offset_of(headers, WRAPPERS), what))
            }
            None => Ok(()),
        }
    }
}

/// Section and offset of each pointer in a section of wrapper records -> section and offset that it leads to.
fn wrapper_targets(file: &File<'_>) -> HashMap<(SectionIndex, u64), (SectionIndex, u64)> {
    let mut targets = HashMap::new();
    for section in file.sections().filter(|section| section.name_bytes() == Ok(WRAPPERS.as_bytes())) {
        for (offset, relocation) in section.relocations() {
            if let Some(target) = relocation_target(file, &relocation) {
                targets.insert((section.index(), offset), target);
            }
        }
    }
    targets
}

/// Section and offset that the pointer at a place leads to.
fn target_at(file: &File<'_>, (section, address): (SectionIndex, u64)) -> Option<(SectionIndex, u64)> {
    let mut relocations = file.section_by_index(section).ok()?.relocations();
    relocations
        .find_map(|(offset, relocation)| (offset == address).then(|| relocation_target(file, &relocation)))
        .flatten()
}

/// Device code that no unit owns would be lost.
fn reject_unowned(elf: &[u8], carriers: &[&Section<'_>], objects: &[RdcObject<'_>]) -> Result<(), FormatError> {
    let owned: HashSet<u64> = objects.iter().map(|object| object.offset).collect();
    for section in carriers {
        let data = section.data(elf).map_err(|e| e.within(FATBINS))?;
        let read = fatbin::read_containers(data).map_err(|e| e.shifted(section.offset).within(FATBINS))?;
        let mut offsets = read.iter().map(|container| section.offset.saturating_add(container.offset));
        if let Some(offset) = offsets.find(|offset| !owned.contains(offset)) {
            let what = format!("section {FATBINS}: no symbol {WRAPPER_PREFIX}<id> leads to this fatbin");
            return Err(FormatError::damaged(offset, what));
        }
    }
    Ok(())
}

fn offset_of(headers: &[Section<'_>], name: &str) -> u64 {
    headers.iter().find(|section| section.name == name.as_bytes()).map_or(0, |section| section.offset)
}

#[cfg(test)]
#[path = "rdc_objects_tests.rs"]
mod tests;
