//! NVIDIA's fatbin: machine code, PTX and LTO-IR for several GPUs in one container.
//!
//! NVIDIA does not document it. The layout was found by comparing what `fatbinary` of CUDA 12.9 and 13.0 writes; the tests compare
//! [`FatbinWriter`] with it byte for byte. All numbers are little endian.
//!
//! A file header of 16 bytes: u32 magic, u16 version, u16 size of the header, u64 size of everything behind it. Then the entries, back
//! to back, each a header of 64 bytes, its tail (name, options), and the payload padded to 8:
//!
//! | offset | type | field |
//! | --- | --- | --- |
//! | 0x00 | u16 | kind |
//! | 0x02 | u16 | 0x0101 |
//! | 0x04 | u32 | size of the header with its tail |
//! | 0x08 | u64 | size of the payload as stored, padded |
//! | 0x10 | u32 | exact size of the payload as stored if it is compressed, else 0 |
//! | 0x14 | u32 | offset of the option block from the start of the entry, 0 if there is none |
//! | 0x18 | u16, u16 | minor and major version: of PTX, of the ELF ABI, of LTO-IR |
//! | 0x1c | u32 | number of the architecture: 90 |
//! | 0x20 | u32, u32 | offset and length of the name, 0 if there is none |
//! | 0x28 | u64 | flags |
//! | 0x30 | u64 | 0 |
//! | 0x38 | u64 | size before compression, 0 if the payload is not compressed |

mod builder;
mod builder_options;
mod checks;
mod concatenation;
mod cubin_header;
mod encode;
mod entry;
mod error;
mod ptx_squeeze;
mod read;
mod recompress;
mod relocatable;
mod rewritten;
#[cfg(test)]
mod tests;
mod without_code;
mod write;

pub use builder::FatbinBuilder;
pub use builder_options::{BuilderOptions, CompressMode, Host, Producer, Validation};
pub use entry::{Compression, EntryKind, FatbinEntry, Part};
pub use error::FatbinError;
pub use ptx_squeeze::squeeze;
pub use read::{Container, read, read_containers};
pub(crate) use read::{container_at, entries_at};
pub use recompress::StoreMode;
pub(crate) use recompress::restored;
pub(crate) use rewritten::{EntryEdit, concatenated, rewritten};
pub use write::FatbinWriter;

/// The four bytes that a fatbin starts with: 0xBA55ED50.
pub const MAGIC: [u8; 4] = crate::file_kind::FATBIN_MAGIC;

const FILE_HEADER_SIZE: u64 = 16;
const ENTRY_HEADER_SIZE: u64 = 64;

/// The header of a fatbin whose entries are `contents_size` bytes together.
fn file_header(contents_size: u64) -> [u8; 16] {
    let mut header = [0; 16];
    let (magic, rest) = header.split_at_mut(4);
    magic.copy_from_slice(&MAGIC);
    let (numbers, size) = rest.split_at_mut(4);
    // Version 1, header of 16 bytes.
    numbers.copy_from_slice(&[1, 0, FILE_HEADER_SIZE as u8, 0]);
    size.copy_from_slice(&contents_size.to_le_bytes());
    header
}

/// Bits of an entry's flags.
mod flag {
    pub(super) const BITS_64: u64 = 0x1;
    pub(super) const DEBUG: u64 = 0x2;
    pub(super) const CUDA: u64 = 0x4;
    pub(super) const OPENCL: u64 = 0x8;
    pub(super) const HOST_LINUX: u64 = 0x10;
    pub(super) const HOST_MAC: u64 = 0x20;
    pub(super) const HOST_WINDOWS: u64 = 0x40;
    pub(super) const ZLIB: u64 = 0x1000;
    pub(super) const LZ4: u64 = 0x2000;
    pub(super) const LZ4_FRAME: u64 = 0x4000;
    pub(super) const ZSTD: u64 = 0x8000;
    /// LTO-IR that NVIDIA's writer scrambled after it compressed it.
    pub(super) const SCRAMBLED: u64 = 0x1_0000;
    pub(super) const ACCELERATED: u64 = 0x10_0000;
    pub(super) const FAMILY: u64 = 0x20_0000;
    /// Machine code that the driver may finalize for another GPU.
    pub(super) const FINALIZABLE: u64 = 0x100_0000;
}
