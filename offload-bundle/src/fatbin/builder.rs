//! Builds fatbins as nvFatbin does, and processes the entries in parallel.

use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

use rayon::prelude::*;

use super::checks;
use super::encode::{self, Description, EncodeError, Store, WrittenEntry};
use super::relocatable::RelocatableEntry;
use super::{
    BuilderOptions, EntryKind, FILE_HEADER_SIZE, FatbinEntry, FatbinError, file_header, recompress, relocatable,
};
use crate::FormatError;
use crate::arch::GpuArch;

#[cfg(test)]
#[path = "builder_tests.rs"]
mod tests;

/// Collects the images of a fatbin, then builds it, as nvFatbin does.
///
/// Images are kept as given until [`FatbinBuilder::size`], [`FatbinBuilder::write_to`] or [`FatbinBuilder::finish`] needs the bytes; then
/// PTX is squeezed and images are compressed on all threads of the current rayon pool. The bytes depend on the images, their order and
/// the options, not on the threads.
///
/// Uncompressed or with Zstandard they equal those of nvFatbin 13.0. Exceptions: LTO-IR is compressed unchanged, while nvFatbin scrambles
/// it; LZ4 comes from another encoder, with the same contents.
///
/// ```
/// use offload_bundle::GpuArch;
/// use offload_bundle::fatbin::{self, BuilderOptions, FatbinBuilder};
///
/// let mut builder = FatbinBuilder::new(BuilderOptions::parse(["-64", "-compress-mode=size"])?);
/// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n";
/// builder.add_ptx(GpuArch::plain(80), ptx.as_bytes(), "kernel.cu", "")?;
/// let size = builder.size()?;
/// let bytes = builder.finish()?;
/// assert_eq!(bytes.len() as u64, size);
///
/// let entries = fatbin::read(&bytes).expect("what was built");
/// assert_eq!(*entries[0].payload().expect("what was compressed"), *ptx.as_bytes());
/// # Ok::<(), fatbin::FatbinError>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct FatbinBuilder<'a> {
    options: BuilderOptions,
    entries: Vec<Pending<'a>>,
    /// Written behind all others.
    relocatable: Vec<Pending<'a>>,
    /// Modules and targets of the relocatable entries.
    modules: HashSet<(Vec<u8>, GpuArch)>,
}

