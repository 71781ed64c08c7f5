//! Constructors and destructors of host code.
//!
//! LLVM-C makes target machines that write `.ctors` for `llvm.global_ctors`, and of today's linkers only GNU ld
//! still turns that into `.init_array`: with the others the functions would never run. So they are put into
//! `.init_array` here, before code is generated.

use inkwell::module::{Linkage, Module};

use crate::sys;

/// Priority of a function without one: its section has no number.
const DEFAULT_PRIORITY: u64 = 65535;

/// Moves both lists to the sections that every ELF linker knows.
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
