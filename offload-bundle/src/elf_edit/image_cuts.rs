//! Chooses which unused bytes of a program or shared library are cut out of the file, and where its program headers go then.

use super::program_headers::{self, Room};
use super::shrink::Hole;
use super::tables::{PT_INTERP, PT_LOAD, SEGMENT_SIZE, Segment, Tables};
use crate::bytes::u64_at;

/// A stretch to cut out of the file.
#[derive(Debug, Clone, Copy)]
pub(super) struct Cut {
    pub from: u64,
    pub to: u64,
    pub hole: Hole,
}

/// A choice of cuts.
pub(super) struct ImageCuts {
    /// By offset.
    pub cuts: Vec<Cut>,
    /// Where the program headers go.
    pub room: Room,
    /// The hole that makes room for them.
    pub host: Hole,
}

/// Maximum number of cuts in a shared library; each costs a program header.
const MOST_CUTS: usize = 1024;
/// Linux before 6.17 does not start programs whose program headers take more than a page.
const MOST_HEADERS_OF_PROGRAM: usize = (PAGE / SEGMENT_SIZE) as usize;
/// Maximum number of holes that are tried as the place of the program headers.
const MOST_HOSTS: usize = 32;
/// The smallest page size of any machine.
const PAGE: u64 = 4096;

/// Chooses the cuts that remove the most bytes. The program headers of the pieces need room in a hole, and nothing in front of it can be
/// cut.
pub(super) fn choose(data: &[u8], tables: &Tables, holes: &[Hole]) -> Option<ImageCuts> {
    let align = page_size(tables);
    if !align.is_power_of_two() || tables.sections.len() + MOST_CUTS >= 0xff00 {
        return None;
    }
    let is_program = is_program(data, tables);
    let most = if is_program { MOST_HEADERS_OF_PROGRAM.saturating_sub(tables.segments.len()) } else { MOST_CUTS };
    let mut best: Option<ImageCuts> = None;
    for (index, host) in hosts(holes) {
        let place = place(tables, &host).filter(|place| !is_program || *place == HostPlace::AsFirst);
        let Some(place) = place else { continue };
        let holes = holes.get(index..).unwrap_or_default();
        let Some(cuts) = behind(tables, (host, place), holes, align, most) else { continue };
        if best.as_ref().is_none_or(|best| cuts.freed() > best.freed()) {
            best = Some(cuts);
        }
    }
    best
}

/// The holes that may make room for the program headers. A hole that is no larger than one in front of it has no more room, and less behind
/// it to cut.
fn hosts(holes: &[Hole]) -> Vec<(usize, Hole)> {
    let mut hosts: Vec<(usize, Hole)> = Vec::new();
    for (index, hole) in holes.iter().enumerate() {
        if hosts.last().is_none_or(|(_, last)| hole.size() > last.size()) {
            hosts.push((index, *hole));
        }
    }
    hosts.truncate(MOST_HOSTS);
    hosts
}

/// How the segment of a hole that makes room for the program headers is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HostPlace {
    /// At the distance from the first segment that it has in the file.
    AsFirst,
    /// At another one: uninitialized data is in front of it. The kernel finds the headers of programs by their offset, as if the file were
    /// loaded in one piece. Loaders find those of shared libraries in the segment that holds them.
    Apart,
}

fn place(tables: &Tables, host: &Hole) -> Option<HostPlace> {
    let mut loads = tables.segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let distance = |segment: &Segment| segment.address.wrapping_sub(segment.offset);
    let first = loads.clone().next()?;
    let segment = loads.find(|segment| segment.holds(host.start, host.end))?;
    Some(if distance(segment) == distance(first) { HostPlace::AsFirst } else { HostPlace::Apart })
}

