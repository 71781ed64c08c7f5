//! Records of optimization remarks as YAML, for `-pass-remarks-output=`.

use std::ffi::{CString, c_char};
use std::sync::OnceLock;

use inkwell::context::{AsContextRef, Context};
use inkwell::llvm_sys::prelude::LLVMContextRef;

use super::take_message;

#[repr(C)]
struct RawRecords {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn fatlink_is_remark_filter(passes: *const c_char) -> bool;
    fn fatlink_record_remarks(
        context: LLVMContextRef,
        passes: *const c_char,
        hotness: bool,
        threshold: u64,
    ) -> *mut RawRecords;
    fn fatlink_take_remarks(records: *mut RawRecords) -> *mut c_char;
    fn fatlink_drop_remarks(records: *mut RawRecords);
}

/// What is recorded.
struct Request {
    /// The passes whose remarks are recorded, as a regular expression.
    passes: CString,
    /// Remarks on code with a profile have its count.
    hotness: bool,
    /// The least count of a remark.
    threshold: u64,
}

/// Unset if there are no records.
static REQUEST: OnceLock<Request> = OnceLock::new();

const OUTPUT: &str = "pass-remarks-output=";
const FILTER: &str = "pass-remarks-filter=";
const HOTNESS: &str = "pass-remarks-with-hotness";
const THRESHOLD: &str = "pass-remarks-hotness-threshold=";

/// The value of an option of LLVM by the name before its `=`, if this is it.
fn value<'o>(option: &'o str, name: &str) -> Option<&'o str> {
    option.strip_prefix("--").or_else(|| option.strip_prefix('-'))?.strip_prefix(name)
}

/// The file that `-pass-remarks-output=` names among options of LLVM. The last one counts.
pub fn remarks_file(options: &[String]) -> Option<&str> {
    options.iter().rev().find_map(|option| value(option, OUTPUT))
}

/// Whether an option is for the records. LLVM's own tools have these options, and LLVM itself does not.
pub(super) fn is_option(option: &str) -> bool {
    [OUTPUT, FILTER, HOTNESS, THRESHOLD].iter().any(|name| value(option, name).is_some())
}

/// Has every context that is opened from now on record its remarks, if the options name a file for them. Returns false if their filter
/// is no regular expression, in which case the reason is on stderr, or their threshold is no number.
pub(super) fn set_up(options: &[String]) -> bool {
    if remarks_file(options).is_none() {
        return true;
    }
    let passes = options.iter().rev().find_map(|option| value(option, FILTER)).unwrap_or_default();
    let Ok(passes) = CString::new(passes) else { return false };
    // SAFETY: the text is alive during the call.
    if !unsafe { fatlink_is_remark_filter(passes.as_ptr()) } {
        return false;
    }
    let hotness = options.iter().any(|option| value(option, HOTNESS) == Some(""));
    let threshold = options.iter().rev().find_map(|option| value(option, THRESHOLD)).unwrap_or("0");
    let Ok(threshold) = threshold.parse() else { return false };
    // A second call brings the same options.
    let _ = REQUEST.set(Request { passes, hotness, threshold });
    true
}

/// The records of one context. They must outlive it.
pub(crate) struct RemarkRecords(*mut RawRecords);

// SAFETY: nothing but the context's own thread touches the records.
unsafe impl Send for RemarkRecords {}

impl RemarkRecords {
    /// Begins to record the remarks of a context, if there are records at all.
    pub(crate) fn begin(context: &Context) -> Option<Self> {
        let Request { passes, hotness, threshold } = REQUEST.get()?;
        // SAFETY: the context and the text are alive.
        let records = unsafe { fatlink_record_remarks(context.as_ctx_ref(), passes.as_ptr(), *hotness, *threshold) };
        (!records.is_null()).then_some(RemarkRecords(records))
    }

    /// Returns the YAML documents so far, and forgets them.
    pub(crate) fn take(&self) -> String {
        // SAFETY: the records are alive, and the text is a fresh message that is ours to free.
        unsafe { take_message(fatlink_take_remarks(self.0)) }.unwrap_or_default()
    }
}

impl Drop for RemarkRecords {
    fn drop(&mut self) {
        // SAFETY: `Session` drops its context, which writes to the records, before them.
        unsafe { fatlink_drop_remarks(self.0) }
    }
}
