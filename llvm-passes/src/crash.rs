//! What happens when LLVM itself crashes: damaged bitcode and rare code can take it down with a signal. The same is done
//! where the fault is our own, and where no memory is left.
//!
//! The state of the process cannot be trusted then, so it does not try to go on: it becomes, by `execve`,
//! a fresh copy of this program, which is told what LLVM was doing, cleans up and reports. A link that
//! goes well pays nothing for this.
//!
//! A mapped file that somebody cuts short raises SIGBUS where its lost pages are read. The handler finds the file by the
//! address in a list of all mappings ([`watch_mapping`]), and the fresh copy names it.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CStr, CString, OsString, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicUsize, Ordering};

use crate::{out_of_memory, sys};

/// First argument of the fresh copy. Behind it: the signal's number or [`NO_MEMORY`], what LLVM was doing (nothing, if it
/// was not running), what was given to [`prepare`] and [`note_output`], and the command line that was given to
/// [`remember_line`].
pub const REPORT_FLAG: &str = "--report-crash-of-llvm";

/// In the place of a signal's number: the memory has run out.
pub const NO_MEMORY: &str = "no-memory";

thread_local! {
    /// What LLVM is doing on this thread; null: it is not running.
    static ACTIVITY: Cell<*const c_char> = const { Cell::new(ptr::null()) };
}

static PROGRAM_NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static NOTE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static OUTPUT: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static BEFORE_REPORT: OnceLock<fn()> = OnceLock::new();
/// The argument list of the fresh copy, with room for what only the handler knows; null: without a command line.
static ARGUMENTS: AtomicPtr<*const c_char> = AtomicPtr::new(ptr::null_mut());

/// What stands before the command line in the fresh copy's arguments: its name, the flag, the signal, the activity, the note,
/// the output.
const OWN_ARGUMENTS: usize = 6;

/// Signals by which a crash shows.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// From now on a crash of LLVM is reported. `program_name` and `note` are handed to the fresh copy.
pub fn prepare(program_name: &str, note: &str) {
    report_signals(program_name, note, &SIGNALS);
}

/// From now on the fresh copy gets this process's own command line, too, and can look for what LLVM could not compile.
pub fn remember_line(words: &[OsString]) {
    // An argument cannot hold a NUL.
    let leaked = |word: &OsString| CString::new(word.as_bytes()).unwrap_or_default().into_raw().cast_const();
    let own = std::iter::repeat_n(ptr::null(), OWN_ARGUMENTS);
    let arguments: Vec<*const c_char> = own.chain(words.iter().map(leaked)).chain([ptr::null()]).collect();
    ARGUMENTS.store(Box::leak(arguments.into_boxed_slice()).as_mut_ptr(), Ordering::Release);
}

/// As [`prepare`], for a process whose crashes are reported by the one that started it: only a mapped file that cannot be
/// read any more is reported, because no other process can tell which file that was.
pub fn prepare_for_mappings(program_name: &str, note: &str) {
    report_signals(program_name, note, &[libc::SIGBUS]);
}

/// Names a file that is half written, for the fresh copy to remove.
pub fn note_output(file: &str) {
    OUTPUT.store(leaked(file), Ordering::Release);
}

/// Sets what runs before the fresh copy starts, for what only this process can clean up. It runs in a signal handler: it
/// may neither allocate nor wait for a lock.
pub fn before_report(clean_up: fn()) {
    // It is always the same.
    let _ = BEFORE_REPORT.set(clean_up);
}

/// A string that a signal handler may read at any time later.
fn leaked(text: &str) -> *mut c_char {
    CString::new(text).unwrap_or_default().into_raw()
}

