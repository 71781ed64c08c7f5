//! Writing fatbins as `fatbinary` of CUDA 13.0 does.

use std::borrow::Cow;
use std::io;

use super::{ENTRY_HEADER_SIZE, Entry, EntryKind, FILE_HEADER_SIZE, MAGIC, compress, flag, ptx_squeeze, read};
use crate::FormatError;
use crate::arch::{ArchFeature, GpuArch};
use crate::bytes::{pad_to_8, padding_to_8};
use crate::cubin;

/// The operating system of the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Host {
    /// Linux.
    #[default]
    Linux,
    /// macOS.
    Mac,
    /// Windows.
    Windows,
}

/// Which payloads are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompressPolicy {
    /// PTX and LTO-IR; cubins only with debug information.
    #[default]
    Default,
    /// All (`-compress-all`).
    All,
    /// None (`-compress=false`).
    Never,
}

/// What holds for every entry of a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Options {
    /// Device code with debug information (`-g`).
    pub debug: bool,
    /// A 64-bit host (`-64`).
    pub is_64_bit: bool,
    /// The host.
    pub host: Host,
    /// Which payloads are compressed.
    pub compress: CompressPolicy,
    /// The level of Zstandard: 5 is the default of `fatbinary`, 19 its mode `size`, which compresses cubins too.
    pub level: i32,
    /// LZ4 instead of Zstandard, as in the mode `speed`: drivers before 550 read no Zstandard.
    pub lz4: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            debug: false,
            is_64_bit: true,
            host: Host::Linux,
            compress: CompressPolicy::Default,
            level: 5,
            lz4: false,
        }
    }
}

/// Collects entries, then writes them as one fatbin. Uncompressed payloads stay borrowed until they are written.
#[derive(Debug, Clone, Default)]
pub struct FatbinWriter<'a> {
    options: Options,
    entries: Vec<WrittenEntry<'a>>,
}

#[derive(Debug, Clone)]
struct WrittenEntry<'a> {
    /// With its tail.
    header: Vec<u8>,
    /// Without its padding.
    payload: Cow<'a, [u8]>,
}

impl WrittenEntry<'_> {
    fn size(&self) -> u64 {
        (self.header.len() as u64).saturating_add((self.payload.len() as u64).next_multiple_of(8))
    }
}

/// What differs between the kinds of entries.
struct Description<'o> {
    kind: EntryKind,
    arch: GpuArch,
    code_version: (u16, u16),
    flags: u64,
    identifier: &'o str,
    block: Block<'o>,
}

