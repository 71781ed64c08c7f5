//! Objects and code objects: their kernels, with metadata and descriptors, and the changes that make objects of one program fit together.

use std::collections::{BTreeMap, BTreeSet};

use object::elf::{FileHeader64, SHF_EXCLUDE, SHT_NOTE};
use object::read::elf::{ElfFile64, NoteIterator, SectionHeader};
use object::{LittleEndian, Object, ObjectSection, ObjectSymbol, SymbolIndex};

use super::descriptor::{Descriptor, PointerCalls, RegisterFile, Registers};
use super::header;
use super::metadata::{KernelMetadata, Metadata, NOTE_NAME, NOTE_TYPE};
use crate::FormatError;
use crate::bytes::slice;
use crate::elf_edit::ExtendedElf;

/// The end of the name of a kernel's descriptor.
const DESCRIPTOR: &str = ".kd";

/// The file of an object or code object.
pub struct Code<'d> {
    data: &'d [u8],
    elf: ElfFile64<'d, LittleEndian>,
    processor: Option<String>,
}

/// A kernel of an object or code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Kernel {
    /// What the metadata records.
    pub metadata: KernelMetadata,
    /// Its descriptor.
    pub descriptor: Descriptor,
    /// Offset of the descriptor in the file.
    pub offset: u64,
    /// Size of its machine code in bytes, without the functions that it calls.
    pub code_size: u64,
    /// What the symbols of the assembler tell, in objects that LLVM writes.
    pub symbols: Option<ResourceSymbols>,
}

impl Kernel {
    /// Its registers: the symbols have those that the metadata adds up.
    fn registers(&self) -> Option<Registers> {
        let ResourceSymbols { vgprs, agprs, .. } = self.symbols?;
        Some(Registers { vgprs, agprs, sgprs: self.metadata.registers.sgprs })
    }

    /// Registers of functions, with the scalar registers that the hardware adds for this kernel.
    fn with_added_sgprs(&self, functions: Registers) -> Registers {
        let added = match self.symbols.and_then(|symbols| symbols.sgprs) {
            Some(numbered) => self.metadata.registers.sgprs.saturating_sub(numbered),
            None => VCC,
        };
        Registers { sgprs: functions.sgprs.saturating_add(added), ..functions }
    }
}

/// The scalar registers that the metadata of a kernel counts besides those that it uses by number, on GPUs that do not count them for the hardware:
/// the condition code, which unknown functions may use.
const VCC: u32 = 2;

/// The symbols that LLVM's assembler defines for each kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResourceSymbols {
    /// `.num_vgpr`
    pub vgprs: u32,
    /// `.num_agpr`
    pub agprs: u32,
    /// `.numbered_sgpr`: without those that the hardware adds. Objects for GPUs that do not count scalar registers have no such symbol.
    pub sgprs: Option<u32>,
    /// `.has_recursion`, which also calls of unknown functions set.
    pub recursion: bool,
    /// `.has_dyn_sized_stack`, the same.
    pub dynamic_stack: bool,
}

impl ResourceSymbols {
    /// Whether the kernel may call functions that are not known.
    pub fn calls_unknown(&self) -> bool {
        self.recursion && self.dynamic_stack
    }
}

impl<'d> Code<'d> {
    /// Reads the tables of the file.
    ///
    /// # Errors
    /// Data that is no sound ELF file for AMD GPUs.
    pub fn parse(data: &'d [u8]) -> Result<Self, FormatError> {
        let target = header(data)?.target;
        let elf = ElfFile64::parse(data).map_err(|error| FormatError::parser(0, "AMD GPU code", error))?;
        Ok(Code { data, elf, processor: target.map(|target| target.processor) })
    }

