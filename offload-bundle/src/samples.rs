//! Small files for tests, made without any tool.

use crate::GpuArch;
use crate::fatbin::{BuilderOptions, FatbinWriter};
use crate::offload_binary::{ImageKind, ImageToWrite, OffloadKinds, write};

pub(crate) const SHT_PROGBITS: u32 = 1;
const SHT_SYMTAB: u32 = 2;
const SHT_STRTAB: u32 = 3;
const SHT_RELA: u32 = 4;
const SHT_LLVM_OFFLOADING: u32 = 0x6fff_4c0b;
const ET_REL: u16 = 1;
const ET_EXEC: u16 = 2;

/// A section of an ELF file to build.
struct SampleSection {
    name: &'static str,
    kind: u32,
    data: Vec<u8>,
    link: u32,
    info: u32,
    entry_size: u64,
}

impl SampleSection {
    fn new(name: &'static str, kind: u32, data: Vec<u8>) -> Self {
        Self { name, kind, data, link: 0, info: 0, entry_size: 0 }
    }

    fn table(self, link: u32, info: u32, entry_size: u64) -> Self {
        Self { link, info, entry_size, ..self }
    }
}

/// What differs between the ELF files of hosts and GPUs.
struct Identity {
    os_abi: u8,
    abi_version: u8,
    file_type: u16,
    machine: u16,
    flags: u32,
}

/// Builds a 64-bit ELF file; section 0 and the section names are added, the latter as the last section.
fn elf(identity: &Identity, mut sections: Vec<SampleSection>) -> Vec<u8> {
    let mut names = vec![0];
    sections.push(SampleSection::new(".shstrtab", SHT_STRTAB, Vec::new()));
    let name_offsets: Vec<u32> = sections.iter().map(|section| add_name(&mut names, section.name)).collect();
    if let Some(last) = sections.last_mut() {
        last.data = names;
    }
    let mut body = vec![0; 64];
    let mut headers = vec![0; 64];
    for (section, name) in sections.iter().zip(name_offsets) {
        body.resize(body.len().next_multiple_of(8), 0);
        headers.extend(name.to_le_bytes());
        headers.extend(section.kind.to_le_bytes());
        for number in [0, 0, body.len() as u64, section.data.len() as u64] {
            headers.extend(number.to_le_bytes());
        }
        headers.extend(section.link.to_le_bytes());
        headers.extend(section.info.to_le_bytes());
        for number in [8, section.entry_size] {
            headers.extend(number.to_le_bytes());
        }
        body.extend(&section.data);
    }
    body.resize(body.len().next_multiple_of(8), 0);
    let table = body.len() as u64;
    let header = elf_header(identity, table, sections.len() as u16 + 1);
    body[..64].copy_from_slice(&header);
    body.extend(headers);
    body
}

fn add_name(names: &mut Vec<u8>, name: &str) -> u32 {
    let offset = names.len() as u32;
    names.extend(name.as_bytes());
    names.push(0);
    offset
}

fn elf_header(identity: &Identity, table: u64, count: u16) -> Vec<u8> {
    let mut header = b"\x7fELF\x02\x01\x01".to_vec();
    header.extend([identity.os_abi, identity.abi_version]);
    header.resize(16, 0);
    header.extend(identity.file_type.to_le_bytes());
    header.extend(identity.machine.to_le_bytes());
    header.extend(1u32.to_le_bytes());
    for number in [0, 0, table] {
        header.extend(number.to_le_bytes());
    }
    header.extend(identity.flags.to_le_bytes());
    for number in [64, 0, 0, 64, count, count - 1] {
        header.extend(number.to_le_bytes());
    }
    header
}

fn symbol(name: u32, info: u8, other: u8, section: u16) -> Vec<u8> {
    let mut symbol = name.to_le_bytes().to_vec();
    symbol.extend([info, other]);
    symbol.extend(section.to_le_bytes());
    symbol.extend([0; 16]);
    symbol
}

