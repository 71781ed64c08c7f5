//! Reporting a crash of LLVM, which damaged bitcode and rare code can cause; also crashes of our own, and running out of memory.
//!
//! After a crash the state of the process cannot be trusted. The signal handler replaces the process, by `execve`, with a fresh
//! copy of the program, whose arguments tell what LLVM was doing; the copy cleans up and reports the error. A link that succeeds
//! pays nothing for this.
//!
//! If another process truncates a mapped file, reading the lost pages raises SIGBUS. The handler finds the file by the address in
//! a list of all mappings ([`watch_mapping`]), and the fresh copy names it.
//!
//! A program calls [`prepare`] at its start; this crate brackets its calls of LLVM with descriptions of what they do.
//!
//! # Safety
//!
//! The handler runs at any point of any thread. It calls only functions that are safe in a signal handler, reads only atomics and
//! memory that is never freed, and neither allocates nor locks.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::sys;

/// First argument of the fresh copy. The others are: the signal's number or [`NO_MEMORY`]; what LLVM was doing, empty if it was not
/// running; the note of [`prepare`]; the file of [`note_output`]; and the command line of [`remember_line`].
pub const REPORT_FLAG: &str = "--report-crash-of-llvm";

/// Stands in place of a signal's number if memory ran out.
pub const NO_MEMORY: &str = "no-memory";

thread_local! {
    /// What LLVM is doing on this thread; null if it is not running.
    static ACTIVITY: Cell<*const c_char> = const { Cell::new(ptr::null()) };
}

static PROGRAM_NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static NOTE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static OUTPUT: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static BEFORE_REPORT: OnceLock<fn()> = OnceLock::new();
/// The argument list of the fresh copy, with room for what only the handler knows; null if there is no command line to pass.
static ARGUMENTS: AtomicPtr<*const c_char> = AtomicPtr::new(ptr::null_mut());

/// Number of arguments before the command line: the program's name, the flag, the signal, the activity, the note, the output.
const OWN_ARGUMENTS: usize = 6;

/// Signals that mean a crash.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// Reports crashes from now on. The fresh copy receives `program_name` and `note`.
pub fn prepare(program_name: &str, note: &str) {
    report_signals(program_name, note, &SIGNALS);
}

/// Passes this process's command line to the fresh copy, too, which can then search for the code that LLVM could not compile.
pub fn remember_line(words: &[OsString]) {
    // An argument cannot hold a NUL.
    let leaked = |word: &OsString| CString::new(word.as_bytes()).unwrap_or_default().into_raw().cast_const();
    let own = std::iter::repeat_n(ptr::null(), OWN_ARGUMENTS);
    let arguments: Vec<*const c_char> = own.chain(words.iter().map(leaked)).chain([ptr::null()]).collect();
    ARGUMENTS.store(Box::leak(arguments.into_boxed_slice()).as_mut_ptr(), Ordering::Release);
}

/// As [`prepare`], for a worker, whose crashes its parent reports: only an unreadable mapped file is reported here, because no
/// other process knows which file that was.
pub fn prepare_for_mappings(program_name: &str, note: &str) {
    report_signals(program_name, note, &[libc::SIGBUS]);
}

/// Names a file that is being written, for the fresh copy to remove.
pub fn note_output(file: &str) {
    OUTPUT.store(leaked(file), Ordering::Release);
}

/// Sets a function that runs before the fresh copy starts and releases what only this process can release. It runs in a signal
/// handler: it may neither allocate nor wait for a lock.
pub fn before_report(clean_up: fn()) {
    // All callers pass the same function.
    let _ = BEFORE_REPORT.set(clean_up);
}

/// A string that a signal handler may read at any time later.
fn leaked(text: &str) -> *mut c_char {
    CString::new(text).unwrap_or_default().into_raw()
}