/// An entry before and after encoding.
#[derive(Debug, Clone)]
enum Pending<'a> {
    Image { description: Description, payload: Cow<'a, [u8]>, store: Store, squeeze: bool },
    Written(WrittenEntry<'a>),
}

impl<'a> FatbinBuilder<'a> {
    /// A fatbin without entries, which is valid.
    pub fn new(options: BuilderOptions) -> Self {
        Self { options, ..Self::default() }
    }

    /// Adds machine code, relocatable (`ptxas -c`) or not.
    ///
    /// `arch` decides whether the entry is labelled as `a` or `f` code: a cubin does not always record it. An empty `identifier` is not
    /// written; it is any bytes without a NUL, by convention the name of the source file.
    ///
    /// # Errors
    /// An empty or a damaged image, or one for another architecture or pointer size.
    pub fn add_cubin(
        &mut self,
        arch: GpuArch,
        image: impl Into<Cow<'a, [u8]>>,
        identifier: impl AsRef<[u8]>,
    ) -> Result<(), FatbinError> {
        let image = image.into();
        let description = checks::cubin(&image, arch, identifier.as_ref(), &self.options)?;
        let store = self.options.store_of_cubin(image.len());
        self.push(description, image, store);
        Ok(())
    }

    /// Adds PTX, which is stored without comments and needless blanks ([`super::squeeze`]).
    ///
    /// `options` are options of ptxas for the driver's compiler; they and `identifier` may be empty.
    ///
    /// # Errors
    /// An empty text, one without a `.version`, or one whose `.target` cannot be compiled for all the GPUs that `arch` stands for;
    /// options that NVIDIA's compilers keep for themselves.
    pub fn add_ptx(
        &mut self,
        arch: GpuArch,
        text: impl Into<Cow<'a, [u8]>>,
        identifier: impl AsRef<[u8]>,
        options: impl AsRef<[u8]>,
    ) -> Result<(), FatbinError> {
        let text = text.into();
        let version = checks::ptx(&text, arch, options.as_ref(), &self.options)?;
        self.push_code((EntryKind::Ptx, arch, version), text, identifier.as_ref(), options.as_ref());
        if let Some(Pending::Image { squeeze, .. }) = self.entries.last_mut() {
            *squeeze = true;
        }
        Ok(())
    }

    /// Adds PTX in a form of the caller's choice: `text` is validated, `stored` is what the fatbin holds, which by convention ends with a
    /// NUL.
    ///
    /// # Errors
    /// Those of [`FatbinBuilder::add_ptx`].
    pub fn add_ptx_stored_as(
        &mut self,
        arch: GpuArch,
        text: &[u8],
        stored: impl Into<Cow<'a, [u8]>>,
        identifier: impl AsRef<[u8]>,
        options: impl AsRef<[u8]>,
    ) -> Result<(), FatbinError> {
        let version = checks::ptx(text, arch, options.as_ref(), &self.options)?;
        self.push_code((EntryKind::Ptx, arch, version), stored.into(), identifier.as_ref(), options.as_ref());
        Ok(())
    }

    /// Adds NVVM IR for link-time optimization; `options` are those of the linker's compiler.
    ///
    /// # Errors
    /// An empty image, or one that does not start like LTO-IR.
    pub fn add_ltoir(
        &mut self,
        arch: GpuArch,
        image: impl Into<Cow<'a, [u8]>>,
        identifier: impl AsRef<[u8]>,
        options: impl AsRef<[u8]>,
    ) -> Result<(), FatbinError> {
        let image = image.into();
        let version = checks::ltoir(&image, &self.options)?;
        self.push_code((EntryKind::LtoIr, arch, version), image, identifier.as_ref(), options.as_ref());
        Ok(())
    }

    /// Adds Tile IR, which nvFatbin knows from 13.1 on; it stands for all GPUs from sm_80 on.
    ///
    /// # Errors
    /// An empty image, or one that does not start like Tile IR.
    pub fn add_tile_ir(
        &mut self,
        image: impl Into<Cow<'a, [u8]>>,
        identifier: impl AsRef<[u8]>,
        options: impl AsRef<[u8]>,
    ) -> Result<(), FatbinError> {
        let image = image.into();
        let version = checks::tile_ir(&image)?;
        let code = (EntryKind::TileIr, GpuArch::plain(80), version);
        self.push_code(code, image, identifier.as_ref(), options.as_ref());
        Ok(())
    }

    /// Adds the relocatable PTX of a host object of `nvcc -rdc=true`, for a linker at run time.
    ///
    /// The entries get the name of the object's module, keep their options and their compression, and stand behind all others.
    /// Returns how many there are; an object may carry none.
    ///
    /// # Errors
    /// A file that is not an ELF object, a damaged object, or one of a module that was added before. With strict validation also one without
    /// relocatable PTX. Nothing is added then.
    pub fn add_relocatable(&mut self, object: impl Into<Cow<'a, [u8]>>) -> Result<usize, FatbinError> {
        let added = match object.into() {
            Cow::Borrowed(object) => relocatable::entries(object, self.options.validation)?,
            Cow::Owned(object) => {
                let entries = relocatable::entries(&object, self.options.validation)?;
                entries.into_iter().map(RelocatableEntry::into_owned).collect()
            }
        };
        if let Some(RelocatableEntry { key: (module, arch), .. }) =
            added.iter().find(|entry| self.modules.contains(&entry.key))
        {
            let identifier = String::from_utf8_lossy(module).into_owned();
            return Err(FatbinError::IdentifierReuse { identifier, arch: *arch });
        }
        let count = added.len();
        for entry in added {
            self.modules.insert(entry.key);
            self.relocatable.push(Pending::Written(entry.written));
        }
        Ok(count)
    }

    /// Adds an entry of another fatbin unchanged, whatever its kind. A part of a concatenation gets an entry of its own.
    ///
    /// # Errors
    /// Of a part alone: a damaged concatenation, or an image of more than 4 GiB. Offsets are those of the entry.
    pub fn add_entry(&mut self, entry: &FatbinEntry<'a>) -> Result<(), FormatError> {
        self.entries.push(Pending::Written(recompress::alone(entry)?));
        Ok(())
    }

    /// The size in bytes of the whole fatbin. Encodes the entries that were added since the last call.
    ///
    /// # Errors
    /// A failing compressor, or an image too large for its header.
    pub fn size(&mut self) -> Result<u64, FatbinError> {
        self.work()?;
        let sizes = self.written().map(WrittenEntry::size);
        Ok(FILE_HEADER_SIZE.saturating_add(sizes.fold(0, u64::saturating_add)))
    }

    /// Writes the fatbin piece by piece, without a copy of the whole.
    ///
    /// # Errors
    /// Those of [`FatbinBuilder::size`], as [`io::ErrorKind::InvalidInput`], and those of `out`.
    pub fn write_to(&mut self, out: &mut impl io::Write) -> io::Result<()> {
        let size = self.size().map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        out.write_all(&file_header(size - FILE_HEADER_SIZE))?;
        self.written().try_for_each(|entry| entry.write_to(out))
    }

    /// Returns the fatbin in one piece. Images are freed as soon as they are copied into it.
    ///
    /// # Errors
    /// Those of [`FatbinBuilder::size`], or a fatbin larger than memory.
    pub fn finish(mut self) -> Result<Vec<u8>, FatbinError> {
        self.entries.append(&mut self.relocatable);
        let size = self.size()?;
        let too_large = || FatbinError::LargerThanMemory;
        // The system provides these zeros page by page when a thread first writes to them.
        let mut out = vec![0; usize::try_from(size).map_err(|_| too_large())?];
        let (header, mut rest) = out.split_at_mut(file_header(0).len());
        header.copy_from_slice(&file_header(size - FILE_HEADER_SIZE));
        let mut places = Vec::with_capacity(self.entries.len());
        for entry in self.entries {
            let Pending::Written(entry) = entry else { continue };
            let (place, behind) = rest.split_at_mut(usize::try_from(entry.size()).map_err(|_| too_large())?);
            places.push((entry, place));
            rest = behind;
        }
        places.into_par_iter().with_max_len(1).for_each(|(entry, place)| entry.copy_to(place));
        Ok(out)
    }

    /// Adds code of a kind, for an architecture and of a version.
    fn push_code(
        &mut self,
        (kind, arch, version): (EntryKind, GpuArch, (u16, u16)),
        payload: Cow<'a, [u8]>,
        identifier: &[u8],
        options: &[u8],
    ) {
        let description = Description::of_code(kind, arch, version, identifier, options);
        self.push(description, payload, self.options.store_of_code(kind));
    }

    fn push(&mut self, description: Description, payload: Cow<'a, [u8]>, store: Store) {
        let description = Description { flags: description.flags | self.options.flags(), ..description };
        self.entries.push(Pending::Image { description, payload, store, squeeze: false });
    }

    fn work(&mut self) -> Result<(), FatbinError> {
        work_on(&mut self.entries)
    }

    fn written(&self) -> impl Iterator<Item = &WrittenEntry<'a>> {
        self.entries.iter().chain(&self.relocatable).filter_map(Pending::written)
    }
}

