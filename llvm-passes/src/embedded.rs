//! Host files that are bitcode themselves (`-flto`): their device images, symbols and offload entries.

use inkwell::values::{BasicValueEnum, GlobalValue};
use offload_bundle::host_object::{former_compiler, former_section};

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
    /// A managed variable among entries in the form of clang 15 to 19.
    pub former_managed: Option<String>,
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
        former_managed: module.get_globals().find_map(former_managed),
        former_entries: former.map(|section| (section, compiler())),
        command_lines: command_lines::of_module(&module),
    })
}

/// The managed variable that an offload entry in the form of clang 15 to 19 stands for: `{ address, name, i64 size, i32 flags, i32 data }`.
fn former_managed(global: GlobalValue<'_>) -> Option<String> {
    const FLAGS: u32 = 3;
    former_section(global.get_section()?.to_bytes())?;
    let BasicValueEnum::StructValue(entry) = global.get_initializer()? else { return None };
    let BasicValueEnum::IntValue(flags) = entry.get_field_at_index(FLAGS).filter(|_| entry.count_fields() == 5)? else {
        return None;
    };
    let is_managed = flags.get_zero_extended_constant()? & 7 == 1;
    global.get_name().to_str().ok()?.strip_prefix(ENTRY_PREFIX).filter(|_| is_managed).map(str::to_owned)
}
