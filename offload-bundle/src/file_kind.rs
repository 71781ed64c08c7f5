//! The kinds of files that device code comes in, by their first bytes.

use object::FileKind as ObjectKind;
use object::elf::{ET_DYN, ET_EXEC, ET_REL};

/// The four bytes that an offload binary starts with.
pub(crate) const OFFLOAD_BINARY_MAGIC: [u8; 4] = [0x10, 0xff, 0x10, 0xad];
/// The four bytes that a fatbin starts with: 0xBA55ED50.
pub(crate) const FATBIN_MAGIC: [u8; 4] = [0x50, 0xed, 0x55, 0xba];

/// The kind of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FileKind {
    /// An ELF object file.
    ElfRelocatable,
    /// An ELF shared library, or a position independent executable: a linker's input in the first case, never in the second.
    ElfShared,
    /// An ELF executable with a fixed address.
    ElfExecutable,
    /// LLVM bitcode, with or without its wrapper header.
    Bitcode,
    /// An archive that holds its members.
    Archive,
    /// An archive that names its members.
    ThinArchive,
    /// LLVM's container of device images.
    OffloadBinary,
    /// NVIDIA's container of device images.
    Fatbin,
    /// A COFF object or PE file.
    Coff,
    /// Anything else: linker scripts, sources, other formats, files too short to tell.
    Unknown,
}

/// Determines a file's kind by its first bytes.
pub fn file_kind(data: &[u8]) -> FileKind {
    const MAGICS: [(&[u8], FileKind); 6] = [
        (b"BC\xc0\xde", FileKind::Bitcode),
        (b"\xde\xc0\x17\x0b", FileKind::Bitcode),
        (b"!<arch>\n", FileKind::Archive),
        (b"!<thin>\n", FileKind::ThinArchive),
        (&OFFLOAD_BINARY_MAGIC, FileKind::OffloadBinary),
        (&FATBIN_MAGIC, FileKind::Fatbin),
    ];
    if let Some((_, kind)) = MAGICS.iter().find(|(magic, _)| data.starts_with(magic)) {
        return *kind;
    }
    if data.starts_with(&object::elf::ELFMAG) {
        return elf_kind(data);
    }
    match ObjectKind::parse(data) {
        Ok(ObjectKind::Coff | ObjectKind::CoffBig | ObjectKind::Pe32 | ObjectKind::Pe64) => FileKind::Coff,
        _ => FileKind::Unknown,
    }
}

fn elf_kind(data: &[u8]) -> FileKind {
    // e_type is at the same place in both classes; EI_DATA says in which order its bytes are.
    let (Some(&order), Some(&[low, high])) = (data.get(5), data.get(16..18).and_then(|b| b.first_chunk())) else {
        return FileKind::Unknown;
    };
    let e_type = match order {
        2 => u16::from_be_bytes([low, high]),
        _ => u16::from_le_bytes([low, high]),
    };
    match object::elf::FileType(e_type) {
        ET_REL => FileKind::ElfRelocatable,
        ET_DYN => FileKind::ElfShared,
        ET_EXEC => FileKind::ElfExecutable,
        _ => FileKind::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_by_magic() {
        let cases: [(&[u8], FileKind); 10] = [
            (b"BC\xc0\xde", FileKind::Bitcode),
            (b"!<arch>\n", FileKind::Archive),
            (b"!<thin>\n", FileKind::ThinArchive),
            (&OFFLOAD_BINARY_MAGIC, FileKind::OffloadBinary),
            (&FATBIN_MAGIC, FileKind::Fatbin),
            (b"\x7fELF", FileKind::Unknown),
            (b"\x7fELF\x02\x01\x01\0\0\0\0\0\0\0\0\0\x03\0", FileKind::ElfShared),
            (b"\x7fELF\x02\x02\x01\0\0\0\0\0\0\0\0\0\0\x02", FileKind::ElfExecutable),
            (b"INPUT(libx.a)", FileKind::Unknown),
            (b"", FileKind::Unknown),
        ];
        for (data, kind) in cases {
            assert_eq!(file_kind(data), kind, "{data:x?}");
        }
        assert_eq!(file_kind(&crate::samples::host_object(&[])), FileKind::ElfRelocatable);
    }
}
