//! Which inputs are known by their content, so that a hard link to them during the link, or other permissions, are no change.
//!
//! To hash costs a third of an instruction for each byte. That is nothing beside the compilation of an object, but system libraries are large
//! beside a small program.

use object::Endianness;
use object::elf::{FileHeader64, SHF_ALLOC, SHT_NOBITS, SHT_PROGBITS};
use object::read::elf::{FileHeader, SectionHeader};
use offload_bundle::host_object::{self, FileKind};

use crate::sys::stamp::{self, Stamp};

/// Maximum size of an archive whose content is known, in bytes: few of its members are linked.
const LARGEST_ARCHIVE: usize = 2 << 20;

/// Maximum size of all files whose content is known.
const MOST: usize = 256 << 20;

/// The bytes that were hashed so far.
#[derive(Debug, Default)]
pub struct Remembered(usize);

impl Remembered {
    /// Returns the stamp of a file with its content, if that costs little.
    pub fn remember(&mut self, stamp: Stamp, content: &[u8]) -> Stamp {
        let kind = host_object::file_kind(content);
        let is_large = kind == FileKind::Archive && content.len() > LARGEST_ARCHIVE;
        let sum = self.0.saturating_add(content.len());
        if is_large || sum > MOST {
            return stamp;
        }
        self.0 = sum;
        stamp.remember(content, if kind == FileKind::ElfShared { hash_of_library } else { stamp::quick_hash })
    }
}

/// Hashes a shared library without its code and data, which no linker reads.
fn hash_of_library(content: &[u8]) -> u64 {
    parts_of_library(content).map_or_else(|| stamp::quick_hash(content), stamp::quick_hash_of)
}

/// The tables of a shared library: its header, its sections, and those that are not loaded as code or data.
fn parts_of_library(content: &[u8]) -> Option<Vec<&[u8]>> {
    let header = FileHeader64::<Endianness>::parse(content).ok()?;
    let endian = header.endian().ok()?;
    let start = usize::try_from(header.e_shoff(endian)).ok()?;
    let sections = header.section_headers(endian, content).ok()?;
    let mut parts = vec![content.get(..size_of::<FileHeader64<Endianness>>())?];
    parts.push(content.get(start..start.checked_add(size_of_val(sections))?)?);
    for section in sections {
        let kind = section.sh_type(endian);
        let is_loaded = section.sh_flags(endian).0 & SHF_ALLOC.0 != 0;
        if kind != SHT_NOBITS && !(kind == SHT_PROGBITS && is_loaded) {
            parts.push(section.data(endian, content).ok()?);
        }
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_library_is_known_by_its_tables() {
        let library = std::fs::read("/usr/lib/llvm-22/lib/libomptarget.so").unwrap();
        let parts = parts_of_library(&library).unwrap();
        let known: usize = parts.iter().map(|part| part.len()).sum();
        assert!(known > 0 && known < library.len());
        // A byte of the table of sections.
        let mut changed = library.clone();
        let last = changed.len() - 1;
        changed[last] ^= 1;
        assert_ne!(hash_of_library(&library), hash_of_library(&changed));
        assert_eq!(hash_of_library(&library), hash_of_library(&library));
        assert_eq!(hash_of_library(b"no library"), stamp::quick_hash(b"no library"));
    }

    #[test]
    fn large_archives_are_not_known() {
        let folder = tempfile::tempdir().unwrap();
        let known = |name: &str, content: &[u8]| {
            let path = folder.path().join(name);
            std::fs::write(&path, content).unwrap();
            let stamp = Remembered::default().remember(Stamp::of(&path).unwrap(), content);
            stamp.knows_content()
        };
        let archive = |size: usize| [&b"!<arch>\n"[..], &vec![b' '; size]].concat();
        assert!(known("small.a", &archive(100)) && !known("large.a", &archive(LARGEST_ARCHIVE)));
        assert!(known("large.o", &vec![0; LARGEST_ARCHIVE + 1]));
    }
}