    /// The metadata; `None` if the file has none.
    ///
    /// # Errors
    /// A damaged note.
    pub fn metadata(&self) -> Result<Option<Metadata>, FormatError> {
        for section in self.elf.sections() {
            if section.elf_section_header().sh_type(LittleEndian) != SHT_NOTE {
                continue;
            }
            let Some((offset, size)) = section.file_range() else { continue };
            let damaged = |error| FormatError::parser(offset, "damaged notes", error);
            let notes = slice(self.data, offset, size, "the section of notes")?;
            // Parts of a note start at multiples of 4, whatever the section's alignment.
            let mut notes = NoteIterator::<FileHeader64<_>>::new(LittleEndian, 4, notes).map_err(damaged)?;
            while let Some(note) = notes.next().map_err(damaged)? {
                if note.n_type(LittleEndian).0 == NOTE_TYPE && note.name_bytes() == NOTE_NAME {
                    return Metadata::parse(note.desc()).map(Some).map_err(|error| error.shifted(offset));
                }
            }
        }
        Ok(None)
    }

    /// The kernels of the metadata, with their descriptors.
    ///
    /// # Errors
    /// Damaged metadata, or a kernel without a descriptor.
    pub fn kernels(&self) -> Result<Vec<Kernel>, FormatError> {
        let Some(metadata) = self.metadata()? else { return Ok(Vec::new()) };
        let places = self.symbol_places();
        let values = self.resource_values();
        let symbols = self.elf.symbols().chain(self.elf.dynamic_symbols());
        let sizes: BTreeMap<&str, u64> =
            symbols.filter_map(|symbol| Some((symbol.name().ok()?, symbol.size()))).collect();
        let kernel = |metadata: KernelMetadata| {
            let missing = || FormatError::damaged(0, format!("no kernel descriptor {}", metadata.descriptor));
            let offset = places.get(metadata.descriptor.as_str()).copied().ok_or_else(missing)?;
            let descriptor = Descriptor::read(self.data, offset)?;
            let symbols = resource_symbols(&metadata.name, &values);
            let code_size = sizes.get(metadata.name.as_str()).copied().unwrap_or(0);
            Ok(Kernel { metadata, descriptor, offset, code_size, symbols })
        };
        metadata.kernels().into_iter().map(kernel).collect()
    }

    /// The kernels that others see, by the symbols of their descriptors. The metadata of a code object with objects of several compilers
    /// is in several notes.
    pub fn visible_kernels(&self) -> BTreeSet<&str> {
        let symbols = self.elf.symbols().chain(self.elf.dynamic_symbols());
        let visible = symbols.filter(|symbol| !symbol.is_local() && !symbol.is_undefined());
        visible.filter_map(|symbol| symbol.name().ok()?.strip_suffix(DESCRIPTOR)).collect()
    }

    /// The file offsets of defined symbols with content, by name.
    fn symbol_places(&self) -> BTreeMap<&str, u64> {
        let place = |symbol: &object::read::elf::ElfSymbol64<'d, '_, LittleEndian>| {
            let section = self.elf.section_by_index(symbol.section_index()?).ok()?;
            let (offset, _) = section.file_range()?;
            let within = symbol.address().checked_sub(section.address())?;
            Some((symbol.name().ok()?, offset.checked_add(within)?))
        };
        let symbols = self.elf.symbols().chain(self.elf.dynamic_symbols());
        symbols.filter_map(|symbol| place(&symbol)).collect()
    }

    /// The values of absolute symbols, by name.
    fn resource_values(&self) -> BTreeMap<&str, u64> {
        let absolute = self
            .elf
            .symbols()
            .filter(|symbol| symbol.index() != SymbolIndex(0) && symbol.section() == object::SymbolSection::Absolute);
        absolute.filter_map(|symbol| Some((symbol.name().ok()?, symbol.address()))).collect()
    }

    /// The sections with their sizes in the file.
    pub fn section_sizes(&self) -> Vec<(&str, u64)> {
        let sections = self.elf.sections();
        sections.filter_map(|section| Some((section.name().ok()?, section.file_range()?.1))).collect()
    }

