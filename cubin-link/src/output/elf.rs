//! Puts sections and symbols into an ELF file: header, sections, table of sections, program headers.

use rustc_hash::FxHashMap;

use super::symbols::SymbolTable;
use super::{ALLOC, FIRST_SECTIONS, NOBITS, OutSection};
use crate::unit::Unit;

const HEADER_SIZE: u64 = 64;
const SECTION_HEADER_SIZE: u64 = 64;
const PROGRAM_HEADER_SIZE: u64 = 56;
const SYMBOL_SIZE: u64 = 24;
const WRITE: u64 = 1;
/// `PT_LOAD`, `PT_PHDR`.
const LOAD: u32 = 1;
const HEADERS: u32 = 6;
/// `PF_R | PF_X`, `PF_R | PF_W`.
const READ_EXECUTE: u32 = 5;
const READ_WRITE: u32 = 6;

/// The bytes of the file.
pub(super) fn file(sections: &[OutSection], symbols: &SymbolTable<'_>, units: &[Unit<'_>]) -> Vec<u8> {
    let mut names = Strings::new();
    let mut strings = Strings::new();
    for (text, _) in &symbols.prototypes {
        strings.append(text);
    }
    let table = symbol_table(symbols, &mut strings);
    let first_names = [".shstrtab", ".strtab", ".symtab"].map(|name| names.add(name));
    let other_names: Vec<u32> = sections.iter().map(|section| names.add(&section.name)).collect();
    let mut writer = Writer { bytes: vec![0; HEADER_SIZE as usize], headers: vec![[0; 10]] };
    let contents = [
        (3, names.bytes, 1, 0, [0, 0]),
        (3, strings.bytes, 1, 0, [0, 0]),
        (2, table, 8, SYMBOL_SIZE, [2, symbols.local]),
    ];
    for (name, (kind, bytes, alignment, entry_size, [link, info])) in first_names.into_iter().zip(contents) {
        let size = bytes.len() as u64;
        let section =
            OutSection { name: String::new(), kind, flags: 0, link, info, alignment, entry_size, size, bytes };
        writer.add(name, &section);
    }
    for (section, name) in sections.iter().zip(other_names) {
        writer.add(name, section);
    }
    writer.finish(sections, units.first().map_or(0, |unit| unit.flags))
}

fn symbol_table(symbols: &SymbolTable<'_>, strings: &mut Strings) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(symbols.symbols.len() * SYMBOL_SIZE as usize);
    for symbol in &symbols.symbols {
        let name = if symbol.name.is_empty() { 0 } else { strings.add(&symbol.name) };
        bytes.extend(name.to_le_bytes());
        bytes.extend([symbol.info, symbol.other]);
        bytes.extend((symbol.section as u16).to_le_bytes());
        bytes.extend(symbol.value.to_le_bytes());
        bytes.extend(symbol.size.to_le_bytes());
    }
    bytes
}

/// A table of strings that has each text once.
struct Strings {
    bytes: Vec<u8>,
    offsets: FxHashMap<String, u32>,
}

impl Strings {
    fn new() -> Self {
        Strings { bytes: vec![0], offsets: FxHashMap::default() }
    }

    fn append(&mut self, text: &str) -> u32 {
        let offset = self.bytes.len() as u32;
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        offset
    }

    fn add(&mut self, text: &str) -> u32 {
        if let Some(offset) = self.offsets.get(text) {
            return *offset;
        }
        let offset = self.append(text);
        self.offsets.insert(text.to_owned(), offset);
        offset
    }
}

struct Writer {
    bytes: Vec<u8>,
    /// Name, type, flags, address, offset, size, link, info, alignment, size of an entry.
    headers: Vec<[u64; 10]>,
}

