//! Reads cubins, the ELF files with machine code for NVIDIA GPUs.
//!
//! NVIDIA documents little of it; the facts here were found by examining cubins of ptxas 11 to 13. There are two layouts, told
//! apart by `EI_OSABI`: the old one (0x33), and the new one (0x41), which CUDA 12.8 introduced for sm_100 and CUDA 13 uses for all.
//!
//! goblin reads the tables of 32-bit and 64-bit files into the same types, where `object` would need every function here for each.

use goblin::container::Ctx;
use goblin::elf::header::{self, Header};
use goblin::elf::section_header::{SHT_NOBITS, SHT_NULL, SHT_STRTAB, SHT_SYMTAB, SectionHeader};
use goblin::elf::sym::{self, Sym};

use crate::FormatError;
use crate::arch::{ArchFeature, CudaRelease, GpuArch};
use crate::bytes::{c_str, slice, u16_at, u32_at};

mod attribute_names;
mod calls;
mod declared_kernels;
mod difference;
mod equality;
mod kernel_copies;
mod loading;
mod records;
mod resources;
mod retarget;

pub use calls::{CallResource, UncoveredCall};
pub use declared_kernels::with_declared_kernels;
pub use difference::{AttributeDifference, AttributeTable, CodeDifference, code_difference};
pub(crate) use equality::attributes_run_alike;
pub use equality::{KnownAttribute, runs_alike};
pub use kernel_copies::with_kernel_copies;
pub(crate) use loading::section_kind;
pub use loading::{Fault, is_system_call};
use records::{Record, Value, records};
pub use resources::{ConstantBank, CubinResources, FunctionResources, Spills};
pub use retarget::retargeted;

const EM_CUDA: u16 = 190;
const OSABI_OLD: u8 = 0x33;
const OSABI_NEW: u8 = 0x41;
/// `e_flags` of the old layout: made for `sm_90a`.
const OLD_FLAG_ACCELERATED: u32 = 0x800;
/// `e_flags` of the new layout: made for `sm_100a` (CUDA 12 only; CUDA 13 records it in `.nv.compat`).
const NEW_FLAG_ACCELERATED: u32 = 0x08;
/// `e_flags` of the new layout: the driver may finalize the code for another GPU.
const NEW_FLAG_FINALIZABLE: u32 = 0x02;
/// `st_other` of a kernel's symbol.
const STO_CUDA_ENTRY: u8 = 0x10;
/// `st_other` of a variable: in which memory it is.
const STO_CUDA_GLOBAL: u8 = 0x20;
const STO_CUDA_SHARED: u8 = 0x40;
const STO_CUDA_CONSTANT: u8 = 0x80;
/// The symbol type of variables in the cubins of ptxas; nvlink's have `STT_OBJECT`.
const STT_CUDA_OBJECT: u8 = 13;
/// Sections of memory that the GPU sets up: they have a size and, as `SHT_NOBITS`, no bytes in the file. (Seen in the cubins of
/// ptxas 13.0: `.nv_debug.shared` of kernels with `__shared__` unions; the other two by their neighbourhood.)
const SHT_CUDA_GLOBAL: u32 = 0x7000_0007;
const SHT_CUDA_LOCAL: u32 = 0x7000_0009;
const SHT_CUDA_SHARED: u32 = 0x7000_000a;
const SHN_UNDEF: usize = 0;
const NOTE_CUINFO: &str = ".note.nv.cuinfo";
const NV_COMPAT: &str = ".nv.compat";

/// A cubin whose header, section table, sections, names and symbols lie inside the data.
#[derive(Debug, Clone)]
pub struct Cubin<'a> {
    data: &'a [u8],
    header: Header,
    sections: Vec<CubinSection<'a>>,
    symbols: Vec<CubinSymbol>,
    /// The index of each symbol in the symbol table.
    symbol_indices: Vec<u32>,
    /// The index of each symbol's section.
    symbol_sections: Vec<usize>,
}

#[derive(Debug, Clone, Copy)]
struct CubinSection<'a> {
    name: &'a str,
    /// Offset of the name in the data.
    name_offset: u64,
    /// As its header has it: sound ones are 0 or a power of two.
    alignment: u64,
    /// Offset of the alignment in the data.
    alignment_offset: u64,
    flags: u64,
    /// Empty for a section without bytes in the file.
    data: &'a [u8],
    /// In bytes, in the file or in the GPU's memory.
    size: u64,
    info: u32,
    kind: u32,
    offset: u64,
    address: u64,
    link: u32,
    entry_size: u64,
}