/// Encodes the remaining entries, in parallel where that is more than copying. Returns the error of the first entry that fails.
fn work_on(entries: &mut [Pending<'_>]) -> Result<(), FatbinError> {
    let mut long = Vec::new();
    for entry in entries {
        if entry.is_long_work() {
            long.push(entry);
        } else {
            entry.work()?;
        }
    }
    match long.as_mut_slice() {
        // A single entry need not wait for another thread to wake up.
        [entry] => entry.work(),
        many => {
            let results: Vec<Result<(), FatbinError>> =
                many.par_iter_mut().with_max_len(1).map(|entry| entry.work()).collect();
            results.into_iter().collect()
        }
    }
}

impl<'a> Pending<'a> {
    fn work(&mut self) -> Result<(), FatbinError> {
        let Pending::Image { description, payload, store, squeeze } = self else { return Ok(()) };
        // The input is freed before the compressor allocates its memory, where possible.
        let mut payload = std::mem::take(payload);
        if *squeeze {
            payload = encode::squeezed(payload);
        }
        *self = Pending::Written(encode::encode(description, payload, *store)?);
        Ok(())
    }

    fn is_long_work(&self) -> bool {
        matches!(self, Pending::Image { store, squeeze, .. } if *squeeze || *store != Store::Plain)
    }

    fn written(&self) -> Option<&WrittenEntry<'a>> {
        match self {
            Pending::Written(entry) => Some(entry),
            Pending::Image { .. } => None,
        }
    }
}

impl From<EncodeError> for FatbinError {
    fn from(error: EncodeError) -> Self {
        match error {
            EncodeError::Compression(what) => FatbinError::CompressionFailed(what),
            EncodeError::CompressedSize(size) => FatbinError::CompressedSizeExceeded(size as u64),
            EncodeError::TextSize => FatbinError::Internal(error.into()),
        }
    }
}
