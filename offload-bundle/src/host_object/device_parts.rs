//! Which parts of a program or library readers of device code look at, so that the others need not be read from disk.

use std::io::{Read, Seek};
use std::ops::Range;

use object::elf::{FileHeader64, SHF_EXECINSTR, SHT_NOBITS};
use object::read::elf::{FileHeader, SectionHeader};
use object::{Endianness, ReadCache};

use crate::elf_sections::{ElfParts, between};

/// Sections of compilers for the host that hold no device code and nothing that leads to it.
const OF_HOST: [&[u8]; 5] = [b".rodata", b".eh_frame", b".eh_frame_hdr", b".gcc_except_table", b".debug"];

/// The parts of a file of `size` bytes, in order, without the sections of a 64-bit ELF file with machine code of the host, its constants, its
/// unwind tables and its debug information.
///
/// The whole file, if it is another one, damaged, or has offload entries: the names of their kernels may be constants.
pub fn device_parts(file: &mut (impl Read + Seek), size: u64) -> Vec<Range<u64>> {
    between(&parts(file).unwrap_or_default(), size)
}

fn parts(file: &mut (impl Read + Seek)) -> Option<Vec<Range<u64>>> {
    let cache = ReadCache::new(file);
    let header = FileHeader64::<Endianness>::parse(&cache).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.section_headers(endian, &cache).ok()?;
    let names = header.section_strings(endian, &cache, headers).ok()?;
    let mut parts = ElfParts::of_header(header, endian)?;
    for section in headers.iter().filter(|section| section.sh_type(endian) != SHT_NOBITS) {
        let name = section.name(endian, names).ok()?;
        if memchr::memmem::find(name, b"offload").is_some() {
            return None;
        }
        let has_code = section.sh_flags(endian).contains(SHF_EXECINSTR);
        parts.add(section.sh_offset(endian), section.sh_size(endian), has_code || is_of_host(name))?;
    }
    parts.apart()
}

/// `.debug` stands for `.debug_info` and so on, `.rodata` for `.rodata.cst16`.
fn is_of_host(name: &[u8]) -> bool {
    let is_one = |of_host: &&[u8]| {
        name.strip_prefix(*of_host).is_some_and(|rest| matches!(rest.first(), None | Some(b'.' | b'_')))
    };
    OF_HOST.iter().any(is_one)
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use object::write::Object;
    use object::{Architecture, BinaryFormat, SectionKind};
    use proptest::prelude::*;

    use super::*;
    use crate::host_object::sections;

    fn file(names: &[(&str, SectionKind)]) -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        for (name, kind) in names {
            let id = object.add_section(Vec::new(), name.as_bytes().to_vec(), *kind);
            object.append_section_data(id, &[7; 100], 16);
        }
        object.write().expect("an object")
    }

    fn named(bytes: &[u8]) -> Vec<String> {
        let found = parts(&mut Cursor::new(bytes)).unwrap_or_default();
        let sections = sections(bytes).expect("sections");
        let name = |range: &Range<u64>| {
            let section = sections.iter().find(|section| section.offset == range.start && section.in_file() > 0);
            section.map(|section| String::from_utf8_lossy(section.name).into_owned()).unwrap_or_default()
        };
        found.iter().map(name).collect()
    }

    #[test]
    fn code_constants_unwind_tables_and_debug_information() {
        let all = [
            (".text", SectionKind::Text),
            (".nv_fatbin", SectionKind::ReadOnlyData),
            (".rodata", SectionKind::ReadOnlyData),
            (".rodata1", SectionKind::ReadOnlyData),
            (".eh_frame", SectionKind::ReadOnlyData),
            (".debug_info", SectionKind::Debug),
            (".nvFatBinSegment", SectionKind::Data),
        ];
        assert_eq!(named(&file(&all)), [".text", ".rodata", ".eh_frame", ".debug_info"]);
    }

    #[test]
    fn files_that_are_read_whole() {
        let text = (".text", SectionKind::Text);
        assert!(named(&file(&[text, ("llvm_offload_entries", SectionKind::Data)])).is_empty());
        let mut overlapping = file(&[text]);
        // The table starts inside the code.
        let shoff = u64::from_le_bytes(overlapping[40..48].try_into().expect("8 bytes"));
        let table = overlapping.split_off(usize::try_from(shoff).expect("an offset"));
        overlapping.truncate(64 + 8);
        overlapping.extend(table);
        overlapping[40..48].copy_from_slice(&72_u64.to_le_bytes());
        overlapping.resize(4096, 0);
        for bytes in [overlapping.as_slice(), b"text"] {
            let size = bytes.len() as u64;
            assert_eq!(device_parts(&mut Cursor::new(bytes), size), vec![0..size]);
        }
        // It was cut off while it was read.
        assert_eq!(device_parts(&mut Cursor::new(&file(&[text])), 100), vec![0..100]);
    }

    proptest! {
        #[test]
        fn any_file_has_parts_inside_of_it_and_apart(at in 0..600_usize, value in any::<u8>()) {
            let mut bytes = file(&[(".text", SectionKind::Text), (".rodata", SectionKind::ReadOnlyData)]);
            if let Some(byte) = bytes.get_mut(at) { *byte = value }
            let size = bytes.len() as u64;
            let found = device_parts(&mut Cursor::new(&bytes), size);
            prop_assert!(found.last().is_some_and(|last| last.end <= size));
            prop_assert!(found.is_sorted_by(|before, after| before.end <= after.start));
        }
    }
}