/// A named symbol of a cubin.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CubinSymbol {
    /// Its name.
    pub name: String,
    /// Whether the cubin defines it.
    pub defined: bool,
    /// Its visibility.
    pub binding: SymbolBinding,
    /// What it names.
    pub kind: SymbolKind,
    /// Of a variable: where it lives, if recorded.
    pub memory: Option<Memory>,
    /// Size in bytes, of a variable or of a function's code; 0 if it is not known here.
    pub size: u64,
}

/// The memory that a variable is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Memory {
    /// `__device__`.
    Global,
    /// `__shared__`. An undefined one is the array whose size the launch gives: no cubin needs to define it.
    Shared,
    /// `__constant__`.
    Constant,
}

/// The visibility of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SymbolBinding {
    /// Global: visible to every cubin of the link.
    Global,
    /// Weak: visible to every cubin of the link, and another definition may replace it.
    Weak,
    /// Local: visible to this cubin alone.
    Local,
}

/// What a symbol names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SymbolKind {
    /// A device function.
    Function,
    /// A function that the host can launch.
    Kernel,
    /// A variable.
    Object,
    /// A section, or something that only a device linker knows.
    Other,
}

/// Whether the data starts like a cubin; it may still be damaged.
pub fn is_cubin(data: &[u8]) -> bool {
    data.starts_with(header::ELFMAG) && u16_at(data, 18, "machine").is_ok_and(|machine| machine == EM_CUDA)
}

/// Reads a cubin and checks that nothing in it points outside.
///
/// # Errors
/// Data that is not a cubin, or a damaged cubin: the driver crashes on some of these.
pub fn parse(data: &[u8]) -> Result<Cubin<'_>, FormatError> {
    let header = parse_header(data)?;
    let ctx = context(&header)?;
    let headers = section_headers(data, &header, ctx)?;
    let sections = named_sections(data, &header, &headers)?;
    let (places, symbols): (Vec<_>, _) = symbols(data, &headers, ctx)?.into_iter().unzip();
    let (symbol_indices, symbol_sections) = places.into_iter().unzip();
    Ok(Cubin { data, header, sections, symbols, symbol_indices, symbol_sections })
}

/// Whether it is a cubin whose section table lies outside of it: the driver does not reject such a file, it crashes.
pub fn crashes_driver(data: &[u8]) -> bool {
    let Ok(header) = parse_header(data) else { return false };
    let size = u64::from(header.e_shnum) * u64::from(header.e_shentsize);
    header.e_shoff.checked_add(size).is_none_or(|end| end > data.len() as u64)
}

/// The size in bytes of the cubin at the start of `data`, computed from its tables; the length of `data` if they are damaged.
///
/// A fatbin does not record the size of what it stores uncompressed, and pads it to 8.
pub fn exact_size(data: &[u8]) -> usize {
    let Ok(header) = parse_header(data) else { return data.len() };
    let table = |at: u64, count: u16, size: u16| at.saturating_add(u64::from(count) * u64::from(size));
    let mut end = table(header.e_shoff, header.e_shnum, header.e_shentsize).max(table(
        header.e_phoff,
        header.e_phnum,
        header.e_phentsize,
    ));
    for section in context(&header).and_then(|ctx| section_headers(data, &header, ctx)).unwrap_or_default() {
        if section.sh_type != SHT_NOBITS {
            let behind = section.sh_offset.saturating_add(section.sh_size);
            // Sections of memory without bytes in the file may reach beyond it.
            end = if behind <= data.len() as u64 { end.max(behind) } else { end };
        }
    }
    let padding = data.len().saturating_sub(usize::try_from(end).unwrap_or(usize::MAX));
    // More than padding belongs to something else, and stays.
    if padding < 8 && data.iter().rev().take(padding).all(|&byte| byte == 0) {
        data.len() - padding
    } else {
        data.len()
    }
}

/// Number of bytes that [`is_relocatable`] needs.
pub(crate) const HEADER_SIZE: usize = 64;

