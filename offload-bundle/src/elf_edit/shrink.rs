//! Puts smaller contents into an ELF file and closes the gaps, as far as its layout allows.

use std::ops::Range;

use super::cuts;
use super::image_cuts::{self, Cut, ImageCuts, page_size};
use super::program_headers::{self, Displaced};
use super::replacement::{Replacement, range};
use super::tables::{
    E_PHNUM, E_PHOFF, E_SHNUM, E_SHOFF, PT_LOAD, PT_PHDR, SECTION_SIZE, SEGMENT_SIZE, SHT_DYNSYM, SHT_SYMTAB,
    SectionHeader, Segment, Tables,
};
use super::verify;
use crate::FormatError;
use crate::bytes::{put, u16_at, u64_at};

/// Bytes that a container no longer needs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Hole {
    pub start: u64,
    pub end: u64,
    /// The section that it is in.
    pub section: usize,
}

impl Hole {
    pub fn size(&self) -> u64 {
        self.end - self.start
    }
}

/// A symbol whose size changes.
struct Resized {
    /// Offset of the size in the file.
    at: u64,
    size: u64,
}

/// The layout of the edited file. Offsets are those of the original file; [`Layout::moved`] converts them.
struct Layout {
    /// By offset.
    cuts: Vec<Cut>,
    /// Where the program headers go.
    segments_at: u64,
    /// The stretch that makes room for them.
    displaced: Option<Displaced>,
    /// The sections in the displaced stretch.
    moved_sections: Vec<usize>,
    segments: Vec<Segment>,
    sections: Vec<SectionHeader>,
}

/// A file with smaller contents.
pub(crate) struct Shrunk {
    /// The whole file.
    pub bytes: Vec<u8>,
    /// Number of unneeded bytes that stay in the file, as zeros.
    pub zeroed: u64,
}

/// Writes `edits`, sorted by offset, into an ELF file and cuts out the bytes that they free.
///
/// # Errors
/// An ELF file of another class or byte order, damaged tables, or a program whose contents in memory would change.
pub(crate) fn shrink(data: &[u8], edits: &[Replacement]) -> Result<Shrunk, FormatError> {
    let tables = Tables::read(data)?;
    let resized = resized_symbols(data, &tables, edits)?;
    let holes = holes(&tables, edits);
    let layout = if tables.is_object { of_object(&tables, &holes) } else { of_image(data, &tables, &holes) };
    let freed: u64 = holes.iter().map(Hole::size).sum();
    let cut: u64 = layout.cuts.iter().map(|cut| cut.to - cut.from).sum();
    // The file is copied once only, since there are files of gigabytes.
    let mut file = data.to_vec();
    edits.iter().for_each(|edit| edit.write(data, &mut file));
    resized.iter().for_each(|symbol| put(&mut file, symbol.at, &symbol.size.to_le_bytes()));
    let bytes = layout.write(file, &tables);
    if !tables.is_object {
        let sizes = resized.iter().map(|symbol| (symbol.at, symbol.at.saturating_add(8)));
        let changed = edits.iter().map(|edit| (edit.offset, edit.end())).chain(sizes);
        verify::memory(data, &bytes, changed.collect(), layout.displaced)?;
    }
    Ok(Shrunk { bytes, zeroed: freed.saturating_sub(cut) })
}

/// Finds the symbols that span a whole container; they shrink with it.
fn resized_symbols(data: &[u8], tables: &Tables, edits: &[Replacement]) -> Result<Vec<Resized>, FormatError> {
    const WHAT: &str = "a symbol";
    let mut resized = Vec::new();
    for table in tables.sections.iter().filter(|section| matches!(section.kind, SHT_SYMTAB | SHT_DYNSYM)) {
        for at in table.symbols() {
            let section = usize::from(u16_at(data, at.saturating_add(6), WHAT)?);
            let (value, size) = (u64_at(data, at.saturating_add(8), WHAT)?, u64_at(data, at.saturating_add(16), WHAT)?);
            let Some(section) = tables.sections.get(section).filter(|_| section != 0) else { continue };
            let inside = if tables.is_object { value } else { value.wrapping_sub(section.address) };
            let offset = section.offset.wrapping_add(inside);
            let Ok(index) = edits.binary_search_by_key(&offset, |edit| edit.offset) else { continue };
            if let Some(edit) = edits.get(index).filter(|edit| edit.len == size) {
                resized.push(Resized { at: at.saturating_add(16), size: edit.size() });
            }
        }
    }
    Ok(resized)
}

