//! Signals that end this process.

use std::sync::Arc;

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU, SIGXFSZ};

use crate::diag::error::Errors;
use crate::sys::error::Error;
use crate::sys::threads;

/// Starts a thread that waits for a signal that ends the process, cleans up, and then lets the signal take effect.
///
/// # Errors
/// The system refuses the handlers or the thread.
pub fn before_end(clean_up: fn()) -> Result<(), Errors> {
    let cannot = |source| Error::Signals { source };
    // Batch systems send the user's signals before a limit.
    let ending = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGXCPU];
    let mut signals = signal_hook::iterator::Signals::new(ending).map_err(cannot)?;
    // With any handler for SIGXFSZ, exceeding the file size limit (ulimit -f) is an error of the write.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(cannot)?;
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            clean_up();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().spawn(watch).map_err(|error| threads::cannot_start(&error))?;
    Ok(())
}