/// Whether the cubin at the start of `data` is an input of a device link. Reads its header alone.
///
/// # Errors
/// Bytes that are not the header of a cubin.
pub(crate) fn is_relocatable(data: &[u8]) -> Result<bool, FormatError> {
    Ok(parse_header(data)?.e_type == header::ET_REL)
}

fn parse_header(data: &[u8]) -> Result<Header, FormatError> {
    if !data.starts_with(header::ELFMAG) {
        return Err(FormatError::wrong_format(0, "no cubin (not an ELF file)"));
    }
    let header = goblin::elf::Elf::parse_header(data).map_err(|e| FormatError::parser(0, "damaged cubin header", e))?;
    if header.e_ident[header::EI_DATA] != header::ELFDATA2LSB {
        return Err(FormatError::wrong_format(5, "no cubin (big-endian ELF file)"));
    }
    if header.e_machine != EM_CUDA {
        let what = format!("no cubin (ELF machine {}, not CUDA)", header.e_machine);
        return Err(FormatError::wrong_format(18, what));
    }
    if !matches!(header.e_ident[header::EI_OSABI], OSABI_OLD | OSABI_NEW) {
        let what = format!("cubin of an unknown ABI ({:#x})", header.e_ident[header::EI_OSABI]);
        return Err(FormatError::unsupported(7, what));
    }
    if !matches!(header.e_type, header::ET_REL | header::ET_EXEC) {
        let what = format!("cubin of an unknown type ({})", header.e_type);
        return Err(FormatError::unsupported(16, what));
    }
    Ok(header)
}

fn context(header: &Header) -> Result<Ctx, FormatError> {
    let container = header.container().map_err(|e| FormatError::parser(4, "damaged cubin header", e))?;
    Ok(Ctx::new(container, goblin::container::Endian::Little))
}

fn section_headers(data: &[u8], header: &Header, ctx: Ctx) -> Result<Vec<SectionHeader>, FormatError> {
    let count = usize::from(header.e_shnum);
    let size = SectionHeader::size(ctx);
    if usize::from(header.e_shentsize) != size {
        let what = format!("cubin with section headers of {} bytes", header.e_shentsize);
        return Err(FormatError::damaged(header.e_shoff, what));
    }
    if count == 0 || header.e_shoff == 0 {
        return Err(FormatError::damaged(0, "cubin without sections"));
    }
    let table = slice(data, header.e_shoff, (count * size) as u64, "the cubin's section table")?;
    SectionHeader::parse_from(table, 0, count, ctx)
        .map_err(|e| FormatError::parser(header.e_shoff, "damaged section table", e))
}

fn named_sections<'a>(
    data: &'a [u8],
    header: &Header,
    headers: &[SectionHeader],
) -> Result<Vec<CubinSection<'a>>, FormatError> {
    let names = headers
        .get(usize::from(header.e_shstrndx))
        .filter(|names| names.sh_type == SHT_STRTAB)
        .ok_or_else(|| FormatError::damaged(header.e_shoff, "cubin without section names"))?;
    let names_data = slice(data, names.sh_offset, names.sh_size, "the table of the cubin's section names")?;
    let mut sections = Vec::with_capacity(headers.len());
    let alignment_at = if header.e_ident[header::EI_CLASS] == header::ELFCLASS64 { 48 } else { 32 };
    let alignments = (header.e_shoff.saturating_add(alignment_at)..).step_by(usize::from(header.e_shentsize));
    for (section, alignment_offset) in headers.iter().zip(alignments) {
        let name =
            c_str(names_data, section.sh_name as u64, "a section name").map_err(|e| e.shifted(names.sh_offset))?;
        // The table of names was overwritten with zeros; the driver rejects such a cubin.
        if name.is_empty() && section.sh_type != SHT_NULL {
            return Err(FormatError::damaged(names.sh_offset, "cubin with a section without a name"));
        }
        sections.push(CubinSection {
            name,
            name_offset: names.sh_offset.saturating_add(section.sh_name as u64),
            alignment: section.sh_addralign,
            alignment_offset,
            flags: section.sh_flags,
            data: section_data(data, section, name)?,
            size: section.sh_size,
            info: section.sh_info,
            kind: section.sh_type,
            offset: section.sh_offset,
            address: section.sh_addr,
            link: section.sh_link,
            entry_size: section.sh_entsize,
        });
    }
    Ok(sections)
}

