//! Checks what the driver needs of a cubin beyond sound tables: sections under the names that it looks for, and alignments.
//!
//! Each bit of the section names of eleven cubins (of ptxas 12.9 and 13.0 and nvlink 13.0, executable and relocatable, with and
//! without debug information) was flipped and the result loaded on a GPU of sm_90 with driver 580. The driver uses names, hardly
//! section types: it found a section whose type was overwritten, and did not find one whose name was.
//!
//! It checks the alignment of every section, even of those that it does not use and of the null section, and ignores those of program
//! headers. (18 alignments of each section of a cubin, executable and relocatable, loaded lazily and eagerly on an H100 with driver 580.)

use goblin::elf::section_header::{SHF_WRITE, SHT_SYMTAB};

use super::records::no_record;
use super::{Cubin, CubinSection, CubinSymbol, Memory, SymbolBinding, SymbolKind};
use crate::FormatError;

const TOOL_NOTE: &str = ".note.nv.tkinfo";
/// CUDA 12.8 and 12.9 write the second.
const VERSION_NOTES: [&str; 2] = [super::NOTE_CUINFO, ".note.nv.cuver"];

/// Variables in global memory: zeros, and others.
const GLOBALS: [&str; 2] = [".nv.global", ".nv.global.init"];

/// Why the driver does not run a cubin with sound tables.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// The driver rejects the cubin: `CUDA_ERROR_INVALID_IMAGE`.
    Rejected(FormatError),
    /// The driver loads the cubin but does not find a kernel in it: `CUDA_ERROR_NOT_FOUND`.
    KernelNotFound(FormatError),
    /// The driver loads the cubin but does not find a function that a kernel calls: `CUDA_ERROR_UNKNOWN`.
    FunctionNotFound(FormatError),
    /// The driver does not find its way through the symbols: `CUDA_ERROR_UNKNOWN`.
    SymbolsNotRead(FormatError),
    /// The driver runs a kernel with fewer registers or less stack than the functions that it calls use:
    /// `CUDA_ERROR_ILLEGAL_INSTRUCTION`.
    ResourcesNotLinked(FormatError),
}

impl Fault {
    /// What is wrong, and where.
    pub fn error(&self) -> &FormatError {
        match self {
            Fault::Rejected(error)
            | Fault::KernelNotFound(error)
            | Fault::FunctionNotFound(error)
            | Fault::SymbolsNotRead(error)
            | Fault::ResourcesNotLinked(error) => error,
        }
    }

    /// The same fault with another error.
    #[must_use]
    pub fn with_error(&self, error: FormatError) -> Self {
        match self {
            Fault::Rejected(_) => Fault::Rejected(error),
            Fault::KernelNotFound(_) => Fault::KernelNotFound(error),
            Fault::FunctionNotFound(_) => Fault::FunctionNotFound(error),
            Fault::SymbolsNotRead(_) => Fault::SymbolsNotRead(error),
            Fault::ResourcesNotLinked(_) => Fault::ResourcesNotLinked(error),
        }
    }
}

/// Prefixes of known section names; `.rel` or `.rela` may precede them.
const KNOWN_NAMES: [&str; 23] = [
    ".shstrtab",
    ".strtab",
    ".symtab",
    ".symtab_shndx",
    ".text.",
    ".debug_",
    ".nv_debug",
    ".eh_frame",
    ".note.",
    ".nv.info",
    ".nv.compat",
    ".nv.callgraph",
    ".nv.prototype",
    ".nv.rel.action",
    ".nv.constant",
    ".nv.global",
    ".nv.shared",
    ".nv.local",
    ".nv.uft",
    ".nv.udt",
    ".nv.merc",
    ".nv.capmerc",
    ".nv.host",
];

impl<'a> Cubin<'a> {
    /// Why the driver does not run this cubin, if a section has an impossible alignment, or one of the sections that it looks for
    /// another name than it should.
    pub fn fault(&self) -> Option<Fault> {
        let rejected = self.wrong_alignment().or_else(|| self.missing_note()).or_else(|| self.no_record());
        let unread = || self.wrong_symbol_size().map(Fault::SymbolsNotRead);
        rejected.map(Fault::Rejected).or_else(unread).or_else(|| self.misplaced_symbol())
    }