/// What stands in the option block.
enum Block<'o> {
    None,
    Options(&'o str),
    Compat(&'o [u8]),
}

impl<'a> FatbinWriter<'a> {
    /// A fatbin without entries, which is a legal one.
    pub fn new(options: Options) -> Self {
        Self { options, entries: Vec::new() }
    }

    /// Adds machine code.
    ///
    /// `arch` says whether the entry counts as `a` or `f` code: a cubin does not always record it.
    /// An empty `identifier` is not written.
    ///
    /// # Errors
    /// Bytes that are no sound cubin, or one for another architecture or pointer size. Offsets are those in `bytes`.
    pub fn add_cubin(
        &mut self,
        arch: GpuArch,
        bytes: impl Into<Cow<'a, [u8]>>,
        identifier: &str,
    ) -> Result<(), FormatError> {
        let bytes = bytes.into();
        let image = cubin::parse(&bytes)?;
        if image.arch().number != arch.number {
            let what = format!("cubin for {} where one for {arch} is wanted", image.arch());
            return Err(FormatError::new(0, what));
        }
        if image.is_64_bit() != self.options.is_64_bit {
            return Err(FormatError::new(4, "cubin with pointers of another size than the host's"));
        }
        let finalizable = image.finalizable();
        let compat = image.nv_compat().filter(|_| finalizable).map(<[u8]>::to_vec);
        let description = Description {
            kind: EntryKind::Elf,
            arch,
            code_version: (1, u16::from(image.abi_version())),
            flags: if finalizable { flag::FINALIZABLE } else { 0 },
            identifier,
            block: compat.as_deref().map_or(Block::None, Block::Compat),
        };
        let compressed = match self.options.compress {
            CompressPolicy::Default => self.options.debug,
            CompressPolicy::All => true,
            CompressPolicy::Never => false,
        };
        self.push(&description, bytes, compressed)
    }

    /// Adds PTX, which is stored in a shorter form (see [`super::squeeze`]).
    ///
    /// `options` are options of ptxas that the driver is to use; they and `identifier` may be empty.
    ///
    /// # Errors
    /// Text without a `.version`.
    pub fn add_ptx(&mut self, arch: GpuArch, text: &[u8], identifier: &str, options: &str) -> Result<(), FormatError> {
        let code_version =
            ptx_version(text).ok_or_else(|| FormatError::new(0, "PTX without a `.version` such as 9.0"))?;
        let block = Block::Options(options);
        let description = Description { kind: EntryKind::Ptx, arch, code_version, flags: 0, identifier, block };
        let compressed = self.options.compress != CompressPolicy::Never;
        self.push(&description, Cow::Owned(ptx_squeeze::squeeze(text)), compressed)
    }

    /// Adds NVVM IR for link-time optimization.
    ///
    /// Compressed, it is not stored as `fatbinary` stores it, which scrambles it; NVIDIA's linkers read it all the same.
    ///
    /// # Errors
    /// Bytes that do not start as LTO-IR does.
    pub fn add_ltoir(
        &mut self,
        arch: GpuArch,
        bytes: impl Into<Cow<'a, [u8]>>,
        identifier: &str,
        options: &str,
    ) -> Result<(), FormatError> {
        const LTOIR_MAGIC: [u8; 4] = [0xed, 0x43, 0x4e, 0x7f];
        let bytes = bytes.into();
        let Some(&[a, b, c, d, major, minor]) = bytes.first_chunk() else {
            return Err(FormatError::new(0, "LTO-IR of less than 6 bytes"));
        };
        if [a, b, c, d] != LTOIR_MAGIC {
            return Err(FormatError::new(0, "no LTO-IR (wrong magic)"));
        }
        let description = Description {
            kind: EntryKind::LtoIr,
            arch,
            code_version: (major.into(), minor.into()),
            flags: 0,
            identifier,
            block: Block::Options(options),
        };
        let compressed = self.options.compress != CompressPolicy::Never;
        self.push(&description, bytes, compressed)
    }

    /// The size in bytes of the whole fatbin.
    pub fn size(&self) -> u64 {
        FILE_HEADER_SIZE.saturating_add(self.contents_size())
    }

    /// The file header for the entries added so far.
    pub fn header(&self) -> [u8; 16] {
        let mut header = [0; 16];
        let (magic, rest) = header.split_at_mut(4);
        magic.copy_from_slice(&MAGIC);
        let (numbers, size) = rest.split_at_mut(4);
        // Version 1, header of 16 bytes.
        numbers.copy_from_slice(&[1, 0, FILE_HEADER_SIZE as u8, 0]);
        size.copy_from_slice(&self.contents_size().to_le_bytes());
        header
    }

    /// Writes the fatbin piece by piece, without a copy of the whole.
    ///
    /// # Errors
    /// Those of `out`.
    pub fn write_to(&self, out: &mut impl io::Write) -> io::Result<()> {
        out.write_all(&self.header())?;
        for entry in &self.entries {
            out.write_all(&entry.header)?;
            out.write_all(&entry.payload)?;
            out.write_all(padding_to_8(entry.payload.len()))?;
        }
        Ok(())
    }

    /// The entries as a reader of the finished fatbin would see them, without a copy of it.
    ///
    /// # Errors
    /// A payload of more bytes than an entry can record.
    pub fn entries(&self) -> Result<Vec<Entry<'_>>, FormatError> {
        let mut at = FILE_HEADER_SIZE;
        let mut entries = Vec::with_capacity(self.entries.len());
        for entry in &self.entries {
            entries.push(read::entry(&entry.header, &entry.payload, at)?);
            at = at.saturating_add(entry.size());
        }
        Ok(entries)
    }

    /// The fatbin as one piece.
    pub fn finish(self) -> Vec<u8> {
        let mut out = Vec::with_capacity(usize::try_from(self.size()).unwrap_or(0));
        out.extend_from_slice(&self.header());
        for entry in &self.entries {
            out.extend_from_slice(&entry.header);
            out.extend_from_slice(&entry.payload);
            pad_to_8(&mut out);
        }
        out
    }

    fn contents_size(&self) -> u64 {
        self.entries.iter().map(WrittenEntry::size).fold(0, u64::saturating_add)
    }

    fn push(
        &mut self,
        description: &Description<'_>,
        payload: Cow<'a, [u8]>,
        compressed: bool,
    ) -> Result<(), FormatError> {
        let flags = description.flags | feature_flags(description.arch.feature) | self.common_flags();
        let mut sizes = Sizes { padded: 0, compressed: 0, uncompressed: 0 };
        let (payload, flags) = if compressed {
            let (packed, bit) = match self.options.lz4 {
                true => (compress::lz4(&payload), flag::LZ4),
                false => {
                    let packed = compress::zstd(&payload, self.options.level);
                    (packed.map_err(|what| FormatError::new(0, what))?, flag::ZSTD)
                }
            };
            sizes.compressed = u32::try_from(packed.len())
                .map_err(|_| FormatError::new(0, "compressed payload of more than 4 GiB"))?;
            sizes.uncompressed = payload.len() as u64;
            (Cow::Owned(packed), flags | bit)
        } else {
            (payload, flags)
        };
        sizes.padded = (payload.len() as u64).next_multiple_of(8);
        let header = entry_header(description, flags, &sizes)?;
        self.entries.push(WrittenEntry { header, payload });
        Ok(())
    }

    fn common_flags(&self) -> u64 {
        let host = match self.options.host {
            Host::Linux => flag::HOST_LINUX,
            Host::Mac => flag::HOST_MAC,
            Host::Windows => flag::HOST_WINDOWS,
        };
        let bits = if self.options.is_64_bit { flag::BITS_64 } else { 0 };
        let debug = if self.options.debug { flag::DEBUG } else { 0 };
        host | bits | debug
    }
}

