//! The end of links that the caller no longer needs.

use std::fmt;
use std::io::{PipeReader, PipeWriter, Write};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Cancels links from any thread. Clones cancel the same links.
///
/// ```no_run
/// use fatlink::{Cancellation, Error, Link, Linker};
///
/// let cancellation = Cancellation::new()?;
/// let link = Link::new().file("/build/kernel.o").cancelled_by(&cancellation);
/// let running = std::thread::spawn(move || Linker::at("/opt/fatlink/bin/fatlink").run(&link));
/// cancellation.cancel();
/// assert!(matches!(running.join().unwrap(), Err(Error::Cancelled)));
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone)]
pub struct Cancellation(Arc<Pipe>);

/// A link waits for `readable` along with the messages of its process. Nobody reads it, so that it wakes all links.
struct Pipe {
    readable: PipeReader,
    written: PipeWriter,
}

impl Cancellation {
    /// One that cancels nothing yet.
    ///
    /// # Errors
    /// The process has too many open files.
    pub fn new() -> std::io::Result<Self> {
        let (readable, written) = std::io::pipe()?;
        Ok(Cancellation(Arc::new(Pipe { readable, written })))
    }

    /// Cancels the links that were started with this value, and those that will be. Returns at once.
    pub fn cancel(&self) {
        // A full pipe is readable, too, but a write to it would block.
        if !self.is_cancelled() {
            // The pipe has a reader: this value.
            let _ = (&self.0.written).write_all(&[0]);
        }
    }

    /// Whether [`Cancellation::cancel`] was called.
    pub fn is_cancelled(&self) -> bool {
        is_readable(self.fd())
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.readable.as_fd()
    }
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Cancellation").field("is_cancelled", &self.is_cancelled()).finish()
    }
}

/// Whether a read would return at once.
pub(crate) fn is_readable(fd: BorrowedFd<'_>) -> bool {
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    matches!(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], Some(&now)), Ok(1..))
}
