//! The last step of `ld -r`: the object becomes final for device code.
//!
//! Its offload entries move to a section of their own name, so that the registration code in it sees
//! just these, and its device images go, so that no later link takes them for open ends. The object is
//! patched in place rather than written anew: linkers leave things in it (groups, address-significance
//! tables) that no ELF writer of ours should have to understand.

use std::ops::Range;
use std::path::Path;

use md5::{Digest, Md5};
use object::Endianness;
use object::elf::{FileHeader64, SHT_SYMTAB, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};

use crate::diag::error::Errors;
use crate::host::error::Error;
use crate::sys::temp_files;

const ENTRIES: &str = "llvm_offload_entries";
const IMAGES: &[u8] = b".llvm.offloading";

/// Rewrites what the linker made at `raw` and puts it at `output`.
///
/// # Errors
/// The linker made something that is no ELF object, or the disk is full.
pub fn seal(raw: &Path, output: &Path) -> Result<(), Errors> {
    let cannot = |error: &dyn std::fmt::Display| Error::Seal { output: output.to_owned(), reason: error.to_string() };
    let bytes = std::fs::read(raw).map_err(|error| cannot(&error))?;
    let suffix = suffix(&bytes);
    let edits = Edits::find(&bytes, &suffix).map_err(|error| cannot(&error))?;
    let free = edits.free.clone();
    let sealed = compact(edits.apply(bytes), free).map_err(|error| cannot(&error))?;
    temp_files::write_output(output, &sealed)
}

/// The low 64 bits of the MD5 of the linker's output, as clang-linker-wrapper names the section.
fn suffix(bytes: &[u8]) -> String {
    let digest = Md5::digest(bytes);
    digest[..8].iter().rev().map(|byte| format!("{byte:02x}")).collect()
}

/// What is to be changed in an object, by place in the file.
#[derive(Default)]
struct Edits {
    words: Vec<(usize, u32)>,
    longs: Vec<(usize, u64)>,
    /// Bytes to append, in order; the places above already count with them.
    tail: Vec<u8>,
    /// Where device images lay: bytes that nothing refers to any more.
    free: Vec<Range<usize>>,
}

impl Edits {
    fn find(bytes: &[u8], suffix: &str) -> object::read::Result<Self> {
        let header = FileHeader64::<Endianness>::parse(bytes)?;
        let endian = header.endian()?;
        let sections = header.sections(endian, bytes)?;
        let mut edits = Edits::default();
        let place = |field: *const u8| field as usize - bytes.as_ptr() as usize;

        let names = header.shstrndx(endian, bytes)?;
        let names = sections.section(object::SectionIndex(names as usize))?;
        let mut name_table = Strings::of(names, endian, bytes)?;
        for section in sections.iter() {
            match sections.section_name(endian, section)? {
                name if name == IMAGES => edits.empty(section, endian, &place),
                name if name == ENTRIES.as_bytes() => {
                    let name = name_table.add(&format!("{ENTRIES}_{suffix}"));
                    edits.words.push((place(std::ptr::from_ref(&section.sh_name).cast()), name));
                }
                _ => {}
            }
        }
        edits.append(bytes.len(), names, name_table, &place);

        let symbols = sections.symbols(endian, bytes, SHT_SYMTAB)?;
        let strings = sections.section(symbols.string_section())?;
        let mut string_table = Strings::of(strings, endian, bytes)?;
        for symbol in symbols.iter() {
            let symbol: &Sym64<Endianness> = symbol;
            let name = symbol.name(endian, symbols.strings())?;
            if let Some(bound) =
                ["__start_", "__stop_"].iter().find(|bound| name == format!("{bound}{ENTRIES}").as_bytes())
            {
                let name = string_table.add(&format!("{bound}{ENTRIES}_{suffix}"));
                edits.words.push((place(std::ptr::from_ref(&symbol.st_name).cast()), name));
            }
        }
        edits.append(bytes.len(), strings, string_table, &place);
        Ok(edits)
    }