impl Writer {
    fn add(&mut self, name: u32, section: &OutSection) {
        let alignment = section.alignment.max(1) as usize;
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
        let offset = self.bytes.len() as u64;
        let OutSection { kind, flags, link, info, alignment, entry_size, size, .. } = *section;
        let (name, kind, link, info) = (u64::from(name), u64::from(kind), u64::from(link), u64::from(info));
        self.headers.push([name, kind, flags, 0, offset, size, link, info, alignment, entry_size]);
        self.bytes.extend_from_slice(&section.bytes);
    }

    fn finish(mut self, sections: &[OutSection], flags: u32) -> Vec<u8> {
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
        let sections_at = self.bytes.len() as u64;
        let headers_at = sections_at + self.headers.len() as u64 * SECTION_HEADER_SIZE;
        let segments = self.segments(sections, headers_at);
        for header in &self.headers {
            let [name, kind, flags, address, offset, size, link, info, alignment, entry_size] = *header;
            self.bytes.extend([name as u32, kind as u32].map(u32::to_le_bytes).concat());
            self.bytes.extend([flags, address, offset, size].map(u64::to_le_bytes).concat());
            self.bytes.extend([link as u32, info as u32].map(u32::to_le_bytes).concat());
            self.bytes.extend([alignment, entry_size].map(u64::to_le_bytes).concat());
        }
        let count = segments.len() as u16;
        for (kind, flags, [offset, in_file, in_memory]) in segments {
            self.bytes.extend([kind, flags].map(u32::to_le_bytes).concat());
            self.bytes.extend([offset, 0, 0, in_file, in_memory, 8].map(u64::to_le_bytes).concat());
        }
        let sections = self.headers.len() as u16;
        self.header(flags, [headers_at, sections_at], [count, sections]);
        self.bytes
    }

    /// Type, flags, and offset, size in the file and size in memory of each.
    fn segments(&self, sections: &[OutSection], headers_at: u64) -> Vec<(u32, u32, [u64; 3])> {
        let mut segments = Vec::new();
        for (flags, wanted) in [(READ_EXECUTE, ALLOC), (READ_WRITE, ALLOC | WRITE)] {
            let members = sections.iter().zip(&self.headers[FIRST_SECTIONS..]);
            let mut members = members.filter(|(section, _)| section.flags & (ALLOC | WRITE) == wanted).peekable();
            let Some((_, first)) = members.peek() else { continue };
            let start = first[4];
            let (mut end, mut beyond) = (start, 0);
            for (section, header) in members {
                if section.kind == NOBITS {
                    // Its offset is aligned, though nothing is there.
                    end = end.max(header[4]);
                    beyond = u64::next_multiple_of(beyond, section.alignment.max(1)) + section.size;
                } else {
                    end = header[4] + section.size;
                }
            }
            let in_file = end - start;
            segments.push((LOAD, flags, [start, in_file, in_file + beyond]));
        }
        let size = (segments.len() as u64 + 2) * PROGRAM_HEADER_SIZE;
        let headers = [headers_at, size, size];
        segments.insert(0, (HEADERS, READ_EXECUTE, headers));
        segments.push((LOAD, READ_EXECUTE, headers));
        segments
    }

    /// The header at the start; `offsets` of program headers and sections, and the number of each.
    fn header(&mut self, flags: u32, offsets: [u64; 2], [segments, sections]: [u16; 2]) {
        let mut header = vec![0x7f, b'E', b'L', b'F', 2, 1, 1, 0x41, 8];
        header.resize(16, 0);
        header.extend([2_u16, 190].map(u16::to_le_bytes).concat());
        header.extend(1_u32.to_le_bytes());
        header.extend([0, offsets[0], offsets[1]].map(u64::to_le_bytes).concat());
        header.extend(flags.to_le_bytes());
        let sizes = [HEADER_SIZE as u16, PROGRAM_HEADER_SIZE as u16, segments, SECTION_HEADER_SIZE as u16, sections, 1];
        header.extend(sizes.map(u16::to_le_bytes).concat());
        self.bytes[..header.len()].copy_from_slice(&header);
    }
}
