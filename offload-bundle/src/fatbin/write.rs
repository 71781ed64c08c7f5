//! Writes fatbins as `fatbinary` of CUDA 13.0 does.

use std::borrow::Cow;
use std::io;

use super::encode::{self, Description, Store, WrittenEntry, encode, ltoir_version, ptx_version};
use super::{BuilderOptions, EntryKind, FILE_HEADER_SIZE, FatbinEntry, file_header, read};
use crate::arch::GpuArch;
use crate::cubin;
use crate::error::{FormatError, FormatErrorKind};

/// Collects entries, then writes them as one fatbin. Uncompressed payloads stay borrowed until they are written.
#[derive(Debug, Clone, Default)]
pub struct FatbinWriter<'a> {
    options: BuilderOptions,
    entries: Vec<WrittenEntry<'a>>,
}

impl<'a> FatbinWriter<'a> {
    /// A fatbin without entries, which is valid.
    pub fn new(options: BuilderOptions) -> Self {
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
        let store = self.options.store_of_cubin(bytes.len());
        self.push(description, bytes, store)
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
        let store = self.options.store_of_code(EntryKind::Ptx);
        self.push(description, encode::squeezed(Cow::Borrowed(text)), store)
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
        self.push(description, bytes, self.options.store_of_code(EntryKind::LtoIr))
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
        self.entries.iter().try_for_each(|entry| entry.write_to(out))
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
        // Writing to a vector cannot fail.
        let _ = self.write_to(&mut out);
        out
    }

    fn contents_size(&self) -> u64 {
        self.entries.iter().map(WrittenEntry::size).fold(0, u64::saturating_add)
    }

    fn push(&mut self, description: Description, payload: Cow<'a, [u8]>, store: Store) -> Result<(), FormatError> {
        let description = Description { flags: description.flags | self.options.flags(), ..description };
        self.entries.push(encode(&description, payload, store)?);
        Ok(())
    }
}
