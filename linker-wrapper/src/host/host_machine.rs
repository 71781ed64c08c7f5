//! Rejects device code in programs for other machines than x86-64: there is no registration code for them.

use object::Endianness;
use object::elf::{
    EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_MIPS, EM_PPC64, EM_RISCV, EM_S390, EM_SPARCV9, EM_X86_64,
    FileHeader32, FileHeader64,
};
use object::read::elf::FileHeader;
use offload_bundle::host_object::FileKind;

use crate::cli::host_triple;
use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::error::Error;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// Checks the host triple of the line, and then the objects on it. `images` are the device images of the link. An archive for another machine
/// alone is no error, because host linkers skip it.
///
/// # Errors
/// The program is for another machine. Where no triple says so, the error names a file with device code.
pub fn check(inputs: &InputFiles, images: &[FoundImage<'_>], options: &Options) -> Result<(), Errors> {
    let triple = options.host_triple.as_deref();
    if let Some((triple, machine)) = triple.and_then(|triple| Some((triple, of_triple(triple)?))) {
        return Err(Error::OtherMachine { what: format!("--host-triple={triple}"), machine }.into());
    }
    let other = |file: &InputFile| Some((file.name.clone(), of_file(inputs, file)?));
    let files = inputs.files();
    let on_line = files.iter().filter(|file| file.place == Place::Line).find_map(other);
    let with_code = || images.iter().find_map(|found| other(&files[found.input]));
    match on_line.map(|found| with_code().unwrap_or(found)) {
        Some((what, machine)) => Err(Error::OtherMachine { what, machine }.into()),
        None => Ok(()),
    }
}

/// The machine of an object's code, if it is another one.
fn of_file(inputs: &InputFiles, file: &InputFile) -> Option<String> {
    match (&file.bitcode, file.kind) {
        (Some(host), _) => of_triple(&host.triple),
        (None, FileKind::ElfRelocatable) => of_elf(inputs.bytes(file)),
        _ => None,
    }
}

/// The machine of a triple, if it is another one. Some front ends omit the triple.
fn of_triple(triple: &str) -> Option<String> {
    let machine = triple.split('-').next().unwrap_or(triple);
    (!machine.is_empty() && !host_triple::is_x86_64(machine)).then(|| machine.to_owned())
}

/// The machine of an ELF file, named as in triples, if it is another one.
fn of_elf(elf: &[u8]) -> Option<String> {
    let (machine, is_64) = match FileHeader64::<Endianness>::parse(elf) {
        Ok(header) => (header.e_machine(header.endian().ok()?), true),
        Err(_) => {
            let header = FileHeader32::<Endianness>::parse(elf).ok()?;
            (header.e_machine(header.endian().ok()?), false)
        }
    };
    let name = match machine {
        EM_X86_64 if is_64 => return None,
        EM_X86_64 => "x32",
        EM_AARCH64 => "aarch64",
        EM_RISCV => "riscv64",
        EM_PPC64 => "powerpc64",
        EM_LOONGARCH => "loongarch64",
        EM_S390 => "s390x",
        EM_MIPS => "mips64",
        EM_SPARCV9 => "sparcv9",
        EM_386 => "i386",
        EM_ARM => "arm",
        other => return Some(format!("ELF machine {}", other.0)),
    };
    Some(name.to_owned())
}

#[cfg(test)]
mod tests {
    use object::write::Object;
    use object::{Architecture, BinaryFormat};

    use super::*;

    #[test]
    fn machines_of_objects_and_triples() {
        for (architecture, endianness, expected) in [
            (Architecture::X86_64, Endianness::Little, None),
            (Architecture::X86_64_X32, Endianness::Little, Some("x32")),
            (Architecture::Aarch64, Endianness::Little, Some("aarch64")),
            (Architecture::S390x, Endianness::Big, Some("s390x")),
            (Architecture::I386, Endianness::Little, Some("i386")),
            (Architecture::Msp430, Endianness::Little, Some("ELF machine 105")),
        ] {
            let object = Object::new(BinaryFormat::Elf, architecture, endianness).write().unwrap();
            assert_eq!(of_elf(&object).as_deref(), expected, "{architecture:?}");
        }
        assert_eq!(of_elf(b"text"), None);
        for (triple, expected) in [
            ("x86_64-pc-linux-gnu", None),
            ("", None),
            ("aarch64-linux-gnu", Some("aarch64")),
            ("riscv64", Some("riscv64")),
        ] {
            assert_eq!(of_triple(triple).as_deref(), expected, "{triple}");
        }
    }
}
