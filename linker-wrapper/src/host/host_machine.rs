//! Finds the machine of the program: registration code is made for it. Rejects device code in programs for others than x86-64 and AArch64.

use llvm_passes::registration::EntryTables;
use object::Endianness;
use object::elf::{
    EM_386, EM_AARCH64, EM_ARM, EM_LOONGARCH, EM_MIPS, EM_PPC64, EM_RISCV, EM_S390, EM_SPARCV9, EM_X86_64,
    FileHeader32, FileHeader64,
};
use object::read::elf::FileHeader;
use offload_bundle::host_object::FileKind;

use crate::cli::host_triple::{self, Host};
use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::error::Error;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// What registration code has to fit.
pub struct HostCode {
    /// The triple of the program.
    pub triple: String,
    /// The tables of kernels and variables that the host objects have.
    pub entry_tables: EntryTables,
}

/// Finds the triple of the program: that of the line, else one for the first object on it. `images` are the device images of the link. An
/// archive for another machine alone is no error, because host linkers skip it.
///
/// # Errors
/// There is no registration code for the machine, or objects on the line are for several machines. Where no triple says the machine, the error
/// names a file with device code.
pub fn find(inputs: &InputFiles, images: &[FoundImage<'_>], options: &Options) -> Result<String, Errors> {
    let files = inputs.files();
    let machine = |file: &InputFile| Some((file.name.clone(), of_file(inputs, file)?));
    let on_line: Vec<_> = files.iter().filter(|file| file.place == Place::Line).filter_map(machine).collect();
    let unsupported = |found: &(String, String)| host_triple::of_triple(&found.1).is_none();
    if let Some(triple) = options.host_triple.as_deref().filter(|triple| !triple.is_empty()) {
        let Some(program) = host_triple::of_triple(triple) else {
            let machine = triple.split('-').next().unwrap_or(triple).to_owned();
            return Err(Error::OtherMachine { what: format!("--host-triple={triple}"), machine }.into());
        };
        return all_for(program, &on_line).map(|()| triple.to_owned());
    }
    if let Some(found) = on_line.iter().find(|found| unsupported(found)) {
        let with_code = images.iter().filter_map(|found| machine(&files[found.input])).find(unsupported);
        let (what, machine) = with_code.unwrap_or_else(|| found.clone());
        return Err(Error::OtherMachine { what, machine }.into());
    }
    let program =
        on_line.first().and_then(|(_, machine)| host_triple::of_triple(machine)).unwrap_or(host_triple::NATIVE);
    all_for(program, &on_line).map(|()| program.triple.to_owned())
}

/// Checks that all objects are for one machine.
fn all_for(program: &'static Host, on_line: &[(String, String)]) -> Result<(), Errors> {
    match on_line.iter().find(|(_, machine)| host_triple::of_triple(machine) != Some(program)) {
        Some((file, machine)) => {
            let (file, machine) = (file.clone(), machine.clone());
            Err(Error::MixedMachines { file, machine, program: program.name }.into())
        }
        None => Ok(()),
    }
}

/// The machine of an object's code, named as in triples.
fn of_file(inputs: &InputFiles, file: &InputFile) -> Option<String> {
    match (&file.bitcode, file.kind) {
        (Some(host), _) => of_triple(&host.triple),
        (None, FileKind::ElfRelocatable) => of_elf(inputs.bytes(file)),
        _ => None,
    }
}

/// The machine of a triple. Some front ends omit the triple.
fn of_triple(triple: &str) -> Option<String> {
    let machine = triple.split('-').next().unwrap_or(triple);
    (!machine.is_empty()).then(|| machine.to_owned())
}

/// The machine of an ELF file, named as in triples.
fn of_elf(elf: &[u8]) -> Option<String> {
    let (machine, is_64, is_little) = match FileHeader64::<Endianness>::parse(elf) {
        Ok(header) => (header.e_machine(header.endian().ok()?), true, header.is_little_endian()),
        Err(_) => {
            let header = FileHeader32::<Endianness>::parse(elf).ok()?;
            (header.e_machine(header.endian().ok()?), false, header.is_little_endian())
        }
    };
    let name = match machine {
        EM_X86_64 if is_64 => "x86_64",
        EM_X86_64 => "x32",
        EM_AARCH64 if !is_64 => "aarch64_32",
        EM_AARCH64 if !is_little => "aarch64_be",
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
            (Architecture::X86_64, Endianness::Little, Some("x86_64")),
            (Architecture::X86_64_X32, Endianness::Little, Some("x32")),
            (Architecture::Aarch64, Endianness::Little, Some("aarch64")),
            (Architecture::Aarch64, Endianness::Big, Some("aarch64_be")),
            (Architecture::Aarch64_Ilp32, Endianness::Little, Some("aarch64_32")),
            (Architecture::S390x, Endianness::Big, Some("s390x")),
            (Architecture::I386, Endianness::Little, Some("i386")),
            (Architecture::Msp430, Endianness::Little, Some("ELF machine 105")),
        ] {
            let object = Object::new(BinaryFormat::Elf, architecture, endianness).write().unwrap();
            assert_eq!(of_elf(&object).as_deref(), expected, "{architecture:?}");
        }
        assert_eq!(of_elf(b"text"), None);
        for (triple, expected) in [
            ("x86_64-pc-linux-gnu", Some("x86_64")),
            ("", None),
            ("aarch64-linux-gnu", Some("aarch64")),
            ("riscv64", Some("riscv64")),
        ] {
            assert_eq!(of_triple(triple).as_deref(), expected, "{triple}");
        }
    }
}