/// Sizes of a payload; the last two are 0 if it is not compressed.
struct Sizes {
    padded: u64,
    compressed: u32,
    uncompressed: u64,
}

/// The header of an entry with its tail: the name, then the option block, each padded to 8.
fn entry_header(description: &Description<'_>, flags: u64, sizes: &Sizes) -> Result<Vec<u8>, FormatError> {
    let mut tail = Vec::new();
    let name_at = if description.identifier.is_empty() { 0 } else { ENTRY_HEADER_SIZE };
    if name_at != 0 {
        tail.extend_from_slice(description.identifier.as_bytes());
        tail.push(0);
        pad_to_8(&mut tail);
    }
    let block_at = small(ENTRY_HEADER_SIZE + tail.len() as u64)?;
    let has_block = append_block(&mut tail, block_at, &description.block)?;

    let mut header = Vec::with_capacity(64 + tail.len());
    header.extend_from_slice(&description.kind.code().to_le_bytes());
    header.extend_from_slice(&0x0101u16.to_le_bytes());
    header.extend_from_slice(&small(ENTRY_HEADER_SIZE + tail.len() as u64)?.to_le_bytes());
    header.extend_from_slice(&sizes.padded.to_le_bytes());
    header.extend_from_slice(&sizes.compressed.to_le_bytes());
    header.extend_from_slice(&(if has_block { block_at } else { 0 }).to_le_bytes());
    let (major, minor) = description.code_version;
    header.extend_from_slice(&minor.to_le_bytes());
    header.extend_from_slice(&major.to_le_bytes());
    header.extend_from_slice(&description.arch.number.to_le_bytes());
    header.extend_from_slice(&small(name_at)?.to_le_bytes());
    header.extend_from_slice(&small(description.identifier.len() as u64)?.to_le_bytes());
    for number in [flags, 0, sizes.uncompressed] {
        header.extend_from_slice(&number.to_le_bytes());
    }
    header.extend_from_slice(&tail);
    Ok(header)
}

/// Appends {u32 offset of the text, u32 its length, text, NUL}, or for a cubin a zero in front of the text instead of the NUL.
fn append_block(tail: &mut Vec<u8>, block_at: u32, block: &Block<'_>) -> Result<bool, FormatError> {
    let (text, before, behind): (&[u8], &[u8], &[u8]) = match block {
        Block::None => return Ok(false),
        Block::Options(text) => (text.as_bytes(), &[], &[0]),
        Block::Compat(bytes) => (bytes, &[0], &[]),
    };
    let text_at = small(u64::from(block_at) + 8)?;
    tail.extend_from_slice(&text_at.to_le_bytes());
    tail.extend_from_slice(&small(text.len() as u64)?.to_le_bytes());
    tail.extend_from_slice(before);
    tail.extend_from_slice(text);
    tail.extend_from_slice(behind);
    pad_to_8(tail);
    Ok(true)
}

fn small(number: u64) -> Result<u32, FormatError> {
    u32::try_from(number).map_err(|_| FormatError::new(0, "name or options of more than 4 GiB"))
}

fn feature_flags(feature: ArchFeature) -> u64 {
    match feature {
        ArchFeature::Plain => 0,
        ArchFeature::Family => flag::FAMILY,
        ArchFeature::Accelerated => flag::ACCELERATED,
    }
}

/// The version behind the first `.version`, wherever that stands; of the minor version only one digit counts.
fn ptx_version(text: &[u8]) -> Option<(u16, u16)> {
    const DIRECTIVE: &[u8] = b".version";
    let found = text.windows(DIRECTIVE.len()).position(|window| window == DIRECTIVE)?;
    let rest = text.get(found + DIRECTIVE.len()..)?.trim_ascii_start();
    let dot = rest.iter().position(|&byte| byte == b'.')?;
    let major = std::str::from_utf8(rest.get(..dot)?).ok()?.parse().ok()?;
    let minor = rest.get(dot + 1).filter(|digit| digit.is_ascii_digit())?;
    Some((major, u16::from(minor - b'0')))
}