    /// A symbol table whose header names another size than that of its symbols. (Seen with one flipped bit on an H100 with driver 580.)
    fn wrong_symbol_size(&self) -> Option<FormatError> {
        // Behind the alignment in the headers of both classes, of 8 bytes in the one and 4 in the other.
        let field = |section: &CubinSection<'_>| section.alignment_offset + if self.is_64_bit() { 8 } else { 4 };
        let size = if self.is_64_bit() { 24 } else { 16 };
        let is_wrong = |section: &&CubinSection<'_>| section.kind == SHT_SYMTAB && section.entry_size != size;
        let section = self.sections.iter().find(is_wrong)?;
        let what = format!("cubin whose symbol table has symbols of {:#x} bytes", section.entry_size);
        Some(FormatError::damaged(field(section), what))
    }

    /// An alignment that is neither 0 nor a power of two.
    fn wrong_alignment(&self) -> Option<FormatError> {
        let is_wrong = |section: &&CubinSection<'_>| section.alignment != 0 && !section.alignment.is_power_of_two();
        let section = self.sections.iter().find(is_wrong)?;
        let CubinSection { name, alignment, .. } = section;
        let what = format!("cubin whose section {name:?} has the alignment {alignment:#x}, which is no power of two");
        Some(FormatError::damaged(section.alignment_offset, what))
    }

    /// Something in the attributes of the cubin or of a function that is no record. (Each bit of the heads of 15 records was flipped and the
    /// result loaded on an H200 with driver 580: of 120 changes of a format four were not rejected, all of them to another known format.)
    fn no_record(&self) -> Option<FormatError> {
        let attributes = self.sections.iter().filter(|section| section.name.starts_with(".nv.info"));
        let mut found = attributes.filter_map(|section| Some((section, no_record(section.data)?)));
        let (section, at) = found.next()?;
        let what = format!("cubin whose section {:?} has something that is no attribute", section.name);
        Some(FormatError::damaged(section.offset + at as u64, what))
    }

    /// Whether a device link made it, according to its first note of a tool; the notes of the parts follow.
    pub fn is_device_linked(&self) -> bool {
        const LINKER: &[u8] = b"nvlink\0";
        // {name size, description size, type, "NVIDIA Corp", version, offsets of five strings, strings}
        const STRINGS: usize = 12 + 12 + 24;
        const LONGEST_NAME: usize = 16;
        let strings = self.section(TOOL_NOTE).and_then(|note| note.get(STRINGS..)).unwrap_or_default();
        let start = strings.get(..LONGEST_NAME.min(strings.len())).unwrap_or_default();
        start.windows(LINKER.len()).any(|word| word == LINKER)
    }