    pub(super) fn elf(&self) -> &ElfFile64<'d, LittleEndian> {
        &self.elf
    }

    pub(super) fn data(&self) -> &'d [u8] {
        self.data
    }

    /// How the GPU counts registers.
    pub fn register_file(&self) -> Option<RegisterFile> {
        RegisterFile::of(self.processor.as_deref()?)
    }
}

fn resource_symbols(kernel: &str, values: &BTreeMap<&str, u64>) -> Option<ResourceSymbols> {
    let named = |name: String| values.get(name.as_str()).copied();
    // LLVM 23 makes them local labels.
    let value = |what: &str| named(format!("{kernel}.{what}")).or_else(|| named(format!(".L{kernel}.{what}")));
    let count = |what: &str| value(what).and_then(|value| u32::try_from(value).ok());
    Some(ResourceSymbols {
        vgprs: count("num_vgpr")?,
        agprs: count("num_agpr")?,
        sgprs: count("numbered_sgpr"),
        recursion: value("has_recursion")? != 0,
        dynamic_stack: value("has_dyn_sized_stack")? != 0,
    })
}

/// An object that is linked with others of the same program.
pub struct PartObject {
    bytes: Vec<u8>,
    metadata: Metadata,
    kernels: Vec<Kernel>,
    file: RegisterFile,
}

impl PartObject {
    /// Reads an object of LLVM.
    ///
    /// # Errors
    /// A file that is no sound relocatable object of LLVM for a known processor, or one with formats of printf.
    pub fn new(bytes: Vec<u8>) -> Result<Self, FormatError> {
        let code = Code::parse(&bytes)?;
        let file = code.register_file();
        let file = file.ok_or_else(|| FormatError::unsupported(48, "registers of this processor"))?;
        let metadata = code.metadata()?;
        let metadata = metadata.ok_or_else(|| FormatError::damaged(0, "an object without metadata"))?;
        if metadata.has_printf() {
            return Err(FormatError::unsupported(0, "formats of printf in an object of several"));
        }
        let kernels = code.kernels()?;
        // What cannot be recomputed cannot be settled.
        if let Some(kernel) = kernels.iter().find(|kernel| !is_understood(kernel, file)) {
            let name = &kernel.metadata.name;
            return Err(FormatError::unsupported(kernel.offset, format!("register counts of the kernel {name}")));
        }
        Ok(PartObject { bytes, metadata, kernels, file })
    }

    /// The error for objects whose metadata differs in more than kernels.
    pub fn different() -> FormatError {
        FormatError::damaged(0, "objects of one program with different metadata")
    }

    /// Gives kernels that call through pointers the registers of all functions that may be called so. Returns whether that changes any.
    ///
    /// LLVM gives them those of all functions of their object, whether their address is taken or not.
    pub fn settle(&mut self, calls: &PointerCalls) -> bool {
        let known: BTreeMap<&str, Option<Registers>> =
            calls.kernels.iter().map(|(name, own)| (name.as_str(), *own)).collect();
        let mut changes = false;
        for kernel in &self.kernels {
            let Some(own) = kernel.registers() else { continue };
            let calls_unknown = kernel.symbols.is_some_and(|symbols| symbols.calls_unknown());
            let registers = match known.get(kernel.metadata.name.as_str()) {
                Some(Some(base)) => kernel.with_added_sgprs(base.max(calls.functions)),
                // Its recursion and its stack of unknown size, if its symbols have both, are its own.
                Some(None) => continue,
                None if calls_unknown => own.max(kernel.with_added_sgprs(calls.functions)),
                None => continue,
            };
            if registers == own {
                continue;
            }
            changes = true;
            self.metadata.set_registers(&kernel.metadata.name, registers);
            let raised = kernel.descriptor.with_registers(registers, self.file);
            for (field, word) in raised.words() {
                // The descriptor was read from there.
                let place = usize::try_from(kernel.offset + field).unwrap_or(usize::MAX);
                if let Some(bytes) = self.bytes.get_mut(place..place.saturating_add(4)) {
                    bytes.copy_from_slice(&word.to_le_bytes());
                }
            }
        }
        changes
    }

