//! Compares the code of two cubins: everything that a GPU or the driver could act on. What the compiler noted of itself is left out.
//!
//! The tables of two cubins refer to sections and symbols by number, so their code is equal only if these have the same order.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

use goblin::elf::ProgramHeader;

use super::attribute_names::{compat_name, info_name};
use super::records::records;
use super::{Cubin, CubinSection, NEW_FLAG_ACCELERATED, NOTE_CUINFO, NV_COMPAT, OLD_FLAG_ACCELERATED, context};

/// What the compiler notes of itself: its release, its command line, and the virtual architecture.
const NOTES: [&str; 3] = [NOTE_CUINFO, ".note.nv.tkinfo", ".note.nv.cuver"];
const NV_INFO: &str = ".nv.info";

/// What differs between the code of two cubins.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CodeDifference {
    /// The sections that differ in more than attributes or that one of them lacks, and other parts, such as `ELF header`.
    pub parts: Vec<String>,
    /// The attributes that differ.
    pub attributes: Vec<AttributeDifference>,
}

/// An attribute that differs between two cubins.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct AttributeDifference {
    /// Where it stands.
    pub table: AttributeTable,
    /// Its number.
    pub number: u8,
    /// The records in the first cubin, one behind the other: {u8 format, u8 attribute, u16 value or size, bytes}. Empty if there are none.
    pub left: Vec<u8>,
    /// The same in the second cubin.
    pub right: Vec<u8>,
    /// In how many sections it differs so: as many as there are kernels with it.
    pub sections: usize,
}

/// A table of attributes of a cubin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AttributeTable {
    /// `.nv.info` of the cubin, or of one of its functions.
    Info,
    /// `.nv.compat`.
    Compat,
}

impl CodeDifference {
    /// Whether nothing but attributes differs.
    pub fn is_in_attributes_alone(&self) -> bool {
        self.parts.is_empty()
    }
}

impl AttributeDifference {
    /// The same seen from the second cubin.
    #[must_use]
    pub fn reversed(self) -> Self {
        Self { left: self.right, right: self.left, ..self }
    }
}

impl fmt::Display for AttributeDifference {
    /// `attribute 0x35 (SW2861232_WAR)`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (of, name) = match self.table {
            AttributeTable::Info => ("", info_name(self.number)),
            AttributeTable::Compat => (".nv.compat ", compat_name(self.number)),
        };
        write!(f, "{of}attribute {:#x}", self.number)?;
        name.map_or(Ok(()), |name| write!(f, " ({name})"))
    }
}

/// Compares the code of two cubins. The GPU and the virtual architecture that they were compiled for are no part of it.
pub fn code_difference(left: &Cubin<'_>, right: &Cubin<'_>) -> CodeDifference {
    let mut found = Collector::default();
    if left.comparable_header() != right.comparable_header() {
        found.parts.push("ELF header".to_owned());
    }
    if left.segments() != right.segments() {
        found.parts.push("program headers".to_owned());
    }
    let names = |cubin: &Cubin<'_>| cubin.sections.iter().map(|section| section.name.to_owned()).collect::<Vec<_>>();
    if names(left) == names(right) {
        for (ours, theirs) in left.sections.iter().zip(&right.sections) {
            found.compare(ours, theirs);
        }
    } else {
        found.compare_by_name(left, right);
    }
    found.finish()
}

impl Cubin<'_> {
    /// Equal for cubins of equal code; others rarely have the same.
    pub(crate) fn shape(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.comparable_header().hash(&mut hasher);
        for section in &self.sections {
            let size = if is_attributes(section.name) || is_note(section.name) { 0 } else { section.size };
            (section.name, section.kind, section.info, size).hash(&mut hasher);
        }
        self.section(".symtab").hash(&mut hasher);
        hasher.finish()
    }

    /// What the header says apart from offsets, the GPU and the virtual architecture.
    fn comparable_header(&self) -> ([u8; 16], u16, u32, u32) {
        let of_target = match self.is_new_abi() {
            true => 0xff00 | NEW_FLAG_ACCELERATED,
            false => 0x00ff_00ff | OLD_FLAG_ACCELERATED,
        };
        let header = &self.header;
        (header.e_ident, header.e_type, header.e_version, header.e_flags & !of_target)
    }

    /// What the program headers say of memory, and which sections each of them loads; `None` if they cannot be read. Their sizes in the file
    /// include padding, which depends on what is in front of them.
    fn segments(&self) -> Option<Vec<([u64; 6], Vec<usize>)>> {
        let (offset, count) = (usize::try_from(self.header.e_phoff).ok()?, usize::from(self.header.e_phnum));
        let headers = ProgramHeader::parse(self.data, offset, count, context(&self.header).ok()?).ok()?;
        let segment = |h: ProgramHeader| {
            let without_bytes = h.p_memsz.saturating_sub(h.p_filesz);
            let memory = [h.p_type.into(), h.p_flags.into(), h.p_vaddr, h.p_paddr, without_bytes, h.p_align];
            (memory, self.sections_in(h.p_offset, h.p_filesz))
        };
        Some(headers.into_iter().map(segment).collect())
    }

    /// The sections whose bytes are in a part of the file.
    fn sections_in(&self, offset: u64, size: u64) -> Vec<usize> {
        let is_in = |section: &CubinSection<'_>| {
            let inside =
                section.offset.checked_sub(offset).map(|start| start.saturating_add(section.data.len() as u64));
            !section.data.is_empty() && inside.is_some_and(|end| end <= size)
        };
        (0..).zip(&self.sections).filter(|(_, section)| is_in(section)).map(|(number, _)| number).collect()
    }
}