fn report_signals(program_name: &str, note: &str, signals: &[c_int]) {
    out_of_memory::watch_llvm();
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

/// What an activity begins with where a mapped file could not be read any more; behind it the file's path.
pub const UNREADABLE_MAPPING: &str = "unreadable mapping: ";

/// A file in memory, as the signal handler finds it. Entries stay in the list for good, because a handler may be reading it
/// at any time; the mapping that an entry was made for ends with its [`WatchedMapping`].
struct Mapping {
    start: AtomicUsize,
    end: AtomicUsize,
    text: CString,
    next: *const Mapping,
}

static MAPPINGS: AtomicPtr<Mapping> = AtomicPtr::new(ptr::null_mut());

/// Names a mapping in crash reports until it is dropped, which must be before the memory is unmapped.
#[derive(Debug)]
pub struct WatchedMapping(*const Mapping);

// SAFETY: the entry is never freed, and its fields that change are atomic.
unsafe impl Send for WatchedMapping {}
// SAFETY: as above.
unsafe impl Sync for WatchedMapping {}

/// Lets a crash report name `path` if the bytes, which are a mapping of it, cannot be read any more.
pub fn watch_mapping(bytes: &[u8], path: &Path) -> WatchedMapping {
    let range = bytes.as_ptr_range();
    // A path cannot hold a NUL.
    let text = CString::new(format!("{UNREADABLE_MAPPING}{}", path.display())).unwrap_or_default();
    let (start, end) = (AtomicUsize::new(range.start as usize), AtomicUsize::new(range.end as usize));
    let entry = Box::into_raw(Box::new(Mapping { start, end, text, next: ptr::null() }));
    let mut first = MAPPINGS.load(Ordering::Acquire);
    loop {
        // SAFETY: the entry is ours alone until it is in the list.
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

/// What to report of the mapping that holds the address. Called by the signal handler: it neither allocates nor locks.
fn mapping_at(address: usize) -> Option<&'static CStr> {
    let mut entry = MAPPINGS.load(Ordering::Acquire).cast_const();
    // SAFETY: entries are never freed, and whole before they are in the list.
    while let Some(mapping) = unsafe { entry.as_ref() } {
        let end = mapping.end.load(Ordering::Acquire);
        if (mapping.start.load(Ordering::Acquire)..end).contains(&address) {
            return Some(&mapping.text);
        }
        entry = mapping.next;
    }
    None
}

/// Runs `work`, in which LLVM does what `activity` says ("reading a.o").
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

/// What the activities begin with in which LLVM compiles: optimization and code generation.
pub const OPTIMIZING: &str = "optimizing the code for";
/// As [`OPTIMIZING`].
pub const GENERATING: &str = "generating code for";

/// What an activity begins with that is not LLVM's.
pub const OTHER_LIBRARY: &str = "not LLVM: ";

/// As for LLVM, for another library that can crash: `activity` is a whole sentence without its full stop ("libx links a.o").
pub fn during_other<T>(activity: &str, work: impl FnOnce() -> T) -> T {
    during(&format!("{OTHER_LIBRARY}{activity}"), work)
}

/// The thread that reports; 0: none does.
static REPORTER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(signal: c_int, information: *const libc::siginfo_t, _context: *const c_void) {
    // SAFETY: the system gives every handler that was set with SA_SIGINFO this information, and SIGBUS has an address.
    let address = (signal == libc::SIGBUS).then(|| unsafe { (*information).si_addr() } as usize);
    let mapping = address.and_then(mapping_at);
    if !is_reporter() {
        // A crash while one is reported: the process ends as the signal says.
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

/// A large allocation has failed: who asked for it may go on, or abort.
pub(crate) static LARGE_REFUSED: AtomicBool = AtomicBool::new(false);

/// Reports that an allocation has failed.
pub fn out_of_memory() -> ! {
    if is_reporter() && !PROGRAM_NAME.load(Ordering::Acquire).is_null() {
        report(c"no-memory", ACTIVITY.get());
    }
    last_words()
}

/// Whether this thread reports. Where another one does already, it does not return: the other one's execve ends this one.
/// `false`: this thread's own report has failed.
fn is_reporter() -> bool {
    // SAFETY: it only tells which thread this is.
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

/// Whether the system refuses even a little memory: then that is why LLVM crashed, which does not always look at what
/// malloc gives it.
fn is_memory_out() -> bool {
    const LITTLE: usize = 1 << 20;
    let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: it is a mapping of its own, and mmap and munmap are plain system calls.
    unsafe {
        let mapped = libc::mmap(ptr::null_mut(), LITTLE, access, kind, -1, 0);
        mapped == libc::MAP_FAILED || libc::munmap(mapped, LITTLE) != 0
    }
}

/// Becomes the fresh copy.
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
    // SAFETY: execve is safe in a signal handler; all strings are alive and end in NUL. The signal is
    // unblocked first, or the fresh copy would start with it blocked. Where /proc is not mounted, the program's
    // file still has the name that it was started by.
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
            // The list is never freed, and only the one thread that reports comes here.
            ptr::copy_nonoverlapping(arguments.as_ptr(), with_line, OWN_ARGUMENTS);
            become_copy(with_line.cast_const());
        }
        // There is no line, or it is too long together with the rest.
        become_copy(arguments.as_ptr());
    }
    last_words()
}

/// Not even the report is possible.
fn last_words() -> ! {
    const TEXT: &[u8] =
        b"fatlink: error: the memory has run out, or the program cannot be started again to report a crash\n";
    // SAFETY: both are safe in a signal handler, and the text is as long as it says.
    unsafe {
        libc::write(libc::STDERR_FILENO, TEXT.as_ptr().cast(), TEXT.len());
        libc::_exit(1);
    }
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
    fn issue_11_19_a_mapping_is_found_by_address_until_it_is_dropped() {
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
    fn the_handler_and_the_reader_mean_the_same_flag() {
        assert_eq!(super::REPORT_FLAG.as_bytes(), c"--report-crash-of-llvm".to_bytes());
        assert_eq!(super::NO_MEMORY.as_bytes(), c"no-memory".to_bytes());
    }
}
