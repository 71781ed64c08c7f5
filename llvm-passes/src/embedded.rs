//! Host files that are bitcode themselves (`-flto`): their device images, symbols and offload entries.

use inkwell::values::{BasicValueEnum, GlobalValue};
use offload_bundle::host_object::{IncompleteEntry, former_compiler, former_section};

use crate::command_lines;
use crate::error::IrError;
use crate::session::Session;
use crate::symbols::{self, Symbol};
use crate::sys;

/// The section that `llvm.embedded.objects` names for offload binaries.
const SECTION: &str = ".llvm.offloading";
/// The prefix of the names of offload entries, before the device name.
const ENTRY_PREFIX: &str = ".offloading.entry.";

/// The parts of a bitcode host file that a device link uses.
#[derive(Debug, Clone, Default)]
pub struct BitcodeHost {
    /// The target triple.
    pub triple: String,
    /// Offload binaries, each as in the section `.llvm.offloading` of an ELF object.
    pub offload_binaries: Vec<Vec<u8>>,
    /// The visible symbols of the host code.
    pub symbols: Vec<Symbol>,
    /// Device names of the kernels and variables that the host registers.
    pub registered: Vec<String>,
    /// The section of its offload entries, and its compiler, if they are in the form of clang 15 to 20.
    pub former_entries: Option<(&'static str, String)>,
    /// A variable whose entry, in the form of clang 15 to 19, lacks something.
    pub incomplete_entry: Option<(IncompleteEntry, String)>,
    /// Command lines that the compiler recorded.
    pub command_lines: Vec<String>,
}

/// Reads a bitcode host file; function bodies are not loaded.
///
/// # Errors
/// Unreadable bitcode, or bitcode of a newer LLVM.
pub fn read(unit: &str, bitcode: &[u8]) -> Result<BitcodeHost, IrError> {
    let session = Session::new();
    let module = session.read_lazily(unit, bitcode)?;
    let entries = module.get_globals().filter_map(|global| {
        let name = global.get_name().to_str().ok()?;
        name.strip_prefix(ENTRY_PREFIX).map(str::to_owned)
    });
    let former = module.get_globals().find_map(|global| former_section(global.get_section()?.to_bytes()));
    let compiler = || {
        let producers = sys::metadata_strings(&module, c"llvm.ident");
        let known = producers.iter().find_map(|producer| former_compiler(producer.as_bytes()));
        known.unwrap_or_else(|| "clang 15 to 20".to_owned())
    };
    Ok(BitcodeHost {
        triple: module.get_triple().as_str().to_string_lossy().into_owned(),
        offload_binaries: sys::embedded_objects(&module, SECTION),
        symbols: symbols::of_lazy_module(&module),
        registered: entries.collect(),
        incomplete_entry: module.get_globals().find_map(incomplete_entry),
        former_entries: former.map(|section| (section, compiler())),
        command_lines: command_lines::of_module(&module),
    })
}

/// The variable that an offload entry in the form of clang 15 to 19 stands for, if the entry lacks something:
/// `{ address, name, i64 size, i32 flags, i32 data }`.
fn incomplete_entry(global: GlobalValue<'_>) -> Option<(IncompleteEntry, String)> {
    const FLAGS: u32 = 3;
    const DATA: u32 = 4;
    former_section(global.get_section()?.to_bytes())?;
    let BasicValueEnum::StructValue(entry) = global.get_initializer()? else { return None };
    let number = |field| match entry.get_field_at_index(field).filter(|_| entry.count_fields() == 5)? {
        BasicValueEnum::IntValue(value) => value.get_zero_extended_constant()?.try_into().ok(),
        _ => None,
    };
    let incomplete = IncompleteEntry::of_former(number(FLAGS)?, number(DATA)?)?;
    Some((incomplete, global.get_name().to_str().ok()?.strip_prefix(ENTRY_PREFIX)?.to_owned()))
}