/// A cubin with the kernel `first`, the function `callee`, which it does not define, and the variable `counter`.
pub(crate) fn cubin(arch: GpuArch, relocatable: bool) -> Vec<u8> {
    let compat = if arch.suffix() == "a" { vec![2, 9, 1, 0] } else { vec![4, 11, 4, 0, 1, 2, 3, 4, 2, 9, 0, 0] };
    let mut strings = vec![0];
    let names = ["first", "callee", "counter"].map(|name| add_name(&mut strings, name));
    let symbols =
        [vec![0; 24], symbol(names[0], 0x12, 0x10, 1), symbol(names[1], 0x12, 0, 0), symbol(names[2], 0x2d, 0x20, 1)];
    let identity = Identity {
        os_abi: 0x41,
        abi_version: 8,
        file_type: if relocatable { ET_REL } else { ET_EXEC },
        machine: 190,
        flags: arch.number << 8 | if arch.number >= 100 { 2 } else { 4 },
    };
    elf(
        &identity,
        vec![
            SampleSection::new(".text.first", SHT_PROGBITS, vec![0x90; 16]),
            SampleSection::new(".symtab", SHT_SYMTAB, symbols.concat()).table(3, 1, 24),
            SampleSection::new(".strtab", SHT_STRTAB, strings),
            SampleSection::new(".nv.compat", SHT_PROGBITS, compat),
            SampleSection::new(".note.nv.cuinfo", 7, cuinfo(arch)),
        ],
    )
}

/// A relocatable cubin that clang's list of host uses refers to the kernel `launched` in, and that calls the function `called`.
pub(crate) fn cubin_with_host_uses(arch: GpuArch) -> Vec<u8> {
    let mut strings = vec![0];
    let names = ["__clang_gpu_used_external", "launched", "called"].map(|name| add_name(&mut strings, name));
    let mut list = symbol(names[0], 0x0d, 0x20, 4);
    list[16] = 8;
    let symbols = [vec![0; 24], list, symbol(names[1], 0x12, 0, 0), symbol(names[2], 0x12, 0, 0)];
    let mut relocations = Vec::new();
    for (offset, index) in [(0u64, 2u64), (8, 3)] {
        for number in [offset, index << 32 | 0x66, 0] {
            relocations.extend(number.to_le_bytes());
        }
    }
    let identity =
        Identity { os_abi: 0x41, abi_version: 8, file_type: ET_REL, machine: 190, flags: arch.number << 8 | 4 };
    elf(
        &identity,
        vec![
            SampleSection::new(".symtab", SHT_SYMTAB, symbols.concat()).table(2, 2, 24),
            SampleSection::new(".strtab", SHT_STRTAB, strings),
            SampleSection::new(".note.nv.cuinfo", 7, cuinfo(arch)),
            SampleSection::new(".nv.global.init", SHT_PROGBITS, vec![0; 16]),
            SampleSection::new(".rela.nv.global.init", SHT_RELA, relocations).table(1, 4, 24),
        ],
    )
}

/// A finished cubin with the kernel `first`, which has this code and these attributes; `compat` are those of the cubin.
pub(crate) fn finished_cubin(arch: GpuArch, code: &[u8], info: &[u8], compat: &[u8]) -> Vec<u8> {
    let mut strings = vec![0];
    let kernel = add_name(&mut strings, "first");
    let symbols = [vec![0; 24], symbol(kernel, 0x12, 0x10, 1)];
    let command_line = format!("-arch {arch} ").into_bytes();
    let identity = Identity {
        os_abi: 0x41,
        abi_version: 8,
        file_type: ET_EXEC,
        machine: 190,
        flags: arch.number << 8 | if arch.number >= 100 { 2 } else { 4 },
    };
    let of_kernel = |prefix: &'static str, data: &[u8]| SampleSection::new(prefix, SHT_PROGBITS, data.to_vec());
    elf(
        &identity,
        vec![
            of_kernel(".text.first", code),
            SampleSection::new(".symtab", SHT_SYMTAB, symbols.concat()).table(3, 1, 24),
            SampleSection::new(".strtab", SHT_STRTAB, strings),
            of_kernel(".nv.info.first", info),
            of_kernel(".nv.compat", compat),
            SampleSection::new(".note.nv.tkinfo", 7, command_line),
            SampleSection::new(".note.nv.cuinfo", 7, cuinfo(arch)),
        ],
    )
}

