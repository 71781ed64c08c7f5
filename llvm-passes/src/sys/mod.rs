//! LLVM functions that inkwell does not offer: those of LLVM-C, and our own in C++ where LLVM-C has none.
//!
//! Each file does one job. Where it needs C++, a file of the same name with the ending `.cpp` stands beside it; what both
//! sides share is declared in both, and static assertions on both sides hold the layouts equal.
//!
//! | file | job | C++ |
//! | --- | --- | --- |
//! | [`process`] | what concerns the whole process: targets, LLVM's own options, fatal errors, memory, streams | yes |
//! | [`diagnostics`] | collecting a context's diagnostics, with function and source location | yes |
//! | [`modules`] | parsing and merging modules, their flags and debug information | yes |
//! | [`globals`] | functions, variables and aliases | yes |
//! | [`metadata`] | named metadata | |
//! | [`references`] | reading the reference graph of a module | yes |
//! | [`bodies`] | writing functions and variables for comparison | yes |
//! | [`mover`] | moving chosen definitions into another module | yes |
//! | [`remarks`] | records of optimization remarks | yes |
//! | [`pass_trace`] | recording which passes run when | yes |
//! | [`addresses`] | addresses of elements in code under construction | |
//! | [`amdgpu`] | AMD GPUs: which processors LLVM knows, their objects | yes |
//! | [`constructors`] | code generators whose static constructors run late | yes |
//! | [`copies`] | a partition's own copies of functions that it shares | yes |
//!
//! # Safety
//!
//! All functions take and return inkwell's types, so the borrow checker knows which module or context must be alive; raw
//! pointers never leave this folder. Four duties remain, and every `unsafe` block says how it meets them:
//!
//! - A value, type or metadata node is used only while its module or context is alive.
//! - Text that LLVM returns by pointer and length is copied before anything else is called.
//! - A message that LLVM allocated is freed by `LLVMDisposeMessage`, once.
//! - A module that LLVM consumes is forgotten on our side, even if the call fails.
#![allow(unsafe_code)]

mod addresses;
mod amdgpu;
mod bodies;
mod constructors;
mod copies;
mod diagnostics;
mod globals;
mod metadata;
mod modules;
mod mover;
mod pass_trace;
mod process;
mod references;
mod remarks;

use std::ffi::{CStr, c_char};

use inkwell::llvm_sys::core as llvm;

pub(crate) use addresses::element;
pub(crate) use amdgpu::{called_declarations, emit_amd_object, is_amd_processor, local_memory_of, use_sections};
pub(crate) use bodies::{BodyVisitor, visit_bodies};
pub(crate) use constructors::{initialize_amdgpu, initialize_host};
pub(crate) use copies::{begin_copies, end_copies};
pub(crate) use diagnostics::{Diagnostic, DiagnosticSink, collect_diagnostics};
pub(crate) use globals::{
    Indirect, add_hidden_alias, declared_size, exclude_from_sanitizers, indirects, is_used, leave_comdat,
    move_used_last, replace_reflect_calls, take_structors,
};
pub(crate) use metadata::{embedded_objects, metadata_strings};
pub use modules::DebugKind;
pub(crate) use modules::{
    copy_data_layout, debug_information, drop_host_uses, hash, integer_module_flag, link_modules, load_bodies,
    read_lazily, set_module_flag, unique_debug_types, used_names,
};
pub use mover::{How, Visibility};
pub(crate) use mover::{Mover, delete_body};
pub use pass_trace::PassTrace;
pub(crate) use process::{forget_stream_errors, on_out_of_memory};
pub use process::{initialize, on_fatal_error, parse_llvm_options, print_report, take_time_report};
pub(crate) use references::{GraphVisitor, RawGlobal, visit_graph};
pub(crate) use remarks::RemarkRecords;
pub use remarks::remarks_file;

/// Copies and frees a message of LLVM; `None` for a null pointer.
///
/// # Safety
/// `text` must be null, or a C string that `LLVMDisposeMessage` may free and that is not freed elsewhere.
unsafe fn take_message(text: *mut c_char) -> Option<String> {
    if text.is_null() {
        return None;
    }
    // SAFETY: by the contract above.
    unsafe {
        let copy = CStr::from_ptr(text).to_string_lossy().into_owned();
        llvm::LLVMDisposeMessage(text);
        Some(copy)
    }
}

/// Copies text that LLVM gives by pointer and length.
///
/// # Safety
/// `start` must be `length` readable bytes; it may be anything if `length` is 0.
unsafe fn copy_text(start: *const c_char, length: usize) -> String {
    if length == 0 {
        return String::new();
    }
    // SAFETY: by the contract above.
    String::from_utf8_lossy(unsafe { std::slice::from_raw_parts(start.cast(), length) }).into_owned()
}