fn report_signals(program_name: &str, note: &str, signals: &[c_int]) {
    watch_memory_of_llvm();
    NOTE.store(leaked(note), Ordering::Release);
    PROGRAM_NAME.store(leaked(program_name), Ordering::Release);
    for &signal in signals {
        // SAFETY: the handler only calls functions that are safe in a signal handler. It runs on the
        // alternate stack that Rust gives every thread, so that a stack overflow is seen too.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_SIGINFO;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
}

/// The start of an activity that means an unreadable mapped file; the file's path follows.
pub const UNREADABLE_MAPPING: &str = "unreadable mapping: ";

/// An entry of the list of mappings that the signal handler searches. Entries are never freed, because a handler may be reading
/// the list at any time; dropping the [`WatchedMapping`] empties the entry's range.
struct Mapping {
    start: AtomicUsize,
    end: AtomicUsize,
    text: CString,
    next: *const Mapping,
}

static MAPPINGS: AtomicPtr<Mapping> = AtomicPtr::new(ptr::null_mut());

/// Keeps a mapping in the list. It must be dropped before the memory is unmapped.
#[derive(Debug)]
pub struct WatchedMapping(*const Mapping);

// SAFETY: the entry is never freed, and its fields that change are atomic.
unsafe impl Send for WatchedMapping {}
// SAFETY: as above.
unsafe impl Sync for WatchedMapping {}

/// Adds a mapping of `path` to the list, so that a crash report names the file if the bytes become unreadable.
pub fn watch_mapping(bytes: &[u8], path: &Path) -> WatchedMapping {
    let range = bytes.as_ptr_range();
    // A path cannot hold a NUL.
    let text = CString::new(format!("{UNREADABLE_MAPPING}{}", path.display())).unwrap_or_default();
    let (start, end) = (AtomicUsize::new(range.start as usize), AtomicUsize::new(range.end as usize));
    let entry = Box::into_raw(Box::new(Mapping { start, end, text, next: ptr::null() }));
    let mut first = MAPPINGS.load(Ordering::Acquire);
    loop {
        // SAFETY: no other thread can reach the entry until it is in the list.
        unsafe { (*entry).next = first };
        match MAPPINGS.compare_exchange(first, entry, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => return WatchedMapping(entry),
            Err(other) => first = other,
        }
    }
}

impl Drop for WatchedMapping {
    fn drop(&mut self) {
        // SAFETY: entries are never freed.
        let entry = unsafe { &*self.0 };
        entry.end.store(0, Ordering::Release);
        entry.start.store(0, Ordering::Release);
    }
}

/// The activity to report for the mapping that contains the address. The signal handler calls it.
fn mapping_at(address: usize) -> Option<&'static CStr> {
    let mut entry = MAPPINGS.load(Ordering::Acquire).cast_const();
    // SAFETY: entries are complete when they enter the list, and never freed.
    while let Some(mapping) = unsafe { entry.as_ref() } {
        let end = mapping.end.load(Ordering::Acquire);
        if (mapping.start.load(Ordering::Acquire)..end).contains(&address) {
            return Some(&mapping.text);
        }
        entry = mapping.next;
    }
    None
}

/// Runs `work`. A crash report says that LLVM was doing `activity` ("reading a.o").
pub(crate) fn during<T>(activity: &str, work: impl FnOnce() -> T) -> T {
    struct Restore(*const c_char);
    impl Drop for Restore {
        fn drop(&mut self) {
            ACTIVITY.set(self.0);
        }
    }
    let text = CString::new(activity).unwrap_or_default();
    let _restore = Restore(ACTIVITY.replace(text.as_ptr()));
    work()
}

/// The start of the activity of an optimization.
pub const OPTIMIZING: &str = "optimizing the code for";
/// The start of the activity of code generation.
pub const GENERATING: &str = "generating code for";

/// The start of an activity of another library than LLVM.
pub const OTHER_LIBRARY: &str = "not LLVM: ";

/// Runs `work`, in which a library other than LLVM may crash. `activity` is a sentence without its full stop ("libx links a.o").
pub fn during_other<T>(activity: &str, work: impl FnOnce() -> T) -> T {
    during(&format!("{OTHER_LIBRARY}{activity}"), work)
}

/// The thread that reports a crash; 0 if there is none.
static REPORTER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(signal: c_int, information: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: the system gives every handler that was set with SA_SIGINFO this information, and SIGBUS has an address.
    let address = (signal == libc::SIGBUS).then(|| unsafe { (*information).si_addr() } as usize);
    let mapping = address.and_then(mapping_at);
    if !is_reporter() {
        // The report itself crashed: end by the signal.
        // SAFETY: both are safe in a signal handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    let digits = [b'0' + (signal / 10) as u8, b'0' + (signal % 10) as u8, 0];
    // SAFETY: the digits end in NUL.
    let digits = unsafe { CStr::from_ptr(digits.as_ptr().cast()) };
    let no_memory = signal == libc::SIGABRT && LARGE_REFUSED.load(Ordering::Acquire) || is_memory_out();
    let reason = if mapping.is_none() && no_memory { c"no-memory" } else { digits };
    report(reason, mapping.map_or_else(|| ACTIVITY.get(), CStr::as_ptr));
}

/// Whether a large allocation has failed. Its caller may handle that, or abort.
pub(crate) static LARGE_REFUSED: AtomicBool = AtomicBool::new(false);

/// Reports that an allocation has failed.
pub fn out_of_memory() -> ! {
    if is_reporter() && !PROGRAM_NAME.load(Ordering::Acquire).is_null() {
        report(c"no-memory", ACTIVITY.get());
    }
    last_words()
}

/// Reports when LLVM has no memory left.
fn watch_memory_of_llvm() {
    extern "C" fn report() {
        out_of_memory();
    }
    sys::on_out_of_memory(report);
}

/// Makes this thread the one that reports. Does not return if another thread is reporting already, whose execve ends this one.
/// Returns false if this thread's own report failed.
fn is_reporter() -> bool {
    // SAFETY: the call only identifies the thread.
    let own = unsafe { libc::pthread_self() } as usize;
    match REPORTER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire) {
        Ok(_) => true,
        Err(reporter) if reporter == own => false,
        Err(_) => loop {
            // SAFETY: pause is safe in a signal handler.
            unsafe { libc::pause() };
        },
    }
}

