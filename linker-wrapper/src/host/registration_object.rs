//! The object that carries the finished image into the host program.
//!
//! LLVM writes the registration code with an empty image section. The image is put behind that object
//! and the section's header and the image's symbol are set to it: bytes are written once, from where
//! they are, whatever their size.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use llvm_passes::registration::{self, Registration, Slot};
use llvm_passes::session::Session;
use object::elf::{FileHeader64, SectionHeader64, Sym64};
use object::read::elf::{FileHeader, SectionHeader, Sym};
use object::{Endianness, U64};
use offload_bundle::fatbin::FatbinWriter;

use crate::diag::error::Errors;
use crate::host::error::Error;
use crate::sys;

/// Alignment of a fatbin in its section.
const ALIGNMENT: usize = 8;
/// `SHF_X86_64_LARGE` of the x86-64 psABI: the section may be more than 2 GiB away from the rest.
const LARGE: u64 = 0x1000_0000;

/// What fills a slot, written from where it is.
pub trait Image {
    /// In bytes.
    fn size(&self) -> u64;
    /// Writes all of it.
    ///
    /// # Errors
    /// Those of the file.
    fn write_to(&self, file: &mut dyn Write) -> std::io::Result<()>;
}

impl Image for FatbinWriter<'_> {
    fn size(&self) -> u64 {
        FatbinWriter::size(self)
    }

    fn write_to(&self, mut file: &mut dyn Write) -> std::io::Result<()> {
        FatbinWriter::write_to(self, &mut file)
    }
}

/// Containers that are written back to back.
pub struct Blobs<'b>(pub &'b [Vec<u8>]);

impl Image for Blobs<'_> {
    fn size(&self) -> u64 {
        self.0.iter().map(|blob| blob.len() as u64).sum()
    }

    fn write_to(&self, file: &mut dyn Write) -> std::io::Result<()> {
        self.0.iter().try_for_each(|blob| file.write_all(blob))
    }
}

/// The registration object, still without its image.
pub struct Template {
    object: Vec<u8>,
    /// Offsets in `object` of the numbers to be set.
    section_flags: usize,
    section_offset: usize,
    section_size: usize,
    symbol_size: usize,
    /// What the section's flags are.
    flags: u64,
    /// The host's code model knows large sections.
    is_x86_64: bool,
}

/// Compiles registration code. `show` gets the module's text when it was asked for.
///
/// # Errors
/// No code generator for the host.
pub fn template(
    host_triple: &str,
    registration: &Registration<'_>,
    show: Option<&dyn Fn(&str)>,
) -> Result<Template, Errors> {
    let session = Session::new();
    let module = registration::build(&session, host_triple, registration)?;
    if let Some(show) = show {
        show(&registration::print(&module));
    }
    let object = registration::compile(&session, &module, host_triple)?;
    let template = Template::new(object, registration.slot());
    template.ok_or_else(|| Error::RegistrationFormat { triple: host_triple.to_owned() }.into())
}

impl Template {
    fn new(object: Vec<u8>, slot: Slot) -> Option<Self> {
        let data = &object[..];
        let header = FileHeader64::<Endianness>::parse(data).ok()?;
        let endian = header.endian().ok().filter(|endian| *endian == Endianness::Little)?;
        let sections = header.sections(endian, data).ok()?;
        let (_, section) = sections.section_by_name(endian, slot.section.as_bytes())?;
        let symbols = sections.symbols(endian, data, object::elf::SHT_SYMTAB).ok()?;
        let symbol =
            symbols.iter().find(|symbol| symbol.name(endian, symbols.strings()) == Ok(slot.symbol.as_bytes()))?;
        debug_assert_eq!(section.sh_size(endian), 0);
        let section: &SectionHeader64<Endianness> = section;
        let symbol: &Sym64<Endianness> = symbol;
        let place = |field: &U64<Endianness>| std::ptr::from_ref(field) as usize - data.as_ptr() as usize;
        let section_flags = std::ptr::from_ref(&section.sh_flags) as usize - data.as_ptr() as usize;
        let section_offset = place(&section.sh_offset);
        let (section_size, symbol_size) = (place(&section.sh_size), place(&symbol.st_size));
        let flags = section.sh_flags(endian).0;
        let is_x86_64 = header.e_machine(endian) == object::elf::EM_X86_64;
        Some(Template { object, section_flags, section_offset, section_size, symbol_size, flags, is_x86_64 })
    }

    /// Marks the image's section as one that may lie far from everything else.
    ///
    /// # Errors
    /// A host without such sections.
    pub fn make_large(&mut self) -> Result<(), Errors> {
        if !self.is_x86_64 {
            return Err(Error::NoLargeSections.into());
        }
        self.set(self.section_flags, self.flags | LARGE);
        Ok(())
    }

    /// Writes the whole object.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(mut self, path: &Path, image: &dyn Image) -> Result<(), Errors> {
        let start = self.object.len().next_multiple_of(ALIGNMENT);
        let size = image.size();
        self.set(self.section_offset, start as u64);
        self.set(self.section_size, size);
        self.set(self.symbol_size, size);
        self.object.resize(start, 0);
        let written = File::create(path).map(BufWriter::new).and_then(|mut file| {
            file.write_all(&self.object)?;
            image.write_to(&mut file)?;
            file.flush()
        });
        written.map_err(|source| sys::error::Error::Write { path: path.to_owned(), source }.into())
    }

    fn set(&mut self, place: usize, value: u64) {
        self.object[place..place + 8].copy_from_slice(&value.to_le_bytes());
    }
}