/// A finished cubin with this code, with or without the workaround that ptxas lists for sm_80 to sm_88. As ptxas does, it records whether the
/// target has the suffix `a`.
pub(crate) fn compiled_cubin(target: &str, code: u8, has_workaround: bool) -> (GpuArch, Vec<u8>) {
    const MAXREG_COUNT: [u8; 4] = [3, 0x1b, 0xff, 0];
    const WORKAROUND: [u8; 4] = [1, 0x35, 0, 0];
    let arch: GpuArch = target.parse().expect("a target");
    let workaround: &[u8] = if has_workaround { &WORKAROUND } else { &[] };
    let suffix = u8::from(arch.suffix() == "a");
    let finalization = if suffix == 1 { 0x10 } else { 0x50 };
    let compat = [2, 9, suffix, 0, 4, 11, 4, 0, finalization, 0, 0, 0];
    (arch, finished_cubin(arch, &[code; 32], &[&MAXREG_COUNT, workaround].concat(), &compat))
}

/// A fatbin of these cubins.
pub(crate) fn fatbin_of(cubins: &[(GpuArch, Vec<u8>)]) -> Vec<u8> {
    let mut writer = FatbinWriter::new(BuilderOptions::default());
    for (arch, cubin) in cubins {
        writer.add_cubin(*arch, cubin.clone(), "").expect("a sound cubin");
    }
    writer.finish()
}

/// A relocatable object for x86-64 with a fatbin that nvcc's whole-program objects have so.
pub(crate) fn nvcc_object(fatbin: &[u8]) -> Vec<u8> {
    let identity = Identity { os_abi: 0, abi_version: 0, file_type: ET_REL, machine: 62, flags: 0 };
    elf(&identity, vec![SampleSection::new(".nv_fatbin", SHT_PROGBITS, fatbin.to_vec())])
}

fn cuinfo(arch: GpuArch) -> Vec<u8> {
    let mut note = Vec::new();
    for number in [13u32, 8, 1000] {
        note.extend(number.to_le_bytes());
    }
    note.extend(b"NVIDIA Corp\0\0\0\0\0");
    note.extend(2u16.to_le_bytes());
    note.extend((arch.number as u16).to_le_bytes());
    note.extend(130u32.to_le_bytes());
    note
}

/// An x86-64 object with `payload` as its device code, and the offload entries of the kernel `first` and the variable `counter`.
pub(crate) fn host_object(payload: &[u8]) -> Vec<u8> {
    let mut entries = Vec::new();
    for size in [0u64, 4] {
        let mut entry = vec![0; 56];
        entry[8] = 1;
        entry[10] = 2;
        entry[32..40].copy_from_slice(&size.to_le_bytes());
        entries.extend(entry);
    }
    let names = b"first\0counter\0".to_vec();
    let mut relocations = Vec::new();
    // R_X86_64_64 against symbol 1, the section of the names.
    for (offset, addend) in [(24u64, 0u64), (80, 6)] {
        for number in [offset, 1 << 32 | 1, addend] {
            relocations.extend(number.to_le_bytes());
        }
    }
    let symbols = [vec![0; 24], symbol(0, 0x03, 0, 3), symbol(1, 0x02, 0, 3)].concat();
    let identity = Identity { os_abi: 0, abi_version: 0, file_type: ET_REL, machine: 62, flags: 0 };
    elf(
        &identity,
        vec![
            SampleSection::new(".llvm.offloading", SHT_LLVM_OFFLOADING, payload.to_vec()),
            SampleSection::new("llvm_offload_entries", SHT_PROGBITS, entries),
            SampleSection::new(".llvm.rodata.offloading", SHT_PROGBITS, names),
            SampleSection::new(".rela.entries", SHT_RELA, relocations).table(5, 2, 24),
            SampleSection::new(".symtab", SHT_SYMTAB, symbols).table(6, 3, 24),
            SampleSection::new(".strtab", SHT_STRTAB, b"\0.cuda.fatbin_reg\0".to_vec()),
        ],
    )
}

