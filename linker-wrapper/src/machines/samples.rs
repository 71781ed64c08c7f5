//! Objects for tests, with symbols and without code.

use object::elf::{SymbolInfo, SymbolOther};
use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags, SymbolKind, SymbolScope};

/// A relocatable cubin for sm_90 with these kernels.
pub fn cubin(kernels: &[&str]) -> Vec<u8> {
    // Global, a function, an entry.
    let names: Vec<String> = kernels.iter().map(|name| (*name).to_owned()).collect();
    elf([0x33, 7], 190, 90, &names, [0x12, 0x10])
}

/// A relocatable object for gfx90a with the descriptors of these kernels.
pub fn amd_object(kernels: &[&str]) -> Vec<u8> {
    // Global, data.
    let names: Vec<String> = kernels.iter().map(|name| format!("{name}.kd")).collect();
    elf([64, 4], 224, 0x3f, &names, [0x11, 0])
}

fn elf(abi: [u8; 2], machine: u16, flags: u32, names: &[String], symbol: [u8; 2]) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let section = object.add_section(Vec::new(), b".text".to_vec(), SectionKind::Text);
    object.append_section_data(section, &[0; 16], 16);
    for name in names {
        object.add_symbol(Symbol {
            name: name.as_bytes().to_vec(),
            value: 0,
            size: 16,
            kind: SymbolKind::Text,
            scope: SymbolScope::Dynamic,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::Elf { st_info: SymbolInfo(symbol[0]), st_other: SymbolOther(symbol[1]) },
        });
    }
    let mut bytes = object.write().expect("an object");
    bytes[7..9].copy_from_slice(&abi);
    bytes[18..20].copy_from_slice(&machine.to_le_bytes());
    bytes[48..52].copy_from_slice(&flags.to_le_bytes());
    bytes
}
