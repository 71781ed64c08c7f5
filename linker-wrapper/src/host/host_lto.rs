//! Objects that nvcc's host compiler made for link-time optimization of the host's code. nvcc puts a fatbin into its host code as assembler
//! text. Where an object holds nothing but bytecode, the fatbin is in there. Where it holds machine code, too, its sections are as in other
//! objects, but gcc's own link of the bytecode fails: all fatbins define the same local symbol there.

use std::sync::LazyLock;

use memchr::memmem::Finder;
use offload_bundle::host_object::{self, FileKind, WRAPPER_PREFIX};

use crate::compilers::{FOREIGN, FOREIGN_SECTION, FOREIGN_SYMBOL};
use crate::host::error::Error;
use crate::host::input_files::{InputFile, InputFiles};

/// What the names of sections with gcc's bytecode begin with; the name of a function or variable follows.
const GCC_SECTION: &str = ".gnu.lto_";

static GCC_SECTIONS: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(GCC_SECTION));

/// Rejects an object whose device code is inside bytecode.
///
/// # Errors
/// It is such an object.
pub fn check(file: &InputFile, data: &[u8]) -> Result<(), Error> {
    static UNIT: LazyLock<Finder<'static>> =
        LazyLock::new(|| Finder::new(&format!("{GCC_SECTION}{WRAPPER_PREFIX}")).into_owned());

    let is_inside = match (&file.bitcode, file.kind) {
        (Some(host), _) => {
            host.symbols.iter().any(|symbol| symbol.strength.is_definition() && symbol.name.starts_with(WRAPPER_PREFIX))
        }
        // In an object with machine code, too, the record has a symbol.
        (None, FileKind::ElfRelocatable) => {
            host_object::has_section(data, &UNIT) && host_object::section(data, FOREIGN_SECTION).is_none()
        }
        _ => false,
    };
    if is_inside { Err(Error::InsideHostLto { file: file.name.clone() }) } else { Ok(()) }
}

/// Explains a host link that fails because gcc optimizes several objects of nvcc together.
pub fn hint(inputs: &InputFiles) -> Option<String> {
    let is_fat = |file: &&InputFile| {
        let data = inputs.bytes(file);
        file.kind == FileKind::ElfRelocatable
            && host_object::has_section(data, &GCC_SECTIONS)
            && host_object::section(data, FOREIGN_SECTION).is_some()
    };
    let mut fat = inputs.files().iter().filter(is_fat);
    let (first, second) = (fat.next()?, fat.next()?);
    Some(format!(
        "{} and {} are objects of {FOREIGN} with gcc's bytecode; gcc cannot optimize more than one of them in a link, because all define \
         {FOREIGN_SYMBOL}: link with -fno-lto, or compile them with -Xcompiler -fno-lto",
        first.name, second.name
    ))
}