/// The freed bytes behind each container, unless the headers or other sections use them, too.
fn holes(tables: &Tables, edits: &[Replacement]) -> Vec<Hole> {
    let mut holes = Vec::new();
    for edit in edits {
        let start = edit.offset.saturating_add(edit.size()).next_multiple_of(8);
        let end = edit.end();
        let is_inside = |section: &SectionHeader| section.offset <= edit.offset && end <= section.end();
        let Some(section) = tables.sections.iter().position(is_inside) else { continue };
        let hole = Hole { start, end, section };
        if start < end && !is_shared(tables, &hole) {
            holes.push(hole);
        }
    }
    holes
}

fn is_shared(tables: &Tables, hole: &Hole) -> bool {
    let meets = |from: u64, to: u64| from < hole.end && hole.start < to;
    let table = |at: u64, count: usize, size: u64| meets(at, at.saturating_add(count as u64 * size));
    let others = tables.sections.iter().enumerate().filter(|(index, _)| *index != hole.section);
    others.into_iter().any(|(_, section)| section.end() > section.offset && meets(section.offset, section.end()))
        || table(tables.segments_at, tables.segments.len(), SEGMENT_SIZE)
        || table(tables.sections_at, tables.sections.len(), SECTION_SIZE)
}

/// Lays out an object. It is read by its section headers, so what lies behind a section may move, as far as alignment allows.
fn of_object(tables: &Tables, holes: &[Hole]) -> Layout {
    let mut layout = Layout::unchanged(tables);
    for hole in holes {
        let Some(section) = layout.sections.get_mut(hole.section).filter(|section| section.end() == hole.end) else {
            // Relocations point at what follows in the section.
            continue;
        };
        section.size = hole.start - section.offset;
        let behind = tables.sections.iter().filter(|section| section.offset >= hole.end);
        let align = behind.map(|section| section.align).max().unwrap_or(1).max(8);
        if align.is_power_of_two() {
            let len = (hole.end - hole.start) / align * align;
            layout.cuts.push(Cut { from: hole.end - len, to: hole.end, hole: *hole });
        }
    }
    layout
}

/// Lays out a program or shared library, of which nothing moves in memory. A segment with a hole of at least a page becomes two, and what
/// lies between them is neither in the file nor in memory. The new program headers take room in a hole.
fn of_image(data: &[u8], tables: &Tables, holes: &[Hole]) -> Layout {
    let mut layout = Layout::unchanged(tables);
    for hole in holes {
        if let Some(section) = layout.sections.get_mut(hole.section).filter(|section| section.end() == hole.end) {
            section.size = hole.start - section.offset;
        }
    }
    let Some(ImageCuts { cuts, room, host }) = image_cuts::choose(data, tables, holes) else {
        return layout;
    };
    layout.segments = segments(tables, &cuts, room.at);
    // The hole that hosts the headers is no longer part of a container, whether it is cut or not.
    let mut gaps: Vec<Hole> = cuts.iter().map(|cut| cut.hole).filter(|hole| hole.start != host.start).collect();
    gaps.insert(0, host);
    layout.sections = sections(tables, &layout.sections, &gaps);
    if let Some(displaced) = &room.displaced {
        program_headers::move_segments(&mut layout.segments, displaced);
        layout.moved_sections = program_headers::move_sections(&mut layout.sections, displaced);
    }
    layout.displaced = room.displaced;
    layout.segments_at = room.at;
    layout.cuts = cuts;
    layout
}

/// The program headers, with every segment split at its cuts.
fn segments(tables: &Tables, cuts: &[Cut], segments_at: u64) -> Vec<Segment> {
    let mut segments = Vec::new();
    for segment in &tables.segments {
        let mut rest = *segment;
        for cut in cuts.iter().filter(|cut| segment.holds(cut.hole.start, cut.hole.end)) {
            let size = cut.from - rest.offset;
            segments.push(Segment { file_size: size, memory_size: size, ..rest });
            let skipped = cut.to - rest.offset;
            rest = Segment {
                offset: cut.to,
                address: rest.address.wrapping_add(skipped),
                physical: rest.physical.wrapping_add(skipped),
                file_size: rest.file_size - skipped,
                memory_size: rest.memory_size.saturating_sub(skipped),
                ..rest
            };
        }
        if rest.kind != PT_LOAD || rest.memory_size > 0 || segment.memory_size == 0 {
            segments.push(rest);
        }
    }
    // Offsets and addresses are congruent modulo a smaller alignment than before.
    let align = page_size(tables);
    for load in segments.iter_mut().filter(|segment| segment.kind == PT_LOAD) {
        load.align = load.align.min(align);
    }
    let size = segments.len() as u64 * SEGMENT_SIZE;
    let load = tables.segments.iter().find(|segment| segment.holds(segments_at, segments_at.saturating_add(size)));
    for header in segments.iter_mut().filter(|segment| segment.kind == PT_PHDR) {
        let address = load.map_or(header.address, |load| load.address_of(segments_at));
        *header =
            Segment { offset: segments_at, address, physical: address, file_size: size, memory_size: size, ..*header };
    }
    segments
}