/// An x86-64 object with `payload` as its device code and `results` as its kept results.
pub(crate) fn object_with_results(payload: &[u8], results: &[u8]) -> Vec<u8> {
    let identity = Identity { os_abi: 0, abi_version: 0, file_type: ET_REL, machine: 62, flags: 0 };
    let images = SampleSection::new(".llvm.offloading", SHT_LLVM_OFFLOADING, payload.to_vec());
    elf(&identity, vec![images, SampleSection::new(crate::kept_results::SECTION, SHT_PROGBITS, results.to_vec())])
}

/// An archive in the format of GNU with one long name.
pub(crate) fn archive(members: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    let names: String = members.iter().map(|(name, _)| format!("{name}/\n")).collect();
    append_member(&mut archive, "//", names.as_bytes());
    let mut name_offset = 0;
    for (name, data) in members {
        append_member(&mut archive, &format!("/{name_offset}"), data);
        name_offset += name.len() + 2;
    }
    archive
}

fn append_member(archive: &mut Vec<u8>, name: &str, data: &[u8]) {
    let header = format!("{name:<16}{:<12}{:<6}{:<6}{:<8}{:<10}`\n", 0, 0, 0, 644, data.len());
    archive.extend(header.as_bytes());
    archive.extend(data);
    archive.resize(archive.len().next_multiple_of(2), b'\n');
}

/// Two offload binaries of bitcode.
pub(crate) fn offload_binaries() -> Vec<u8> {
    let image = |arch| ImageToWrite {
        image_kind: ImageKind::Bitcode,
        offload_kinds: OffloadKinds::CUDA,
        flags: 0,
        strings: vec![("triple", "nvptx64-nvidia-cuda"), ("arch", arch)],
        image: b"BC\xc0\xde and more",
    };
    [write(&image("sm_80")), write(&image("sm_90"))].concat()
}

/// A code object for gfx90a with the kernel `first`: its machine code, its descriptor, and metadata that says how many vector registers it
/// takes, of which two are accumulation registers.
pub(crate) fn amd_code(vgprs: u32, code: &[u8]) -> Vec<u8> {
    use rmpv::Value;

    let number = |key: &str, value: u32| (Value::from(key), Value::from(value));
    let kernel = Value::Map(vec![
        (Value::from(".name"), Value::from("first")),
        (Value::from(".symbol"), Value::from("first.kd")),
        number(".vgpr_count", vgprs),
        number(".agpr_count", 2),
        number(".sgpr_count", 12),
        number(".group_segment_fixed_size", 256),
        number(".private_segment_fixed_size", 16),
        number(".wavefront_size", 64),
    ]);
    let metadata = Value::Map(vec![
        (Value::from("amdhsa.kernels"), Value::Array(vec![kernel])),
        (Value::from("amdhsa.target"), Value::from("amdgcn-amd-amdhsa--gfx90a")),
    ]);
    let mut document = Vec::new();
    rmpv::encode::write_value(&mut document, &metadata).expect("a vector has room");
    let mut note = Vec::new();
    for number in [7u32, document.len() as u32, 32] {
        note.extend(number.to_le_bytes());
    }
    note.extend(b"AMDGPU\0\0");
    note.extend(document);
    note.resize(note.len().next_multiple_of(4), 0);
    let mut descriptor = vec![0; 64];
    descriptor[0..2].copy_from_slice(&256u16.to_le_bytes());
    descriptor[4] = 16;
    let sized = |mut symbol: Vec<u8>, size: usize| {
        symbol[16..24].copy_from_slice(&(size as u64).to_le_bytes());
        symbol
    };
    let symbols =
        [vec![0; 24], sized(symbol(1, 0x12, 0, 1), code.len()), sized(symbol(7, 0x11, 0, 2), descriptor.len())];
    let identity = Identity { os_abi: 64, abi_version: 4, file_type: 3, machine: 224, flags: 0x53f };
    elf(
        &identity,
        vec![
            SampleSection::new(".text", SHT_PROGBITS, code.to_vec()),
            SampleSection::new(".rodata", SHT_PROGBITS, descriptor),
            SampleSection::new(".note", 7, note),
            SampleSection::new(".symtab", SHT_SYMTAB, symbols.concat()).table(5, 1, 24),
            SampleSection::new(".strtab", SHT_STRTAB, b"\0first\0first.kd\0".to_vec()),
        ],
    )
}