fn section_data<'a>(data: &'a [u8], section: &SectionHeader, name: &str) -> Result<&'a [u8], FormatError> {
    if !is_in_file(section.sh_type) {
        return Ok(&[]);
    }
    let what = format!("the cubin's section {name}");
    slice(data, section.sh_offset, section.sh_size, &what)
}

/// Whether sections of this type have bytes in the file.
pub(crate) fn is_in_file(kind: u32) -> bool {
    !matches!(kind, SHT_NOBITS | SHT_NULL | SHT_CUDA_GLOBAL | SHT_CUDA_LOCAL | SHT_CUDA_SHARED)
}

/// The place of a symbol in its table, and the index of the section that it is in.
type SymbolPlace = (u32, usize);

/// The named symbols, each with its place.
fn symbols(data: &[u8], headers: &[SectionHeader], ctx: Ctx) -> Result<Vec<(SymbolPlace, CubinSymbol)>, FormatError> {
    let mut symbols = Vec::new();
    for table in headers.iter().filter(|section| section.sh_type == SHT_SYMTAB) {
        let names = headers
            .get(table.sh_link as usize)
            .filter(|names| names.sh_type == SHT_STRTAB)
            .ok_or_else(|| FormatError::damaged(table.sh_offset, "symbol table without names"))?;
        let names_data = slice(data, names.sh_offset, names.sh_size, "the table of the cubin's symbol names")?;
        for (index, symbol) in (0u32..).zip(raw_symbols(data, table, ctx)?) {
            let name =
                c_str(names_data, symbol.st_name as u64, "a symbol name").map_err(|e| e.shifted(names.sh_offset))?;
            if name.is_empty() && symbol.st_name != 0 {
                return Err(FormatError::damaged(names.sh_offset, "cubin with a symbol that lost its name"));
            }
            check_section_index(&symbol, headers.len(), table.sh_offset)?;
            if !name.is_empty() {
                symbols.push(((index, symbol.st_shndx), describe(name, &symbol)));
            }
        }
    }
    Ok(symbols)
}

fn raw_symbols(data: &[u8], table: &SectionHeader, ctx: Ctx) -> Result<Vec<Sym>, FormatError> {
    let bytes = slice(data, table.sh_offset, table.sh_size, "the cubin's symbol table")?;
    let count = bytes.len() / Sym::size(ctx.container);
    Sym::parse(bytes, 0, count, ctx).map_err(|e| FormatError::parser(table.sh_offset, "damaged symbol table", e))
}

fn check_section_index(symbol: &Sym, sections: usize, table: u64) -> Result<(), FormatError> {
    const SHN_LORESERVE: usize = 0xff00;
    if symbol.st_shndx < sections || symbol.st_shndx >= SHN_LORESERVE {
        return Ok(());
    }
    Err(FormatError::damaged(table, "symbol of a section that does not exist"))
}

fn describe(name: &str, symbol: &Sym) -> CubinSymbol {
    let is_kernel = symbol.st_other & STO_CUDA_ENTRY != 0;
    CubinSymbol {
        name: name.to_owned(),
        defined: symbol.st_shndx != SHN_UNDEF,
        binding: match symbol.st_bind() {
            sym::STB_GLOBAL => SymbolBinding::Global,
            sym::STB_WEAK => SymbolBinding::Weak,
            _ => SymbolBinding::Local,
        },
        kind: match symbol.st_type() {
            sym::STT_FUNC if is_kernel => SymbolKind::Kernel,
            sym::STT_FUNC => SymbolKind::Function,
            sym::STT_OBJECT | STT_CUDA_OBJECT => SymbolKind::Object,
            _ => SymbolKind::Other,
        },
        memory: memory(symbol),
        size: symbol.st_size,
    }
}

fn memory(symbol: &Sym) -> Option<Memory> {
    if !matches!(symbol.st_type(), sym::STT_OBJECT | STT_CUDA_OBJECT) {
        return None;
    }
    let spaces =
        [(STO_CUDA_GLOBAL, Memory::Global), (STO_CUDA_SHARED, Memory::Shared), (STO_CUDA_CONSTANT, Memory::Constant)];
    let space = spaces.into_iter().find(|(bit, _)| symbol.st_other & bit != 0);
    space.map(|(_, memory)| memory)
}