    /// Takes the metadata out of the object: the linker leaves out the section of its note.
    ///
    /// # Errors
    /// Damaged tables.
    pub fn split(self) -> Result<(Vec<u8>, Metadata), FormatError> {
        Ok((excluding_notes(&self.bytes)?, self.metadata))
    }
}

/// Whether the descriptor and the metadata of a kernel follow from its symbols.
fn is_understood(kernel: &Kernel, file: RegisterFile) -> bool {
    let Some(registers) = kernel.registers() else { return false };
    if file.counts_sgprs() && kernel.symbols.is_some_and(|symbols| symbols.sgprs.is_none()) {
        return false;
    }
    let total = file.total_vgprs(registers);
    kernel.descriptor.with_registers(registers, file) == kernel.descriptor
        && (total, registers.agprs) == (kernel.metadata.total_vgprs, kernel.metadata.registers.agprs)
}

/// The object with flags that let the linker leave out its notes.
fn excluding_notes(object: &[u8]) -> Result<Vec<u8>, FormatError> {
    let mut elf = ExtendedElf::new(object)?;
    for number in 0..elf.headers().len() {
        elf.change(number, |header| {
            if header.kind == SHT_NOTE.0 {
                header.flags = SHF_EXCLUDE.0;
            }
        });
    }
    elf.finish()
}

