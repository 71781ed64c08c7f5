//! What happens when LLVM itself crashes: damaged bitcode and rare code can take it down with a signal.
//!
//! The state of the process cannot be trusted then, so it does not try to go on: it becomes, by `execve`,
//! a fresh copy of this program, which is told what LLVM was doing, cleans up and reports. A link that
//! goes well pays nothing for this.
#![allow(unsafe_code)]

use std::cell::Cell;
use std::ffi::{CString, c_char, c_int};
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

/// First argument of the fresh copy. Behind it: the signal's number, what LLVM was doing, and what was
/// given to [`prepare`].
pub const REPORT_FLAG: &str = "--report-crash-of-llvm";

thread_local! {
    /// What LLVM is doing on this thread; null: it is not running.
    static ACTIVITY: Cell<*const c_char> = const { Cell::new(ptr::null()) };
}

static PROGRAM_NAME: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());
static NOTE: AtomicPtr<c_char> = AtomicPtr::new(ptr::null_mut());

/// Signals by which a crash shows.
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGABRT];

/// From now on a crash of LLVM is reported. `program_name` and `note` are handed to the fresh copy.
pub fn prepare(program_name: &str, note: &str) {
    let leaked = |text: &str| CString::new(text).unwrap_or_default().into_raw();
    PROGRAM_NAME.store(leaked(program_name), Ordering::Release);
    NOTE.store(leaked(note), Ordering::Release);
    for signal in SIGNALS {
        // SAFETY: the handler only calls functions that are safe in a signal handler. It runs on the
        // alternate stack that Rust gives every thread, so that a stack overflow is seen too.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
            libc::sigaction(signal, &action, ptr::null_mut());
        }
    }
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

/// What an activity begins with that is not LLVM's.
pub const OTHER_LIBRARY: &str = "not LLVM: ";

/// As for LLVM, for another library that can crash: `activity` is a whole sentence without its full stop ("libx links a.o").
pub fn during_other<T>(activity: &str, work: impl FnOnce() -> T) -> T {
    during(&format!("{OTHER_LIBRARY}{activity}"), work)
}

/// The thread that reports; 0: none does.
static REPORTER: AtomicUsize = AtomicUsize::new(0);

extern "C" fn handle(signal: c_int) {
    let activity = ACTIVITY.get();
    // SAFETY: it only tells which thread this is.
    let own = unsafe { libc::pthread_self() } as usize;
    let reporter = REPORTER.compare_exchange(0, own, Ordering::AcqRel, Ordering::Acquire).unwrap_or_else(|other| other);
    if reporter != 0 && reporter != own {
        // Two threads read the same damaged file: the first one reports, and its execve ends this one.
        loop {
            // SAFETY: pause is safe in a signal handler.
            unsafe { libc::pause() };
        }
    }
    if activity.is_null() || reporter == own {
        // Not LLVM's, or a crash while one is reported: the process ends as the signal says.
        // SAFETY: both are safe in a signal handler.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
        }
        return;
    }
    let digits = [b'0' + (signal / 10) as u8, b'0' + (signal % 10) as u8, 0];
    let arguments = [
        PROGRAM_NAME.load(Ordering::Acquire).cast_const(),
        c"--report-crash-of-llvm".as_ptr(),
        digits.as_ptr().cast(),
        activity,
        NOTE.load(Ordering::Acquire).cast_const(),
        ptr::null(),
    ];
    unsafe extern "C" {
        static environ: *const *const c_char;
    }
    // SAFETY: execve is safe in a signal handler; all strings are alive and end in NUL. The signal is
    // unblocked first, or the fresh copy would start with it blocked.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_UNBLOCK, &all, ptr::null_mut());
        libc::execve(c"/proc/self/exe".as_ptr(), arguments.as_ptr(), environ);
        libc::_exit(1);
    }
}

/// Makes LLVM forget that it could not write something to stdout or stderr, for which it would end the process with an
/// error at its exit.
pub fn forget_stream_errors() {
    unsafe extern "C" {
        fn fatlink_forget_stream_errors();
    }
    // SAFETY: it takes nothing, and no other thread uses LLVM any more.
    unsafe { fatlink_forget_stream_errors() };
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_handler_and_the_reader_mean_the_same_flag() {
        assert_eq!(super::REPORT_FLAG.as_bytes(), c"--report-crash-of-llvm".to_bytes());
    }
}
