//! Writes fatbins as `fatbinary` of CUDA 13.0 does.

use std::borrow::Cow;
use std::io;
use std::num::NonZero;

use super::encode::{self, Description, Packing, Store, WrittenEntry, encode, ltoir_version, ptx_version};
use super::{EntryKind, FILE_HEADER_SIZE, FatbinEntry, file_header, flag, read};
use crate::arch::GpuArch;
use crate::bytes::padding_to_8;
use crate::cubin;
use crate::error::{FormatError, FormatErrorKind};

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

impl Host {
    pub(super) fn flag(self) -> u64 {
        match self {
            Host::Linux => flag::HOST_LINUX,
            Host::Mac => flag::HOST_MAC,
            Host::Windows => flag::HOST_WINDOWS,
        }
    }
}

/// Which payloads are compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CompressPolicy {
    /// PTX and LTO-IR; cubins only with debug information, or of more than 10,000,000 bytes.
    #[default]
    Default,
    /// All (`-compress-all`).
    All,
    /// Each that becomes smaller. No tool of NVIDIA's does so.
    Smaller,
    /// None (`-compress=false`).
    Never,
}

/// Options of every entry of a fatbin.
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
    /// Threads that compress machine code with Zstandard, in pieces. The bytes are the same for every number of threads, but a little more than
    /// those of `None`, which are `fatbinary`'s.
    pub threads: Option<NonZero<u32>>,
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
            threads: None,
        }
    }
}

/// Collects entries, then writes them as one fatbin. Uncompressed payloads stay borrowed until they are written.
#[derive(Debug, Clone, Default)]
pub struct FatbinWriter<'a> {
    options: Options,
    entries: Vec<WrittenEntry<'a>>,
}

impl<'a> FatbinWriter<'a> {
    /// A fatbin without entries, which is valid.
    pub fn new(options: Options) -> Self {
        Self { options, entries: Vec::new() }
    }

    /// Adds machine code.
    ///
    /// `arch` decides whether the entry is labelled as `a` or `f` code: a cubin does not always record it. An empty `identifier` is not
    /// written.
    ///
    /// # Errors
    /// A damaged cubin, or one for another architecture or pointer size. Offsets are those in `bytes`.
    pub fn add_cubin(
        &mut self,
        arch: GpuArch,
        bytes: impl Into<Cow<'a, [u8]>>,
        identifier: &str,
    ) -> Result<(), FormatError> {
        let bytes = bytes.into();
        let image = cubin::parse(&bytes)?;
        if image.arch().number != arch.number {
            let error = FormatErrorKind::WrongTarget { image: image.arch(), wanted: arch };
            return Err(FormatError::new(0, error));
        }
        if image.is_64_bit() != self.options.is_64_bit {
            return Err(FormatError::damaged(4, "cubin with pointers of another size than the host's"));
        }
        let description = Description::of_cubin(&image, arch, identifier.as_bytes());
        let compressed = match self.options.compress {
            CompressPolicy::Default => self.options.debug || bytes.len() > encode::LARGEST_PLAIN_CUBIN,
            CompressPolicy::All | CompressPolicy::Smaller => true,
            CompressPolicy::Never => false,
        };
        self.push(description, bytes, compressed)
    }

    /// Adds PTX, which is stored in a shorter form (see [`super::squeeze`]).
    ///
    /// `options` are options of ptxas for the driver; they and `identifier` may be empty.
    ///
    /// # Errors
    /// Text without a `.version`.
    pub fn add_ptx(&mut self, arch: GpuArch, text: &[u8], identifier: &str, options: &str) -> Result<(), FormatError> {
        let code_version =
            ptx_version(text).ok_or_else(|| FormatError::damaged(0, "PTX without a `.version` such as 9.0"))?;
        let description =
            Description::of_code(EntryKind::Ptx, arch, code_version, identifier.as_bytes(), options.as_bytes());
        let compressed = self.options.compress != CompressPolicy::Never;
        self.push(description, encode::squeezed(Cow::Borrowed(text)), compressed)
    }

    /// Adds NVVM IR for link-time optimization.
    ///
    /// Unlike `fatbinary`, this does not scramble compressed LTO-IR; NVIDIA's linkers read both.
    ///
    /// # Errors
    /// Bytes that do not start like LTO-IR.
    pub fn add_ltoir(
        &mut self,
        arch: GpuArch,
        bytes: impl Into<Cow<'a, [u8]>>,
        identifier: &str,
        options: &str,
    ) -> Result<(), FormatError> {
        let bytes = bytes.into();
        let code_version = ltoir_version(&bytes)?;
        let description =
            Description::of_code(EntryKind::LtoIr, arch, code_version, identifier.as_bytes(), options.as_bytes());
        let compressed = self.options.compress != CompressPolicy::Never;
        self.push(description, bytes, compressed)
    }

    /// The size in bytes of the whole fatbin.
    pub fn size(&self) -> u64 {
        FILE_HEADER_SIZE.saturating_add(self.contents_size())
    }

    /// The file header for the entries added so far.
    pub fn header(&self) -> [u8; 16] {
        file_header(self.contents_size())
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
    pub fn entries(&self) -> Result<Vec<FatbinEntry<'_>>, FormatError> {
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
            entry.append_to(&mut out);
        }
        out
    }

    fn contents_size(&self) -> u64 {
        self.entries.iter().map(WrittenEntry::size).fold(0, u64::saturating_add)
    }

    fn push(&mut self, description: Description, payload: Cow<'a, [u8]>, compressed: bool) -> Result<(), FormatError> {
        let description = Description { flags: description.flags | self.common_flags(), ..description };
        let Options { lz4, level, threads, compress, .. } = self.options;
        // PTX shrinks to a tenth in one pass, and its bytes stay those of `fatbinary`.
        let threads = threads.filter(|_| description.kind != EntryKind::Ptx);
        let packing = match (lz4, threads) {
            (true, _) => Packing::Lz4,
            (false, None) => Packing::Zstd(level),
            (false, Some(threads)) => Packing::ZstdInPieces(level, threads),
        };
        let store = match (compressed, compress) {
            (false, _) => Store::Plain,
            (true, CompressPolicy::Smaller) => Store::Smaller(packing),
            (true, _) => Store::Packed(packing),
        };
        self.entries.push(encode(&description, payload, store)?);
        Ok(())
    }

    fn common_flags(&self) -> u64 {
        let bits = if self.options.is_64_bit { flag::BITS_64 } else { 0 };
        let debug = if self.options.debug { flag::DEBUG } else { 0 };
        self.options.host.flag() | bits | debug
    }
}
