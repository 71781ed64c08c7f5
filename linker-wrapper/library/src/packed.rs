//! Finished images in a fatbin, and images in host objects: what needs no link.

use std::borrow::Cow;

use object::write::{Object, StandardSegment, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};
use offload_bundle::fatbin::{self, BuilderOptions, EntryKind, FatbinBuilder, FatbinError};
use offload_bundle::host_object::{FileKind, file_kind};
use offload_bundle::{cubin, ptx};

use crate::error::Error;

/// Images of several GPUs that go into one fatbin as they are: cubins, PTX, and those of other fatbins. No program is run for this.
///
/// ```
/// use fatlink::{HostMachine, Images, object_of};
///
/// let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
/// let fatbin = Images::new().add(ptx.as_bytes(), "k.ptx")?.fatbin()?;
/// let object = object_of(&fatbin, "kernels", HostMachine::X86_64)?;
/// assert!(object.starts_with(b"\x7fELF"));
/// # Ok::<(), fatlink::Error>(())
/// ```
#[derive(Debug, Default)]
pub struct Images<'a>(FatbinBuilder<'a>);

impl<'a> Images<'a> {
    /// No images.
    ///
    /// ```
    /// assert!(fatlink::Images::new().fatbin()?.starts_with(&[0x50, 0xed, 0x55, 0xba]));
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    pub fn new() -> Self {
        Images(FatbinBuilder::new(BuilderOptions::default()))
    }

    /// Adds a cubin, PTX, or the cubins and PTX of a fatbin. The target is what they record. `name` is for errors.
    ///
    /// ```
    /// # use fatlink::Images;
    /// assert!(Images::new().add(b"\x7fELF", "k.cubin").is_err());
    /// ```
    ///
    /// # Errors
    /// A damaged image, or bytes that are none of these.
    pub fn add(mut self, image: &'a [u8], name: &str) -> Result<Self, Error> {
        self.add_any(image).map_err(|reason| Error::Argument { what: format!("{name}: {reason}") })?;
        Ok(self)
    }

    fn add_any(&mut self, image: &'a [u8]) -> Result<(), String> {
        if cubin::is_cubin(image) {
            let arch = cubin::parse(image).map_err(|error| error.to_string())?.arch();
            return text(self.0.add_cubin(arch, image, ""));
        }
        if ptx::is_ptx(image) {
            let arch = ptx::target(image).ok_or("PTX without a .target that is known")?;
            return text(self.0.add_ptx(arch, image, "", ""));
        }
        if file_kind(image) != FileKind::Fatbin {
            return Err("neither a cubin, nor PTX, nor a fatbin".to_owned());
        }
        for entry in fatbin::read(image).map_err(|error| error.to_string())? {
            let payload = entry.payload().map_err(|error| error.to_string())?;
            match entry.kind {
                EntryKind::Elf => text(self.0.add_cubin(entry.arch, exact(payload), ""))?,
                EntryKind::Ptx => text(self.0.add_ptx(entry.arch, payload, "", ""))?,
                _ => {}
            }
        }
        Ok(())
    }

    /// The fatbin of all of them.
    ///
    /// ```
    /// # use fatlink::Images;
    /// let fatbin = Images::new().fatbin()?;
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// The images are larger than a fatbin can be.
    pub fn fatbin(self) -> Result<Vec<u8>, Error> {
        self.0.finish().map_err(|error| Error::Argument { what: error.to_string() })
    }
}

fn text(added: Result<(), FatbinError>) -> Result<(), String> {
    added.map_err(|error| error.to_string())
}

/// A cubin without the padding that a fatbin adds to it.
fn exact(payload: Cow<'_, [u8]>) -> Cow<'_, [u8]> {
    let size = cubin::exact_size(&payload).min(payload.len());
    match payload {
        Cow::Borrowed(bytes) => Cow::Borrowed(&bytes[..size]),
        Cow::Owned(mut bytes) => {
            bytes.truncate(size);
            Cow::Owned(bytes)
        }
    }
}

/// What host objects are for.
///
/// ```
/// assert_eq!(fatlink::HostMachine::of_this_build(), Some(fatlink::HostMachine::X86_64));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum HostMachine {
    /// x86-64.
    X86_64,
    /// 64-bit Arm, little-endian.
    Aarch64,
}

