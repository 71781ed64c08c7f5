//! Constructors and destructors of host code.
//!
//! Target machines that LLVM-C creates emit `llvm.global_ctors` to the section `.ctors`. Of today's linkers only GNU ld still
//! turns that into `.init_array`; with the others the functions would never run. So this module puts them into `.init_array`
//! before code generation.

use inkwell::module::{Linkage, Module};

use crate::sys;

/// The default priority; its section has no number.
const DEFAULT_PRIORITY: u64 = 65535;

/// Moves both lists to the sections that every ELF linker supports.
pub(crate) fn use_init_array(module: &Module<'_>) {
    for (list, section) in [("llvm.global_ctors", ".init_array"), ("llvm.global_dtors", ".fini_array")] {
        for (priority, function) in sys::take_structors(module, list) {
            let place = module.add_global(function.get_type(), None, &format!("{section}.entry"));
            place.set_linkage(Linkage::Internal);
            place.set_initializer(&function);
            let numbered = format!("{section}.{priority}");
            place.set_section(Some(if priority == DEFAULT_PRIORITY { section } else { &numbered }));
        }
    }
}