    /// The first section of a name that this crate has not seen in any cubin, or that a kernel's section should not have.
    ///
    /// The driver skips such a section. What it would have done with it does not happen: a constant is 0, an address is not set, a
    /// kernel is not found.
    pub fn unknown_section(&self) -> Option<&'a str> {
        let unknown = self.sections.iter().find(|section| !section.name.is_empty() && !is_known(section.name));
        let mut lost = self
            .placed()
            .filter(|(symbol, section)| matches!(self.misplaced(symbol, section), Some(Fault::KernelNotFound(_))));
        unknown.or_else(|| lost.next().map(|(_, section)| section)).map(|section| section.name)
    }

    /// The new layout has two notes, and the driver requires both.
    fn missing_note(&self) -> Option<FormatError> {
        if !self.is_new_abi() {
            return None;
        }
        let has = |name: &str| self.section(name).is_some();
        let missing = match (has(TOOL_NOTE), VERSION_NOTES.iter().any(|name| has(name))) {
            (true, true) => return None,
            (false, _) => TOOL_NOTE,
            (true, false) => super::NOTE_CUINFO,
        };
        let is_lost = |section: &&CubinSection<'_>| {
            let is_needed = section.name == TOOL_NOTE || VERSION_NOTES.contains(&section.name);
            !is_needed && is_damaged(section.name, missing)
        };
        let section = self.sections.iter().find(is_lost)?;
        let what = format!("cubin whose section {missing} is called {:?}", section.name);
        Some(FormatError::damaged(section.name_offset, what))
    }

    /// A symbol in a section under whose name the driver does not look for it. Of kernels it has to be all: the others run.
    fn misplaced_symbol(&self) -> Option<Fault> {
        let is_kernel = |symbol: &CubinSymbol| symbol.kind == SymbolKind::Kernel;
        let kernels = self.placed().filter(|(symbol, _)| is_kernel(symbol));
        let lost: Option<Vec<Fault>> = kernels.map(|(symbol, section)| self.misplaced(symbol, section)).collect();
        // A kernel's local functions are in its section, and the driver does not look for those by a name.
        if let Some(first) = lost.and_then(|faults| faults.into_iter().next()) {
            return Some(first);
        }
        let mut others = self.placed().filter(|(symbol, _)| !is_kernel(symbol));
        others.find_map(|(symbol, section)| self.misplaced(symbol, section))
    }

    /// The defined symbols, each with its section.
    fn placed(&self) -> impl Iterator<Item = (&CubinSymbol, &CubinSection<'a>)> {
        let placed = self.symbols.iter().zip(&self.symbol_sections).filter(|(symbol, _)| symbol.defined);
        placed.filter_map(|(symbol, index)| Some((symbol, self.sections.get(*index)?)))
    }

    fn misplaced(&self, symbol: &CubinSymbol, section: &CubinSection<'_>) -> Option<Fault> {
        let error = |expected: &str| {
            let what = format!("the section of {} is called {:?}, not {expected}", symbol.name, section.name);
            FormatError::damaged(section.name_offset, what)
        };
        let code = format!(".text.{}", symbol.name);
        match symbol.kind {
            SymbolKind::Kernel if is_damaged(section.name, &code) && !self.is_code(section.name) => {
                Some(Fault::KernelNotFound(error(&code)))
            }
            SymbolKind::Function if !section.name.starts_with(".text.") && is_damaged(section.name, &code) => {
                Some(Fault::FunctionNotFound(error(&code)))
            }
            // Constants are in sections that cannot be written.
            SymbolKind::Object if section.flags & u64::from(SHF_WRITE) != 0 && is_damaged_global(section.name) => {
                Some(Fault::Rejected(error(GLOBALS[0])))
            }
            _ => None,
        }
    }

    /// Whether that is the name of the section of one of the functions.
    fn is_code(&self, name: &str) -> bool {
        let function = name.strip_prefix(".text.");
        function.is_some_and(|function| self.symbols.iter().any(|symbol| symbol.name == function))
    }

    /// Why the driver does not run this cubin, if it is relocatable and needs a device link.
    ///
    /// With kernels alone, and nothing that others define, it runs unlinked.
    pub fn unlinked(&self) -> Option<Fault> {
        if !self.is_relocatable() {
            return None;
        }
        const E_TYPE: u64 = 16;
        let fault = |what: String| FormatError::damaged(E_TYPE, format!("relocatable cubin {what}"));
        let variable = self.symbols.iter().find(|symbol| symbol.defined && symbol.kind == SymbolKind::Object);
        if let Some(variable) = variable {
            let what = format!("with the variable {}, which gets its address in a device link", variable.name);
            return Some(Fault::Rejected(fault(what)));
        }
        if let Some(callee) =
            self.symbols.iter().find(|symbol| symbol.is_wanted() && symbol.kind == SymbolKind::Function)
        {
            let what = format!("without the function {}, which a device link adds", callee.name);
            return Some(Fault::KernelNotFound(fault(what)));
        }
        // Each function, and each kernel, records what it uses itself.
        let function = self.symbols.iter().find(|symbol| symbol.defined && symbol.kind == SymbolKind::Function)?;
        let what = format!(
            "with the function {}, whose registers and stack a device link adds to those of the kernels that call it",
            function.name
        );
        Some(Fault::ResourcesNotLinked(fault(what)))
    }
}

impl Cubin<'_> {
    /// Whether a device link of this cubin alone would change nothing that matters: it has kernels and nothing that they call or use by
    /// name. nvlink computes the registers, stack and barriers of such a kernel as they are.
    pub fn has_kernels_alone(&self) -> bool {
        let is_alone = |symbol: &CubinSymbol| match symbol.kind {
            SymbolKind::Kernel => symbol.defined,
            SymbolKind::Function => false,
            // ptxas declares the tables of nvlink in every cubin.
            SymbolKind::Object => !symbol.defined && symbol.binding == SymbolBinding::Weak,
            SymbolKind::Other => true,
        };
        self.symbols.iter().all(is_alone)
    }
}

impl CubinSymbol {
    /// Whether another part of a device link has to define it.
    pub fn is_wanted(&self) -> bool {
        !self.defined
            && self.binding == SymbolBinding::Global
            && self.kind != SymbolKind::Other
            // The launch gives an extern `__shared__` array its size.
            && self.memory != Some(Memory::Shared)
            && !self.name.starts_with(".nv.")
            && !is_system_call(&self.name)
    }
}

/// Functions that the driver defines: printf, malloc and assert on the device, and those of device graphs, which libcudadevrt does not
/// define.
///
/// Taken from the CUDA programming guide, and from the functions that `cuda_device_runtime_api.h` of CUDA 13.0 declares and nvlink leaves
/// undefined without an error. The lit test `device/defined-by-driver` compares fatlink with that header and with nvlink.
const SYSTEM_CALLS: [&str; 10] = [
    "vprintf",
    "malloc",
    "free",
    "__assertfail",
    "cudaGraphLaunch",
    "cudaGraphSetConditional",
    "cudaGraphKernelNodeSetEnabled",
    "cudaGraphKernelNodeSetParam",
    "cudaGraphKernelNodeSetGridDim",
    "cudaGraphKernelNodeUpdatesApply",
];