    /// Makes a section of device images an empty one without a name. Its header stays, because others
    /// count sections by number.
    fn empty(&mut self, section: &SectionHeader64<Endianness>, endian: Endianness, place: &dyn Fn(*const u8) -> usize) {
        let (start, size) = (section.sh_offset(endian), section.sh_size(endian));
        if let (Ok(start), Ok(size)) = (usize::try_from(start), usize::try_from(size)) {
            self.free.push(start..start.saturating_add(size));
        }
        self.words.push((place(std::ptr::from_ref(&section.sh_name).cast()), 0));
        self.words.push((place(std::ptr::from_ref(&section.sh_type).cast()), object::elf::SHT_PROGBITS.0));
        self.longs.push((place(std::ptr::from_ref(&section.sh_flags).cast()), 0));
        self.longs.push((place(std::ptr::from_ref(&section.sh_size).cast()), 0));
    }

    /// Puts a longer string table behind the file and points its section there.
    fn append(
        &mut self,
        file_size: usize,
        section: &SectionHeader64<Endianness>,
        table: Strings,
        place: &dyn Fn(*const u8) -> usize,
    ) {
        let start = file_size + self.tail.len();
        self.longs.push((place(std::ptr::from_ref(&section.sh_offset).cast()), start as u64));
        self.longs.push((place(std::ptr::from_ref(&section.sh_size).cast()), table.0.len() as u64));
        self.tail.extend(table.0);
    }

    fn apply(self, mut bytes: Vec<u8>) -> Vec<u8> {
        for (place, value) in self.words {
            bytes[place..place + 4].copy_from_slice(&value.to_le_bytes());
        }
        for (place, value) in self.longs {
            bytes[place..place + 8].copy_from_slice(&value.to_le_bytes());
        }
        bytes.extend(self.tail);
        bytes
    }
}

/// Takes the free bytes out of the file and moves what lies behind them. What is taken out is a multiple
/// of the largest alignment, so that everything stays aligned.
fn compact(mut bytes: Vec<u8>, mut free: Vec<Range<usize>>) -> object::read::Result<Vec<u8>> {
    let header = FileHeader64::<Endianness>::parse(&bytes[..])?;
    let endian = header.endian()?;
    let sections = header.sections(endian, &bytes[..])?;
    let alignment = sections.iter().map(|section| section.sh_addralign(endian)).max().unwrap_or(1).max(8);
    let alignment = usize::try_from(alignment).unwrap_or(usize::MAX);
    free.retain(|range| range.end <= bytes.len());
    free.sort_by_key(|range| range.start);
    for range in &mut free {
        range.end = range.start + (range.len() / alignment) * alignment;
    }
    let moved = |offset: u64| {
        let before = free.iter().filter(|range| (range.start as u64) < offset);
        offset - before.map(|range| range.len() as u64).sum::<u64>()
    };
    let place = |field: *const u8| field as usize - bytes.as_ptr() as usize;
    let mut offsets = vec![(place(std::ptr::from_ref(&header.e_shoff).cast()), moved(header.e_shoff(endian)))];
    for section in sections.iter() {
        offsets.push((place(std::ptr::from_ref(&section.sh_offset).cast()), moved(section.sh_offset(endian))));
    }
    for (place, offset) in offsets {
        bytes[place..place + 8].copy_from_slice(&offset.to_le_bytes());
    }
    for range in free.into_iter().rev() {
        bytes.drain(range);
    }
    Ok(bytes)
}

/// A string table that grows.
struct Strings(Vec<u8>);

impl Strings {
    fn of(section: &SectionHeader64<Endianness>, endian: Endianness, bytes: &[u8]) -> object::read::Result<Self> {
        Ok(Strings(section.data(endian, bytes)?.to_vec()))
    }

    fn add(&mut self, text: &str) -> u32 {
        let start = self.0.len();
        self.0.extend(text.as_bytes());
        self.0.push(0);
        u32::try_from(start).unwrap_or(0)
    }
}