/// A bundle with a code object for gfx90a and one that is labelled gfx1100, plain or compressed.
pub(crate) fn hip_bundle(is_compressed: bool) -> Vec<u8> {
    use crate::hip_bundle::{CompressedMethod, CompressedVersion, compress};

    let code = amd_code(8, &[7; 32]);
    let plain = crate::hip_bundle::write(
        &[
            ("host-x86_64-unknown-linux-gnu-", b""),
            ("hip-amdgcn-amd-amdhsa--gfx90a", &code),
            ("hip-amdgcn-amd-amdhsa--gfx1100", &code),
        ],
        256,
    );
    match is_compressed {
        true => compress(&plain, CompressedVersion::V3, CompressedMethod::Zstd(3)).expect("a small bundle"),
        false => plain,
    }
}

/// A fatbin with two cubins, one of which the driver may finalize, and PTX; all of them compressed, or none.
pub(crate) fn fatbin(is_compressed: bool) -> Vec<u8> {
    let compress = BuilderOptions { compress: is_compressed, compress_all: is_compressed, ..BuilderOptions::default() };
    let mut writer = FatbinWriter::new(compress);
    for number in [90, 100] {
        let arch = GpuArch::plain(number);
        writer.add_cubin(arch, cubin(arch, false), "a.cu").expect("a sound cubin");
    }
    let ptx = b".version 8.8\n.target sm_90\n.address_size 64\n";
    writer.add_ptx(GpuArch::plain(90), ptx, "", "-O3").expect("sound PTX");
    writer.finish()
}

/// An object of nvcc's units, one for each id with its fatbin. Host code refers to the kernel `first` and the variable `counter`.
pub(crate) fn rdc_object(ids: &[&str], fatbins: &[&[u8]]) -> Vec<u8> {
    use object::write::{Object, Relocation, Symbol, SymbolSection};
    use object::{
        RelocationEncoding, RelocationFlags, RelocationKind, SectionKind, SymbolFlags, SymbolKind, SymbolScope,
    };

    let mut object = Object::new(object::BinaryFormat::Elf, object::Architecture::X86_64, object::Endianness::Little);
    let mut section = |name: &str, kind| object.add_section(Vec::new(), name.as_bytes().to_vec(), kind);
    let carrier = section("__nv_relfatbin", SectionKind::ReadOnlyData);
    let wrappers = section(".nvFatBinSegment", SectionKind::Data);
    let kernels = section(".nvHRKE", SectionKind::ReadOnlyData);
    let variables = section(".nvHRDE", SectionKind::ReadOnlyData);
    object.append_section_data(kernels, b"_Z5first*\0", 1);
    object.append_section_data(variables, b"counter\0", 1);
    let carrier_symbol = object.section_symbol(carrier);
    for (id, fatbin) in ids.iter().zip(fatbins) {
        let at = object.append_section_data(carrier, fatbin, 8);
        let record = object.append_section_data(wrappers, &[0; 24], 8);
        let flags = RelocationFlags::Generic {
            kind: RelocationKind::Absolute,
            encoding: RelocationEncoding::Generic,
            size: 64,
        };
        let relocation = Relocation { offset: record + 8, symbol: carrier_symbol, addend: at.cast_signed(), flags };
        object.add_relocation(wrappers, relocation).expect("a relocation of x86-64");
        let mut add = |name: String, value, section| {
            let (name, scope, flags) = (name.into_bytes(), SymbolScope::Dynamic, SymbolFlags::None);
            object.add_symbol(Symbol {
                name,
                value,
                size: 0,
                kind: SymbolKind::Data,
                scope,
                weak: false,
                section,
                flags,
            })
        };
        add(format!("__fatbinwrap{id}"), record, SymbolSection::Section(wrappers));
        add(format!("__cudaRegisterLinkedBinary{id}"), 0, SymbolSection::Undefined);
    }
    object.write().expect("a sound object")
}