/// Whether the driver defines the function: one of the above, or what libcudadevrt calls (the undefined symbols of libcudadevrt 13.0).
pub fn is_system_call(name: &str) -> bool {
    let is_of_device_runtime =
        name.strip_prefix("cnp").is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_uppercase()));
    is_of_device_runtime || name.starts_with("__cuda_syscall_") || SYSTEM_CALLS.contains(&name)
}

fn is_damaged_global(name: &str) -> bool {
    !GLOBALS.contains(&name) && GLOBALS.iter().any(|expected| is_damaged(name, expected))
}

/// Whether a section's name is what is left of the one expected, and not the name of another kind of section: most of its bytes are
/// where they should be.
///
/// A name that is wholly different may be that of something a later toolkit writes.
fn is_damaged(name: &str, expected: &str) -> bool {
    let same = name.bytes().zip(expected.bytes()).filter(|(a, b)| a == b).count();
    name != expected && same * 2 > expected.len()
}

/// The name of a section without that of the function that it belongs to: `.nv.constant0`.
pub(crate) fn section_kind(name: &str) -> &str {
    let target = [".rela", ".rel"].iter().find_map(|prefix| name.strip_prefix(prefix));
    let target = target.filter(|target| target.starts_with('.')).unwrap_or(name);
    let Some(known) = KNOWN_NAMES.iter().find(|known| target.starts_with(**known)) else { return name };
    // Up to the next dot: the number of a constant bank is no part of the prefix.
    let rest = target.get(known.trim_end_matches('.').len()..).unwrap_or_default();
    let end = name.len() - rest.len() + rest.find('.').unwrap_or(rest.len());
    name.get(..end).unwrap_or(name)
}

fn is_known(name: &str) -> bool {
    let target = [".rela", ".rel"].iter().find_map(|prefix| name.strip_prefix(prefix));
    let name = target.filter(|target| target.starts_with('.')).unwrap_or(name);
    KNOWN_NAMES.iter().any(|known| name.starts_with(known))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::arch::GpuArch;
    use crate::cubin;
    use crate::samples;

    /// A sound cubin with another alignment of a section, and where that is.
    fn with_alignment(section: usize, alignment: u64) -> (Vec<u8>, usize) {
        let mut data = samples::cubin(GpuArch::plain(90), true);
        let count = cubin::parse(&data).expect("a sound cubin").sections.len();
        let table = u64::from_le_bytes(data[40..48].try_into().expect("the offset of the section table"));
        let at = usize::try_from(table).expect("an offset") + 64 * (section % count) + 48;
        data[at..at + 8].copy_from_slice(&alignment.to_le_bytes());
        (data, at)
    }

    #[test]
    fn an_alignment_that_is_no_power_of_two_is_rejected() {
        let (data, at) = with_alignment(1, 0x8000_0001);
        let fault = cubin::parse(&data).expect("sound tables").fault().expect("a fault");
        assert_eq!(fault.error().offset, at as u64);
        assert!(fault.error().to_string().contains("0x80000001, which is no power of two"), "{}", fault.error());
        assert!(matches!(fault, Fault::Rejected(_)));
    }

    #[test]
    fn a_symbol_table_names_the_size_of_its_symbols() {
        let mut data = samples::cubin(GpuArch::plain(90), true);
        let table = cubin::parse(&data).expect("a sound cubin");
        let symbols = table.sections.iter().find(|section| section.kind == SHT_SYMTAB).expect("a symbol table");
        let at = symbols.alignment_offset + 8;
        // The bit that made the driver fail.
        data[usize::try_from(at).expect("an offset") + 2] ^= 0x10;
        let fault = cubin::parse(&data).expect("sound tables").fault().expect("a fault");
        assert!(matches!(&fault, Fault::SymbolsNotRead(error) if error.offset == at), "{}", fault.error());
    }

    proptest! {
        #[test]
        fn zero_and_powers_of_two_alone_are_alignments(
            section in 0usize..64,
            alignment in prop_oneof![any::<u64>(), (0u32..64, 0u64..2).prop_map(|(bit, more)| (1 << bit) + more)],
        ) {
            let (data, _) = with_alignment(section, alignment);
            let is_sound = alignment.count_ones() < 2;
            let fault = cubin::parse(&data).expect("sound tables").fault();
            prop_assert_eq!(fault.is_none(), is_sound, "{:?}", fault);
        }
    }
}