/// Whether even a small allocation fails. Then that is the cause of the crash: LLVM does not check every result of malloc.
fn is_memory_out() -> bool {
    const LITTLE: usize = 1 << 20;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: the new mapping is used for nothing, and both calls are safe in a signal handler.
    unsafe {
        let mapped = libc::mmap(ptr::null_mut(), LITTLE, access, kind, -1, 0);
        mapped == libc::MAP_FAILED || libc::munmap(mapped, LITTLE) != 0
    }
}

/// Replaces the process with the fresh copy.
fn report(reason: &CStr, activity: *const c_char) -> ! {
    if let Some(clean_up) = BEFORE_REPORT.get() {
        clean_up();
    }
    let text = |place: &AtomicPtr<c_char>| {
        let text = place.load(Ordering::Acquire).cast_const();
        if text.is_null() { c"".as_ptr() } else { text }
    };
    let arguments = [
        text(&PROGRAM_NAME),
        c"--report-crash-of-llvm".as_ptr(),
        reason.as_ptr(),
        if activity.is_null() { c"".as_ptr() } else { activity },
        text(&NOTE),
        text(&OUTPUT),
        ptr::null(),
    ];
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    let with_line = ARGUMENTS.load(Ordering::Acquire);
    // SAFETY: execve is safe in a signal handler; all strings are alive and end in NUL. All signals are unblocked first, because
    // the fresh copy inherits the mask. If /proc is not mounted, the program is started by the name that it was started by.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_UNBLOCK, &all, ptr::null_mut());
        let name = libc::getauxval(libc::AT_EXECFN) as *const c_char;
        let become_copy = |arguments: *const *const c_char| {
            libc::execve(c"/proc/self/exe".as_ptr(), arguments, environ);
            if !name.is_null() {
                libc::execve(name, arguments, environ);
            }
        };
        if !with_line.is_null() {
            // The list is never freed, and only the thread that reports writes to it.
            ptr::copy_nonoverlapping(arguments.as_ptr(), with_line, OWN_ARGUMENTS);
            become_copy(with_line.cast_const());
        }
        // There is no command line, or execve rejected the arguments as too long.
        become_copy(arguments.as_ptr());
    }
    last_words()
}

/// Ends the process with a message if the report is not possible.
fn last_words() -> ! {
    const TEXT: &[u8] =
        b"fatlink: error: the memory has run out, or the program cannot be started again to report a crash\n";
    // SAFETY: both are safe in a signal handler, and the length is that of the text.
    unsafe {
        libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len());
        libc::_exit(1);
    }
}

/// Ends a forked process without the destructors of LLVM's options, which would copy their pages first. Whatever is buffered is lost.
pub fn exit_at_once(code: u8) -> ! {
    // SAFETY: the call does nothing but end the process.
    unsafe { libc::_exit(code.into()) }
}

/// Clears the write errors of LLVM's stdout and stderr, for which LLVM would end the process with an error at exit. Call this
/// at the end of the process.
pub fn forget_stream_errors() {
    sys::forget_stream_errors();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mapping_is_found_by_address_until_it_is_dropped() {
        let (first, second) = (vec![0_u8; 5000], vec![0_u8; 5000]);
        let [one, two] = [&first, &second].map(|bytes| bytes.as_ptr() as usize);
        let watched = watch_mapping(&first, Path::new("/a/first.o"));
        let _other = watch_mapping(&second, Path::new("/a/second.o"));
        let named = |address| mapping_at(address).map(|text| text.to_str().unwrap().to_owned());
        assert_eq!(named(one + 4999).as_deref(), Some("unreadable mapping: /a/first.o"));
        assert_eq!(named(two).as_deref(), Some("unreadable mapping: /a/second.o"));
        drop(watched);
        assert_eq!(named(one + 4999), None);
        assert_eq!(named(two + 1).as_deref(), Some("unreadable mapping: /a/second.o"));
    }

    #[test]
    fn the_handler_and_the_reader_agree_on_the_flag() {
        assert_eq!(super::REPORT_FLAG.as_bytes(), c"--report-crash-of-llvm".to_bytes());
        assert_eq!(super::NO_MEMORY.as_bytes(), c"no-memory".to_bytes());
    }
}