fn is_note(name: &str) -> bool {
    NOTES.contains(&name)
}

fn is_attributes(name: &str) -> bool {
    table_of(name).is_some()
}

fn table_of(section: &str) -> Option<AttributeTable> {
    let is_info = section.strip_prefix(NV_INFO).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'));
    let is_compat = section == NV_COMPAT;
    is_info.then_some(AttributeTable::Info).or(is_compat.then_some(AttributeTable::Compat))
}

/// An attribute in a table, and its records in both cubins.
type Differing = (AttributeTable, u8, Vec<u8>, Vec<u8>);

/// Collects what differs.
#[derive(Default)]
struct Collector {
    parts: Vec<String>,
    /// With the number of sections.
    attributes: BTreeMap<Differing, usize>,
}

impl Collector {
    fn compare(&mut self, left: &CubinSection<'_>, right: &CubinSection<'_>) {
        if is_note(left.name) {
            return;
        }
        let header =
            |of: &CubinSection<'_>| (of.kind, of.flags, of.address, of.link, of.info, of.alignment, of.entry_size);
        if header(left) != header(right) {
            self.parts.push(left.name.to_owned());
            return;
        }
        if left.data == right.data && left.size == right.size {
            return;
        }
        match table_of(left.name) {
            Some(table) => self.compare_attributes(table, left, right),
            None => self.parts.push(left.name.to_owned()),
        }
    }

    /// Compares the sections of cubins that do not have the same ones, or not in the same order.
    fn compare_by_name(&mut self, left: &Cubin<'_>, right: &Cubin<'_>) {
        let (ours, theirs) = (sections_by_name(left), sections_by_name(right));
        let names: BTreeSet<&str> = ours.keys().chain(theirs.keys()).copied().collect();
        for name in names {
            match (ours.get(name), theirs.get(name)) {
                (Some(one), Some(other)) => self.compare(one, other),
                _ => self.parts.push(name.to_owned()),
            }
        }
        self.parts.push("order of the sections".to_owned());
    }

    /// Compares two tables of attributes. Where those that differ are left out, the others have to be the same, in the same order.
    fn compare_attributes(&mut self, table: AttributeTable, left: &CubinSection<'_>, right: &CubinSection<'_>) {
        let (ours, theirs) = (by_number(left.data), by_number(right.data));
        let numbers: BTreeSet<u8> = ours.keys().chain(theirs.keys()).copied().collect();
        let value = |of: &BTreeMap<u8, Vec<u8>>, number: u8| of.get(&number).cloned().unwrap_or_default();
        let differing: BTreeSet<u8> =
            numbers.into_iter().filter(|number| ours.get(number) != theirs.get(number)).collect();
        if others(left.data, &differing) != others(right.data, &differing) {
            self.parts.push(left.name.to_owned());
        }
        for number in differing {
            let key = (table, number, value(&ours, number), value(&theirs, number));
            *self.attributes.entry(key).or_default() += 1;
        }
    }

    fn finish(self) -> CodeDifference {
        let attribute =
            |((table, number, left, right), sections)| AttributeDifference { table, number, left, right, sections };
        CodeDifference { parts: self.parts, attributes: self.attributes.into_iter().map(attribute).collect() }
    }
}

fn sections_by_name<'c, 'a>(cubin: &'c Cubin<'a>) -> HashMap<&'a str, &'c CubinSection<'a>> {
    cubin.sections.iter().map(|section| (section.name, section)).collect()
}

/// The records of each attribute, one behind the other.
fn by_number(section: &[u8]) -> BTreeMap<u8, Vec<u8>> {
    let mut found: BTreeMap<u8, Vec<u8>> = BTreeMap::new();
    for record in records(section) {
        found.entry(record.attribute).or_default().extend_from_slice(record.whole);
    }
    found
}

/// All but the records of some attributes, in their order, with what is behind the last record.
fn others(section: &[u8], without: &BTreeSet<u8>) -> Vec<u8> {
    let mut records = records(section);
    let mut bytes: Vec<u8> = Vec::with_capacity(section.len());
    for record in records.by_ref().filter(|record| !without.contains(&record.attribute)) {
        bytes.extend_from_slice(record.whole);
    }
    bytes.extend_from_slice(records.rest);
    bytes
}
