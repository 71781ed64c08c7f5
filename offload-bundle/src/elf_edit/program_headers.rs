//! Finds room for more program headers than a program was linked with.

use super::shrink::Hole;
use super::tables::{PT_INTERP, PT_LOAD, PT_PHDR, SEGMENT_SIZE, SHT_NOBITS, SHT_NOTE, SectionHeader, Segment, Tables};

const PT_NOTE: u32 = 4;
const PT_GNU_PROPERTY: u32 = 0x6474_e553;
const SHF_ALLOC: u64 = 2;

/// The place of the program headers.
#[derive(Debug, Clone, Copy)]
pub(super) struct Room {
    /// Where the headers start in the file.
    pub at: u64,
    /// Number of bytes used at the start of the hole.
    pub reserved: u64,
    /// The stretch behind the headers that moves into the hole.
    pub displaced: Option<Displaced>,
}

/// A stretch of the file that moves within its segment, by the same distance in the file and in memory.
#[derive(Debug, Clone, Copy)]
pub(super) struct Displaced {
    pub from: u64,
    pub to: u64,
    /// Where it goes.
    pub target: u64,
}

impl Displaced {
    /// The distance in bytes.
    pub fn distance(&self) -> u64 {
        self.target - self.from
    }

    fn holds(&self, from: u64, to: u64) -> bool {
        self.from <= from && to <= self.to && from < to
    }
}

/// Finds room for `count` program headers: in place if what follows them can move into `hole`, else in the hole itself. What moves has to move
/// in memory as in the file (`is_displaceable`).
///
/// In place is better, since GNU `strip` and `objcopy` write program headers at the start of a file without looking at what is there.
pub(super) fn room(tables: &Tables, hole: &Hole, is_displaceable: bool, count: usize) -> Option<Room> {
    let size = count as u64 * SEGMENT_SIZE;
    let block = displaced(tables, hole, size).filter(|_| is_displaceable);
    let room = block.map(|displaced| Room {
        at: tables.segments_at,
        reserved: displaced.target + (displaced.to - displaced.from) - hole.start,
        displaced: Some(displaced),
    });
    let room = room.unwrap_or(Room { at: hole.start, reserved: size, displaced: None });
    (room.reserved <= hole.end - hole.start).then_some(room)
}

/// The notes and the interpreter's name behind the program headers, if nothing else is in the way: only program headers refer to
/// them.
fn displaced(tables: &Tables, hole: &Hole, size: u64) -> Option<Displaced> {
    let old_end = tables.segments_at + tables.segments.len() as u64 * SEGMENT_SIZE;
    let end = tables.segments_at + size;
    let loaded =
        |section: &&SectionHeader| section.flags & SHF_ALLOC != 0 && section.kind != SHT_NOBITS && section.size > 0;
    let mut sections: Vec<&SectionHeader> = tables.sections.iter().filter(loaded).collect();
    sections.sort_by_key(|section| section.offset);
    let behind: Vec<&SectionHeader> = sections.into_iter().filter(|section| section.offset >= old_end).collect();
    let movable = behind.iter().take_while(|section| is_movable(tables, section)).count();
    let (block, rest) = behind.split_at(movable);
    let (first, last) = (block.first()?, block.last()?);
    let fits = rest.first().is_none_or(|section| section.offset >= end) && last.end() <= hole.start;
    // The alignment does not change.
    let target = hole.start.checked_add(first.offset.wrapping_sub(hole.start) % 64)?;
    let align = block.iter().map(|section| section.align).max().unwrap_or(1);
    let displaced = Displaced { from: first.offset, to: last.end(), target };
    (fits && align <= 64 && is_alone(tables, &displaced)).then_some(displaced)
}

fn is_movable(tables: &Tables, section: &SectionHeader) -> bool {
    let is_interpreter = |segment: &Segment| segment.kind == PT_INTERP && segment.offset == section.offset;
    section.kind == SHT_NOTE || tables.segments.iter().any(is_interpreter)
}

/// Whether only program headers of notes and of the interpreter begin or end in the stretch. Compares addresses, since mold writes RELRO
/// without an offset.
fn is_alone(tables: &Tables, displaced: &Displaced) -> bool {
    let Some(load) = tables.segments.iter().find(|segment| segment.holds(displaced.from, displaced.to)) else {
        return false;
    };
    let (from, to) = (load.address_of(displaced.from), load.address_of(displaced.to));
    tables.segments.iter().filter(|segment| !matches!(segment.kind, PT_LOAD | PT_PHDR)).all(|segment| {
        let end = segment.address.saturating_add(segment.memory_size);
        let apart = end <= from || to <= segment.address || segment.memory_size == 0;
        let is_inside = displaced.holds(segment.offset, segment.offset.saturating_add(segment.file_size));
        apart || moves_along(segment) && is_inside
    })
}

fn moves_along(segment: &Segment) -> bool {
    matches!(segment.kind, PT_INTERP | PT_NOTE | PT_GNU_PROPERTY)
}

/// Points the program headers of the displaced stretch to its new place.
pub(super) fn move_segments(segments: &mut [Segment], displaced: &Displaced) {
    let along = segments.iter_mut().filter(|segment| moves_along(segment));
    for segment in
        along.filter(|segment| displaced.holds(segment.offset, segment.offset.saturating_add(segment.file_size)))
    {
        segment.offset += displaced.distance();
        segment.address = segment.address.wrapping_add(displaced.distance());
        segment.physical = segment.physical.wrapping_add(displaced.distance());
    }
}

/// The same for section headers; returns the numbers of those that moved.
pub(super) fn move_sections(sections: &mut [SectionHeader], displaced: &Displaced) -> Vec<usize> {
    let mut moved = Vec::new();
    for (index, section) in sections.iter_mut().enumerate() {
        if section.flags & SHF_ALLOC != 0 && displaced.holds(section.offset, section.end()) {
            section.offset += displaced.distance();
            section.address = section.address.wrapping_add(displaced.distance());
            moved.push(index);
        }
    }
    moved
}
