//! Writes the object that carries the finished image into the host program.
//!
//! LLVM compiles the registration code with an empty image section. The image is appended to that object, and the section's
//! header and the image's symbol are changed to cover it, so that an image of any size is written once.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use llvm_passes::registration::{self, EntryTables, Registration, Slot};
use llvm_passes::session::Session;
use object::read::Object as _;
use object::write::Object;
use object::{Architecture, BinaryFormat, Endianness, FileFlags};
use offload_bundle::audit;
use offload_bundle::elf_edit::SectionSlot;

use crate::cli::host_triple;
use crate::cli::values::LlvmRules;
use crate::diag::error::Errors;
use crate::host::error::Error;
use crate::sys;
use crate::sys::process::Mode;
use crate::sys::temp_files::{self, TempFiles};

/// `e_machine` of x86-64, the only host whose code model knows large sections.
const EM_X86_64: u64 = 62;
/// `SHF_X86_64_LARGE` of the x86-64 psABI: the section may be more than 2 GiB away from the rest.
const LARGE: u64 = 0x1000_0000;

/// The contents of the image section.
pub trait Image {
    /// In bytes.
    fn size(&self) -> u64;
    /// Writes all bytes.
    ///
    /// # Errors
    /// Those of the file.
    fn write_to(&self, file: &mut dyn Write) -> std::io::Result<()>;
}

/// Containers that are written one after the other.
pub struct Blobs<'b>(pub Cow<'b, [Vec<u8>]>);

impl<'b> Blobs<'b> {
    /// Containers that the kind keeps.
    pub fn borrowed(blobs: &'b [Vec<u8>]) -> Self {
        Blobs(Cow::Borrowed(blobs))
    }

    /// Containers that are made for this.
    pub fn owned(blobs: Vec<Vec<u8>>) -> Self {
        Blobs(Cow::Owned(blobs))
    }
}

impl Image for Blobs<'_> {
    fn size(&self) -> u64 {
        self.0.iter().map(|blob| blob.len() as u64).sum()
    }

    fn write_to(&self, file: &mut dyn Write) -> std::io::Result<()> {
        self.0.iter().try_for_each(|blob| file.write_all(blob))
    }
}

/// The registration object before the image is added.
pub struct Template {
    slot: SectionSlot,
}

/// Writes an object that registers nothing, for the machine of an object of the link, or else for that of the host triple.
///
/// # Errors
/// Those of the file system. A host triple of an unknown machine.
pub fn write_empty(path: &Path, like: Option<&[u8]>, triple: &str, mode: Mode) -> Result<(), Errors> {
    let object = empty(like, triple)?;
    if mode.dry {
        return Ok(());
    }
    temp_files::write_output_by(path, |file| file.write_all(&object.write().map_err(std::io::Error::other)?))
}

/// An object without contents, for the machine of an object of the link, or else for that of the host triple.
///
/// # Errors
/// A host triple of an unknown machine.
pub fn empty(like: Option<&[u8]>, triple: &str) -> Result<Object<'static>, Error> {
    let alike = like.and_then(|bytes| object::File::parse(bytes).ok());
    let (architecture, endianness) = match &alike {
        Some(file) => (file.architecture(), file.endianness()),
        None => machine(triple).ok_or_else(|| Error::UnknownMachine { triple: triple.to_owned() })?,
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, endianness);
    // Linkers compare what is recorded of the calling convention.
    object.flags = alike.map_or(FileFlags::None, |file| file.flags());
    Ok(object)
}

/// The machine of a host triple.
fn machine(triple: &str) -> Option<(Architecture, Endianness)> {
    if let Some(host) = host_triple::of_triple(triple) {
        return Some((host.architecture, Endianness::Little));
    }
    let architecture = match triple.split('-').next()? {
        "powerpc64le" | "ppc64le" => Architecture::PowerPc64,
        "riscv64" => Architecture::Riscv64,
        "loongarch64" => Architecture::LoongArch64,
        "s390x" => return Some((Architecture::S390x, Endianness::Big)),
        _ => return None,
    };
    Some((architecture, Endianness::Little))
}

/// The file of the object that registers the images of one offload kind.
pub fn path(temp_files: &TempFiles, registration: &dyn Registration) -> PathBuf {
    temp_files.file(&format!("{}.registration.o", registration.name()))
}

/// Compiles registration code, named as the LLVM of `rules` does. `dead` are registered kernels without code; `show` receives the module's
/// text, if the user requested it.
///
/// # Errors
/// LLVM has no code generator for the host.
pub fn template(
    host_triple: &str,
    registration: &dyn Registration,
    tables: EntryTables,
    dead: &BTreeSet<String>,
    rules: LlvmRules,
    show: Option<&dyn Fn(&str)>,
) -> Result<Template, Errors> {
    let session = Session::new();
    let module = registration::build(&session, host_triple, registration, tables)?;
    if let Some(note) = absent_note(dead, registration.folded()) {
        registration::add_note(&module, audit::ABSENT_SECTION, &note);
    }
    if rules == LlvmRules::Llvm23 {
        registration::exclude_from_sanitizers(&module);
    }
    if let Some(show) = show {
        show(&registration::print(&module));
    }
    let mut object = registration::compile(&session, &module, host_triple)?;
    if let Some((slot, image)) = registration.second_image() {
        object = find(object, slot, host_triple)?.in_front_of(image.len() as u64);
        object.extend_from_slice(image);
    }
    Ok(Template { slot: find(object, registration.slot(), host_triple)? })
}

/// The record of the kernels that are registered and have no code of their own, by which an audit knows that this is intended.
fn absent_note(dead: &BTreeSet<String>, folded: Option<&BTreeMap<String, String>>) -> Option<Vec<u8>> {
    let folded = folded.into_iter().flatten().map(|(name, equal)| (name.as_str(), equal.as_str()));
    let absent: Vec<_> = dead.iter().map(|name| (name.as_str(), "")).chain(folded).collect();
    (!absent.is_empty()).then(|| audit::write_absent(absent.into_iter()))
}

fn find(object: Vec<u8>, Slot { section, symbol }: Slot, host_triple: &str) -> Result<SectionSlot, Error> {
    let slot = SectionSlot::find(object, section, symbol);
    slot.map_err(|_| Error::RegistrationFormat { triple: host_triple.to_owned() })
}

impl Template {
    /// Marks the image's section as one that may be far away from all others.
    ///
    /// # Errors
    /// The host has no such sections.
    pub fn make_large(&mut self) -> Result<(), Errors> {
        if self.slot.machine() != EM_X86_64 {
            return Err(Error::NoLargeSections.into());
        }
        self.slot.add_flags(LARGE);
        Ok(())
    }

    /// Writes the object with its image.
    ///
    /// # Errors
    /// Those of the file system.
    pub fn write(self, path: &Path, image: &dyn Image) -> Result<(), Errors> {
        let object = self.slot.in_front_of(image.size());
        let written = File::create(path).map(BufWriter::new).and_then(|mut file| {
            file.write_all(&object)?;
            image.write_to(&mut file)?;
            file.flush()
        });
        written.map_err(|source| sys::error::Error::Write { path: path.to_owned(), source }.into())
    }
}