/// The cuts in `holes`, of which `host` is the first and makes room for the program headers.
fn behind(
    tables: &Tables,
    (host, place): (Hole, HostPlace),
    holes: &[Hole],
    align: u64,
    most: usize,
) -> Option<ImageCuts> {
    let loads: Vec<&Segment> = tables.segments.iter().filter(|segment| segment.kind == PT_LOAD).collect();
    let mut cuts: Vec<Cut> = holes.iter().filter_map(|hole| cut(&loads, hole, 0, align)).collect();
    cuts.sort_by_key(|cut| std::cmp::Reverse(cut.to - cut.from));
    cuts.truncate(most);
    let room = loop {
        match program_headers::room(tables, &host, place == HostPlace::AsFirst, tables.segments.len() + cuts.len()) {
            Some(room) => break room,
            None => cuts.pop()?,
        };
    };
    cuts.sort_by_key(|cut| cut.from);
    if let Some(own) = cuts.first_mut().filter(|cut| cut.hole.start == host.start) {
        match cut(&loads, &host, room.reserved, align) {
            Some(smaller) => *own = smaller,
            None => drop(cuts.remove(0)),
        }
    }
    (!cuts.is_empty()).then_some(ImageCuts { cuts, room, host })
}

impl ImageCuts {
    /// Number of bytes that the cuts remove.
    fn freed(&self) -> u64 {
        self.cuts.iter().map(|cut| cut.to - cut.from).sum()
    }
}

/// The whole pages of a hole, less `reserved` bytes at its start.
fn cut(loads: &[&Segment], hole: &Hole, reserved: u64, align: u64) -> Option<Cut> {
    let mut holding = loads.iter().filter(|segment| segment.holds(hole.start, hole.end));
    let (Some(segment), None) = (holding.next(), holding.next()) else {
        return None;
    };
    let start = hole.start.checked_add(reserved)?;
    let to_boundary = segment.address_of(start).wrapping_neg() & (align - 1);
    let from = start.checked_add(to_boundary)?;
    let len = hole.end.checked_sub(from)? / align * align;
    (len > 0).then(|| Cut { from, to: from + len, hole: *hole })
}

/// The unit of cuts: the page size, as far as the file tells it.
///
/// Old linkers aligned segments to 2 MiB, which would leave nothing to cut. x86-64 has pages of 4 KiB, so if no section needs more than
/// that, segments do not either.
pub(super) fn page_size(tables: &Tables) -> u64 {
    const EM_X86_64: u64 = 62;
    const SHF_ALLOC: u64 = 2;
    let loads = tables.segments.iter().filter(|segment| segment.kind == PT_LOAD);
    let aligned = loads.map(|segment| segment.align).max().unwrap_or(0).max(PAGE);
    let sections = tables.sections.iter().filter(|section| section.flags & SHF_ALLOC != 0);
    let wanted = sections.map(|section| section.align).max().unwrap_or(u64::MAX);
    if tables.machine == EM_X86_64 && wanted <= PAGE { PAGE } else { aligned }
}

/// Whether the file is a program and not just a shared library. In doubt it is a program.
fn is_program(data: &[u8], tables: &Tables) -> bool {
    const PT_DYNAMIC: u32 = 2;
    const DT_FLAGS_1: u64 = 0x6fff_fffb;
    const DF_1_PIE: u64 = 0x0800_0000;
    const ENTRY_SIZE: u64 = 16;
    let Some(dynamic) = tables.segments.iter().find(|segment| segment.kind == PT_DYNAMIC) else { return true };
    let is_flags = |at: &u64| u64_at(data, *at, "").is_ok_and(|tag| tag == DT_FLAGS_1);
    let entries = (0..dynamic.file_size / ENTRY_SIZE).map(|index| dynamic.offset.saturating_add(index * ENTRY_SIZE));
    let flags = entries.take(1000).find(is_flags).and_then(|at| u64_at(data, at.saturating_add(8), "").ok());
    tables.is_fixed
        || tables.segments.iter().any(|segment| segment.kind == PT_INTERP)
        || flags.is_some_and(|flags| flags & DF_1_PIE != 0)
}