impl<'a> Cubin<'a> {
    /// The bytes that were parsed.
    pub fn data(&self) -> &'a [u8] {
        self.data
    }

    /// Whether it is an input of a device link (`ptxas -c`), in contrast to a result.
    pub fn is_relocatable(&self) -> bool {
        self.header.e_type == header::ET_REL
    }

    /// Whether addresses have 64 bits.
    pub fn is_64_bit(&self) -> bool {
        self.header.e_ident[header::EI_CLASS] == header::ELFCLASS64
    }

    /// The GPU that it was compiled for.
    ///
    /// The suffix `f` is not recorded reliably: such a cubin has the plain architecture here.
    pub fn arch(&self) -> GpuArch {
        let flags = self.header.e_flags;
        let (number, accelerated) = if self.is_new_abi() {
            let by_flag = flags & NEW_FLAG_ACCELERATED != 0;
            (flags >> 8 & 0xff, by_flag || self.compat_says_accelerated())
        } else {
            (flags & 0xff, flags & OLD_FLAG_ACCELERATED != 0)
        };
        let feature = if accelerated { ArchFeature::Accelerated } else { ArchFeature::Plain };
        GpuArch { number, feature }
    }

    /// `EI_ABIVERSION`: 7 of the old layout, 8 of the new one.
    pub fn abi_version(&self) -> u8 {
        self.header.e_ident[header::EI_ABIVERSION]
    }

    /// Whether the driver may finalize the code for another GPU of its family.
    pub fn finalizable(&self) -> bool {
        self.is_new_abi() && self.header.e_flags & NEW_FLAG_FINALIZABLE != 0
    }

    /// The section `.nv.compat`, if there is one.
    pub fn nv_compat(&self) -> Option<&'a [u8]> {
        self.section(NV_COMPAT)
    }

    /// Whether it was made with full debug information (`-g`), with or without that of the source language.
    pub fn has_debug_info(&self) -> bool {
        // ptxas -g writes the second even for PTX without any DWARF; -lineinfo writes neither.
        [".debug_info", ".nv_debug_info_reg_sass"].iter().any(|name| self.section(name).is_some())
    }

    /// Name and size in bytes of every section with bytes in the file.
    pub fn section_sizes(&self) -> impl Iterator<Item = (&'a str, u64)> + '_ {
        self.sections.iter().map(|section| (section.name, section.data.len() as u64))
    }

    /// Whether it maps machine code to lines (`-g` or `-lineinfo`).
    pub fn has_line_info(&self) -> bool {
        self.section(".nv_debug_line_sass").is_some()
    }

    /// The kernels that it defines, in the order of its symbol table.
    pub fn kernels(&self) -> Vec<String> {
        let kernels = self.symbols.iter().filter(|symbol| symbol.kind == SymbolKind::Kernel && symbol.defined);
        kernels.map(|symbol| symbol.name.clone()).collect()
    }

    /// All named symbols in the order of the symbol table.
    ///
    /// The undefined weak ones named `__UDT`, `__UFT` and the like, and those that start with `.nv.`, are the device linker's own.
    pub fn symbols(&self) -> &[CubinSymbol] {
        &self.symbols
    }

    /// The CUDA release whose ptxas or nvlink made it. CUDA 12 does not record it for sm_100 and later.
    pub fn toolkit(&self) -> Option<CudaRelease> {
        let tenfold = if self.is_new_abi() { self.note_toolkit()? } else { self.header.e_version };
        // Version 1 is the ELF version itself, not CUDA 0.1.
        (tenfold > 1).then_some(CudaRelease { major: tenfold / 10, minor: tenfold % 10 })
    }

    /// The number of the virtual architecture that the code was compiled for: 80 of `-gencode arch=compute_80,code=sm_90`.
    ///
    /// A device link records the lowest of its parts. The CUDA runtime gives it as `cudaFuncAttributes::ptxVersion`.
    pub fn virtual_arch(&self) -> Option<u32> {
        let number = if self.is_new_abi() {
            let (note, description) = self.cuinfo()?;
            u16_at(note, description + 2, "virtual architecture").ok()?.into()
        } else {
            self.header.e_flags >> 16 & 0xff
        };
        (number != 0).then_some(number)
    }

    fn is_new_abi(&self) -> bool {
        self.header.e_ident[header::EI_OSABI] == OSABI_NEW
    }

    /// The bytes of a section.
    pub(crate) fn section(&self, name: &str) -> Option<&'a [u8]> {
        let section = self.sections.iter().find(|section| section.name == name);
        section.map(|section| section.data)
    }

    /// From the note {name size, description size, type, "NVIDIA Corp", u16 2, u16 virtual architecture, u32 ten times the release}.
    fn note_toolkit(&self) -> Option<u32> {
        let (note, description) = self.cuinfo()?;
        u32_at(note, description + 4, "toolkit").ok()
    }

    /// The note, and where its description starts.
    fn cuinfo(&self) -> Option<(&'a [u8], u64)> {
        let note = self.section(NOTE_CUINFO)?;
        let name_size = u32_at(note, 0, "name size").ok()?;
        Some((note, 12 + u64::from(name_size).next_multiple_of(4)))
    }

    fn compat_says_accelerated(&self) -> bool {
        const ACCELERATOR_TARGET: u8 = 9;
        let is_target =
            |record: &Record<'_>| record.attribute == ACCELERATOR_TARGET && matches!(record.value, Value::Number(_));
        let target = records(self.nv_compat().unwrap_or_default()).find(is_target);
        target.is_some_and(|record| matches!(record.value, Value::Number(1..)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn a_sound_cubin() {
        for name in ["sm_90", "sm_90a", "sm_100", "sm_100a"] {
            let arch: GpuArch = name.parse().expect("an architecture");
            let data = samples::cubin(arch, true);
            let cubin = parse(&data).expect("a sound cubin");
            assert_eq!((cubin.arch(), cubin.is_relocatable()), (arch, true));
            assert_eq!((cubin.toolkit(), cubin.finalizable()), (Some(CudaRelease::new(13, 0)), arch.number >= 100));
            assert_eq!(cubin.kernels(), ["first"]);
            let names: Vec<_> = cubin.symbols().iter().map(|s| (s.name.as_str(), s.defined, s.kind)).collect();
            let expected = [
                ("first", true, SymbolKind::Kernel),
                ("callee", false, SymbolKind::Function),
                ("counter", true, SymbolKind::Object),
            ];
            assert_eq!(names, expected);
        }
    }

    #[test]
    fn the_old_layout() {
        // As ptxas 12.9 writes them: the number in the low byte, the suffix in bit 11, ten times the release as version.
        let mut data = samples::cubin(GpuArch::plain(90), false);
        (data[7], data[8]) = (OSABI_OLD, 7);
        data[20..24].copy_from_slice(&129u32.to_le_bytes());
        for (flags, name) in [(0x005a_055a_u32, "sm_90"), (0x005a_0d5a, "sm_90a")] {
            data[48..52].copy_from_slice(&flags.to_le_bytes());
            let cubin = parse(&data).expect("a sound cubin");
            assert_eq!(cubin.arch().to_string(), name);
            assert_eq!((cubin.toolkit(), cubin.abi_version()), (Some(CudaRelease::new(12, 9)), 7));
        }
    }

    #[test]
    fn names_that_were_zeroed_are_refused() {
        for name in [&b".nv.compat"[..], b"first\0callee"] {
            let mut damaged = samples::cubin(GpuArch::plain(90), false);
            let at = damaged.windows(name.len()).position(|window| window == name).expect("the name");
            damaged[at..at + name.len()].fill(0);
            assert!(parse(&damaged).is_err(), "{name:?}");
        }
    }

    #[test]
    fn a_section_table_outside_is_refused() {
        let data = samples::cubin(GpuArch::plain(90), false);
        let mut damaged = data.clone();
        damaged[40..48].copy_from_slice(&(data.len() as u64 - 8).to_le_bytes());
        let error = parse(&damaged).expect_err("a damaged cubin");
        assert_eq!(error.kind.to_string(), "the cubin's section table goes beyond the end of the data");
        assert!(crashes_driver(&damaged) && !crashes_driver(&data) && !crashes_driver(b"\x7fELF"));
        assert!(parse(&data[..data.len() - 1]).is_err());
        assert!(parse(&samples::host_object(&[])).is_err());
    }
}