impl HostMachine {
    /// The machine that this library was compiled for, if objects can be written for it.
    ///
    /// ```
    /// let machine = fatlink::HostMachine::of_this_build().expect("x86-64 or AArch64");
    /// ```
    pub fn of_this_build() -> Option<Self> {
        match std::env::consts::ARCH {
            "x86_64" => Some(HostMachine::X86_64),
            "aarch64" => Some(HostMachine::Aarch64),
            _ => None,
        }
    }
}

/// Writes a host object with an image in `.nv_fatbin`, where tools look for device code, and the symbols `symbol` at its start and
/// `symbol_end` behind it. Programs load such an image themselves, by `cuModuleLoadData(&symbol)` or `hipModuleLoadData`; nothing registers
/// it.
///
/// ```
/// # use fatlink::{HostMachine, object_of};
/// let object = object_of(b"an image", "kernels", HostMachine::Aarch64)?;
/// # Ok::<(), fatlink::Error>(())
/// ```
///
/// # Errors
/// A symbol that is empty or has a NUL. An image that is larger than an object can be.
pub fn object_of(image: &[u8], symbol: &str, machine: HostMachine) -> Result<Vec<u8>, Error> {
    /// What loaders of fatbins require.
    const ALIGNMENT: u64 = 8;
    if symbol.is_empty() || symbol.contains('\0') {
        return Err(Error::Argument { what: format!("'{}' is no name of a symbol", symbol.escape_debug()) });
    }
    let architecture = match machine {
        HostMachine::X86_64 => Architecture::X86_64,
        HostMachine::Aarch64 => Architecture::Aarch64,
    };
    let mut object = Object::new(BinaryFormat::Elf, architecture, Endianness::Little);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    let section = object.add_section(segment, b".nv_fatbin".to_vec(), SectionKind::ReadOnlyData);
    object.append_section_data(section, image, ALIGNMENT);
    // Without it, linkers make the stack of the program executable.
    object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    let size = image.len() as u64;
    for (name, value, size) in [(symbol.to_owned(), 0, size), (format!("{symbol}_end"), size, 0)] {
        object.add_symbol(Symbol {
            name: name.into_bytes(),
            value,
            size,
            kind: SymbolKind::Data,
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        });
    }
    object.write().map_err(|error| Error::Argument { what: format!("cannot write the object: {error}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};

    const PTX: &[u8] = b".version 8.0\n.target sm_80\n.address_size 64\n";

    #[test]
    fn images_of_a_fatbin_are_taken_over() {
        let one = Images::new().add(PTX, "a.ptx").unwrap().fatbin().unwrap();
        let two = Images::new().add(&one, "a.fatbin").unwrap().fatbin().unwrap();
        assert_eq!(one, two);
        assert_eq!(fatbin::read(&two).unwrap().len(), 1);
    }

    #[test]
    fn other_bytes_are_named() {
        for bytes in [&b""[..], b"\x7fELF", b"text"] {
            let error = Images::new().add(bytes, "some file").unwrap_err();
            assert_eq!(error.to_string(), "some file: neither a cubin, nor PTX, nor a fatbin");
        }
        let error = Images::new().add(&[0x50, 0xed, 0x55, 0xba, 1, 0, 16, 0], "some file").unwrap_err();
        assert!(error.to_string().starts_with("some file: "), "{error}");
    }

    #[test]
    fn an_object_has_the_image_and_its_symbols() {
        for (machine, architecture) in
            [(HostMachine::X86_64, Architecture::X86_64), (HostMachine::Aarch64, Architecture::Aarch64)]
        {
            let bytes = object_of(b"an image", "kernels", machine).unwrap();
            let file = object::File::parse(&*bytes).unwrap();
            assert_eq!(file.architecture(), architecture);
            let section = file.section_by_name(".nv_fatbin").unwrap();
            assert_eq!((section.data().unwrap(), section.align()), (&b"an image"[..], 8));
            let symbol = |name| file.symbols().find(|symbol| symbol.name() == Ok(name)).unwrap();
            assert_eq!((symbol("kernels").address(), symbol("kernels").size()), (0, 8));
            assert_eq!(symbol("kernels_end").address(), 8);
            assert!(symbol("kernels").is_global());
        }
        for name in ["", "a\0b"] {
            assert!(object_of(b"", name, HostMachine::X86_64).is_err());
        }
    }
}
