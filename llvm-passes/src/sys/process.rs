//! What concerns the whole process: targets, LLVM's own command line, fatal errors, memory and streams.

use std::ffi::{CStr, CString, c_char};
use std::sync::{Once, OnceLock};

use inkwell::llvm_sys::error_handling;
use inkwell::targets::{InitializationConfig, Target};

use super::constructors::initialize_amdgpu;
use super::{remarks, take_message};

unsafe extern "C" {
    fn fatlink_allow_flushing_atomics();
    fn fatlink_parse_llvm_options(count: i32, words: *const *const c_char) -> bool;
    fn fatlink_on_out_of_memory(report: extern "C" fn());
    fn fatlink_forget_stream_errors();
    fn fatlink_take_time_report() -> *mut c_char;
    fn fatlink_print_report(text: *const c_char);
}

/// Registers the code generators that fatlink uses. Cheap to call again.
pub fn initialize() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let config = InitializationConfig { asm_parser: false, disassembler: false, ..Default::default() };
        Target::initialize_nvptx(&InitializationConfig { machine_code: true, ..config });
        // SAFETY: LLVM's options are registered by constructors that have run, and nothing reads this one before a module is compiled.
        unsafe { fatlink_allow_flushing_atomics() };
        // The registration object is host code, and OpenMP device code may be, with inline assembly in it.
        Target::initialize_x86(&InitializationConfig { disassembler: false, ..Default::default() });
    });
}

/// Passes options to LLVM's own command line (`-mllvm`). They are global to the process: call this before any thread starts.
/// Returns false if LLVM rejected them, in which case it has printed the reason to stderr.
pub fn parse_llvm_options(program: &str, options: &[String]) -> bool {
    initialize();
    // Its options are unknown before.
    initialize_amdgpu();
    if !remarks::set_up(options) {
        return false;
    }
    let words: Vec<CString> = std::iter::once(program)
        .chain(options.iter().map(String::as_str).filter(|option| !remarks::is_option(option)))
        .filter_map(|word| CString::new(word).ok())
        .collect();
    let pointers: Vec<*const c_char> = words.iter().map(|word| word.as_ptr()).collect();
    // SAFETY: `pointers` holds that many C strings, alive during the call.
    unsafe { fatlink_parse_llvm_options(pointers.len() as i32, pointers.as_ptr()) }
}

static FATAL: OnceLock<fn(&str)> = OnceLock::new();

/// Sets what runs when LLVM gives up ("Cannot select", out of registers): `report` receives the reason and should clean up
/// and exit. If it returns, LLVM aborts the process.
pub fn on_fatal_error(report: fn(&str)) {
    if FATAL.set(report).is_ok() {
        // SAFETY: the handler is a function, which lives forever.
        unsafe { error_handling::LLVMInstallFatalErrorHandler(Some(fatal)) };
    }
}

extern "C" fn fatal(reason: *const c_char) {
    // SAFETY: LLVM passes a C string that is alive during the call.
    let reason = unsafe { CStr::from_ptr(reason) }.to_string_lossy();
    if let Some(report) = FATAL.get() {
        report(&reason);
    }
}

/// Sets what runs when an allocation of LLVM fails. `report` must not return.
pub(crate) fn on_out_of_memory(report: extern "C" fn()) {
    // SAFETY: a function lives forever.
    unsafe { fatlink_on_out_of_memory(report) };
}

/// Clears the write errors of LLVM's streams, for which their destructors would end the process with an error.
pub(crate) fn forget_stream_errors() {
    // SAFETY: the call takes nothing; it runs at the end of the process, when no other thread uses LLVM.
    unsafe { fatlink_forget_stream_errors() };
}

/// Takes the reports of `-time-passes` of this process. Empty if nothing was timed. No other thread may use LLVM meanwhile.
pub fn take_time_report() -> String {
    // SAFETY: the text was allocated by malloc, as LLVM's messages are.
    unsafe { take_message(fatlink_take_time_report()) }.unwrap_or_default()
}

/// Prints a report where LLVM's own tools do, on standard error or in the file of `-info-output-file=`.
pub fn print_report(text: &str) {
    let Ok(text) = CString::new(text) else { return };
    // SAFETY: the text is alive during the call.
    unsafe { fatlink_print_report(text.as_ptr()) };
}