/// Writes an object that holds nothing but metadata. `like` is another object of the program, whose header it takes.
///
/// # Errors
/// `like` has no header.
pub fn metadata_object(metadata: &Metadata, like: &[u8]) -> Result<Vec<u8>, FormatError> {
    let document = metadata.bytes();
    let mut note = Vec::new();
    for number in [NOTE_NAME.len() as u32, document.len() as u32, NOTE_TYPE] {
        note.extend(number.to_le_bytes());
    }
    note.extend(NOTE_NAME);
    note.resize(note.len().next_multiple_of(4), 0);
    note.extend(&document);
    note.resize(note.len().next_multiple_of(4), 0);
    const NAMES: &[u8] = b"\0.note\0.shstrtab\0";
    let header = slice(like, 0, 64, "the ELF header")?;
    let mut out = header.to_vec();
    let names_at = out.len() + note.len();
    let sections_at = (names_at + NAMES.len()).next_multiple_of(8);
    // No program headers; three sections, the names in the last.
    for (place, number, size) in
        [(32, 0, 8), (40, sections_at as u64, 8), (54, 0, 4), (58, 64, 2), (60, 3, 2), (62, 2, 2)]
    {
        out[place..place + size].copy_from_slice(&number.to_le_bytes()[..size]);
    }
    out.extend(&note);
    out.extend(NAMES);
    out.resize(sections_at, 0);
    out.extend([0; 64]);
    const ALLOCATED: u64 = 2;
    const SHT_STRTAB: u32 = 3;
    for (name, kind, flags, offset, size, alignment) in
        [(1_u32, SHT_NOTE.0, ALLOCATED, 64, note.len(), 4_u64), (7, SHT_STRTAB, 0, names_at, NAMES.len(), 1)]
    {
        out.extend(name.to_le_bytes());
        out.extend(kind.to_le_bytes());
        for number in [flags, 0, offset as u64, size as u64, 0, alignment, 0] {
            out.extend(number.to_le_bytes());
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::amdgpu::EM_AMDGPU;
    use rmpv::Value;

    fn document(names: &[&str]) -> Metadata {
        let kernel = |name: &&str| {
            let text = |key: &str, value: String| (Value::from(key), Value::from(value));
            let number = |key: &str, value: u32| (Value::from(key), Value::from(value));
            Value::Map(vec![
                text(".name", (*name).to_owned()),
                text(".symbol", format!("{name}.kd")),
                number(".vgpr_count", 41),
                number(".agpr_count", 0),
                number(".sgpr_count", 42),
            ])
        };
        let kernels = Value::Array(names.iter().map(kernel).collect());
        let target = Value::from("amdgcn-amd-amdhsa--gfx90a");
        let entries = vec![(Value::from("amdhsa.kernels"), kernels), (Value::from("amdhsa.target"), target)];
        let mut bytes = Vec::new();
        rmpv::encode::write_value(&mut bytes, &Value::Map(entries)).unwrap();
        Metadata::parse(&bytes).unwrap()
    }

    /// The header of an object for gfx90a.
    fn like() -> Vec<u8> {
        let mut data = vec![0; 64];
        data[..9].copy_from_slice(&[0x7f, b'E', b'L', b'F', 2, 1, 1, 64, 4]);
        data[16] = 1;
        data[18..20].copy_from_slice(&EM_AMDGPU.to_le_bytes());
        data[20] = 1;
        data[48..52].copy_from_slice(&0x53f_u32.to_le_bytes());
        data[52] = 64;
        data
    }

    #[test]
    fn metadata_of_several_objects_becomes_one() {
        let joined = Metadata::join(vec![document(&["second"]), document(&["third", "first"])]).unwrap();
        let names: Vec<_> = joined.kernels().into_iter().map(|kernel| kernel.name).collect();
        assert_eq!(names, ["first", "second", "third"]);
        let object = metadata_object(&joined, &like()).unwrap();
        assert_eq!(Code::parse(&object).unwrap().metadata().unwrap(), Some(joined.clone()));
        // A kernel without a descriptor.
        assert!(Code::parse(&object).unwrap().kernels().is_err());
        assert_eq!(joined.target(), Some("amdgcn-amd-amdhsa--gfx90a"));
        let split = excluding_notes(&object).unwrap();
        let section = ElfFile64::<LittleEndian>::parse(&*split).unwrap().section_by_name(".note").unwrap().flags();
        assert_eq!(section, object::SectionFlags::Elf { sh_type: SHT_NOTE, sh_flags: SHF_EXCLUDE });
        assert_eq!(split.iter().zip(&object).filter(|(one, other)| one != other).count(), 2);
        assert_eq!(split.len(), object.len());
    }

    #[test]
    fn visible_kernels_have_descriptors() {
        let code = crate::samples::amd_code(40, &[0; 16]);
        let code = Code::parse(&code).unwrap();
        assert_eq!(code.visible_kernels().into_iter().collect::<Vec<_>>(), ["first"]);
    }

    #[test]
    fn registers_are_recorded() {
        let mut metadata = document(&["kernel", "other"]);
        metadata.set_registers("kernel", Registers { vgprs: 5, agprs: 3, sgprs: 50 });
        let [kernel, other] = &metadata.kernels()[..] else { panic!("two kernels") };
        assert_eq!((kernel.total_vgprs, kernel.registers.agprs, kernel.registers.sgprs), (11, 3, 50));
        assert_eq!((other.total_vgprs, other.registers.sgprs), (41, 42));
    }

    #[test]
    fn damaged_files_are_errors() {
        let object = metadata_object(&document(&["kernel"]), &like()).unwrap();
        let read = |data: &[u8]| Code::parse(data).and_then(|code| code.kernels().map(drop));
        for length in 0..object.len() {
            let _ = read(&object[..length]);
            let _ = excluding_notes(&object[..length]);
        }
        for place in 0..object.len() {
            for value in [0, 0x7f, 0x80, 0xff] {
                let mut damaged = object.clone();
                damaged[place] = value;
                let _ = read(&damaged);
                let _ = PartObject::new(damaged);
            }
        }
        assert!(read(&object[..100]).is_err());
    }
}