/// The section headers. A section with a gap inside becomes several of the same name; the further ones are at the end of the table, so
/// that no number of a section changes.
fn sections(tables: &Tables, truncated: &[SectionHeader], gaps: &[Hole]) -> Vec<SectionHeader> {
    let mut sections = truncated.to_vec();
    for (index, whole) in tables.sections.iter().enumerate() {
        let mut at = index;
        for gap in gaps.iter().filter(|gap| gap.section == index && gap.end < whole.end()) {
            let end = sections.get(at).map_or(0, SectionHeader::end);
            if let Some(part) = sections.get_mut(at) {
                part.size = gap.start - part.offset;
            }
            at = sections.len();
            let address = whole.address.wrapping_add(gap.end - whole.offset);
            sections.push(SectionHeader { offset: gap.end, size: end - gap.end, address, ..*whole });
        }
    }
    sections
}

impl Layout {
    fn unchanged(tables: &Tables) -> Self {
        Self {
            cuts: Vec::new(),
            segments_at: tables.segments_at,
            displaced: None,
            moved_sections: Vec::new(),
            segments: tables.segments.clone(),
            sections: tables.sections.clone(),
        }
    }

    /// The new offset of a byte of the original file.
    fn moved(&self, offset: u64) -> u64 {
        cuts::moved(&self.stretches(), offset)
    }

    fn stretches(&self) -> Vec<Range<u64>> {
        self.cuts.iter().map(|cut| cut.from..cut.to).collect()
    }

    /// Writes the headers, then cuts.
    fn write(&self, mut file: Vec<u8>, tables: &Tables) -> Vec<u8> {
        let old_table = tables.sections.len() as u64 * SECTION_SIZE;
        let mut sections_at = tables.sections_at;
        if self.sections.len() > tables.sections.len() {
            if sections_at.saturating_add(old_table) == file.len() as u64 {
                file.truncate(usize::try_from(sections_at).unwrap_or(file.len()));
            }
            file.resize(file.len().next_multiple_of(8), 0);
            sections_at = file.len() as u64;
            file.resize(file.len() + self.sections.len() * SECTION_SIZE as usize, 0);
        }
        let sections =
            self.sections.iter().map(|section| SectionHeader { offset: self.moved(section.offset), ..*section });
        let segments = self.segments.iter().map(|segment| Segment { offset: self.moved(segment.offset), ..*segment });
        put(&mut file, sections_at, &sections.flat_map(|section| section.bytes()).collect::<Vec<u8>>());
        if let Some(Displaced { from, to, target }) = self.displaced {
            let block = range(&file, from, to).to_vec();
            put(&mut file, from, &vec![0; block.len()]);
            put(&mut file, target, &block);
            self.move_symbols(&mut file, tables);
        }
        if self.segments_at != tables.segments_at {
            put(&mut file, tables.segments_at, &vec![0; tables.segments.len() * SEGMENT_SIZE as usize]);
        }
        put(&mut file, self.segments_at, &segments.flat_map(|segment| segment.bytes()).collect::<Vec<u8>>());
        put(&mut file, E_PHOFF, &self.moved(self.segments_at).to_le_bytes());
        put(&mut file, E_SHOFF, &self.moved(sections_at).to_le_bytes());
        put(&mut file, E_PHNUM, &u16::try_from(self.segments.len()).unwrap_or(u16::MAX).to_le_bytes());
        if let Ok(count @ ..0xff00) = u16::try_from(self.sections.len()) {
            put(&mut file, E_SHNUM, &count.to_le_bytes());
        }
        cuts::take_out(&mut file, &self.stretches());
        file
    }

    /// Moves the symbols in the displaced stretch.
    fn move_symbols(&self, file: &mut [u8], tables: &Tables) {
        let distance = self.displaced.map_or(0, |displaced| displaced.distance());
        for table in tables.sections.iter().filter(|section| section.kind == SHT_SYMTAB) {
            for at in table.symbols() {
                let section = u16_at(file, at.saturating_add(6), "a symbol").map(usize::from);
                if section.is_ok_and(|section| self.moved_sections.contains(&section)) {
                    let value = u64_at(file, at.saturating_add(8), "a symbol").unwrap_or(0);
                    put(file, at.saturating_add(8), &value.wrapping_add(distance).to_le_bytes());
                }
            }
        }
    }
}
