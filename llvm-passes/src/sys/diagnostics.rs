//! Collecting the diagnostics of an LLVM context.

use std::ffi::{c_char, c_void};
use std::mem::{align_of, offset_of, size_of};
use std::ptr;
use std::sync::Mutex;

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::LLVMDiagnosticSeverity;
use inkwell::llvm_sys::core as llvm;
use inkwell::llvm_sys::prelude::LLVMDiagnosticInfoRef;

use super::take_message;
use crate::message::{Message, MessageKind};

/// One message of LLVM.
#[derive(Debug, Clone)]
pub(crate) struct Diagnostic {
    pub(crate) is_error: bool,
    /// LLVM's text, with the location in it.
    pub(crate) message: String,
    /// The same, in parts.
    pub(crate) parts: Message,
}

/// Where a context's diagnostics go. It must live as long as the context, at one address.
pub(crate) type DiagnosticSink = Mutex<Vec<Diagnostic>>;

/// Mirrored in diagnostics.cpp.
#[repr(C)]
struct RawLocation {
    function: *mut c_char,
    location: *mut c_char,
    prefix: *mut c_char,
}

const _: () = {
    assert!(size_of::<RawLocation>() == 24 && align_of::<RawLocation>() == 8);
    assert!(offset_of!(RawLocation, function) == 0);
    assert!(offset_of!(RawLocation, location) == 8);
    assert!(offset_of!(RawLocation, prefix) == 16);
};

unsafe extern "C" {
    fn fatlink_is_requested_remark(info: LLVMDiagnosticInfoRef) -> bool;
    fn fatlink_location_of(info: LLVMDiagnosticInfoRef, location: *mut RawLocation);
}

/// Sends every diagnostic of the context to `sink`.
pub(crate) fn collect_diagnostics(context: &Context, sink: &DiagnosticSink) {
    let sink: *const DiagnosticSink = sink;
    // SAFETY: `Session` keeps the sink in a box and drops the context before it.
    unsafe { llvm::LLVMContextSetDiagnosticHandler(context.as_ctx_ref(), Some(record), sink as *mut c_void) };
}

extern "C" fn record(info: LLVMDiagnosticInfoRef, sink: *mut c_void) {
    // SAFETY: `sink` is the pointer that `collect_diagnostics` passed; the diagnostic is alive during the call, and its
    // description is a fresh message that is ours to free.
    let (sink, severity, message) = unsafe {
        let message = take_message(llvm::LLVMGetDiagInfoDescription(info)).unwrap_or_default();
        (&*(sink as *const DiagnosticSink), llvm::LLVMGetDiagInfoSeverity(info), message)
    };
    // SAFETY: the diagnostic is alive during the call.
    let is_remark = unsafe { fatlink_is_requested_remark(info) };
    let kind = match severity {
        LLVMDiagnosticSeverity::LLVMDSError | LLVMDiagnosticSeverity::LLVMDSWarning => MessageKind::Warning,
        _ if is_remark => MessageKind::Remark,
        _ => return,
    };
    let is_error = matches!(severity, LLVMDiagnosticSeverity::LLVMDSError);
    let diagnostic = Diagnostic { is_error, parts: parts_of(info, kind, &message), message };
    if let Ok(mut list) = sink.lock() {
        list.push(diagnostic);
    }
}

/// The text without its location, the function, and the location.
fn parts_of(info: LLVMDiagnosticInfoRef, kind: MessageKind, message: &str) -> Message {
    let mut raw = RawLocation { function: ptr::null_mut(), location: ptr::null_mut(), prefix: ptr::null_mut() };
    // SAFETY: the diagnostic is alive; all texts are null or fresh messages that are ours to free.
    let (function, place, prefix) = unsafe {
        fatlink_location_of(info, &mut raw);
        (take_message(raw.function), take_message(raw.location), take_message(raw.prefix))
    };
    let prefix = prefix.unwrap_or_default();
    let text = if kind == MessageKind::Remark { message } else { message.strip_prefix(&prefix).unwrap_or(message) };
    Message { kind, text: text.trim_end().to_owned(), function, place }
}
