//! Limits how many jobs run at a time: one per core, `--wrapper-jobs=N`, or as GNU make's jobserver allows.
//!
//! The protocol is described in the GNU make manual, "POSIX Jobserver Interaction": reading a byte from the server permits
//! one more job than the one that every child may run; the byte is written back when the job ends. The `jobserver` crate does
//! not fit: its constructor is unsafe, and it cannot give tokens back from a signal handler.

use std::fs::{File, OpenOptions};
use std::io::{PipeReader, PipeWriter, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::event::{PollFd, PollFlags, poll};

use crate::cli::values::Jobs;

/// How many jobs may run at a time.
#[derive(Debug)]
pub struct Limit {
    workers: usize,
    server: Option<Server>,
}

/// The two ends of the server's pipe, or its fifo twice.
#[derive(Debug)]
struct Server {
    /// Opened without blocking: another process may take a token first, and waiting must end with the last job.
    take: File,
    give: File,
}

impl Limit {
    /// Allows this many jobs, without a jobserver.
    pub fn of(workers: usize) -> Self {
        Limit { workers: workers.max(1), server: None }
    }

    /// Connects to the jobserver that MAKEFLAGS names if `jobs` requests it. The text is a warning that there is none.
    pub fn new(jobs: Jobs, make_flags: Option<&str>) -> (Self, Option<String>) {
        let cores = || std::thread::available_parallelism().map_or(1, usize::from);
        match jobs {
            Jobs::Number(number) => (Limit::of(number), None),
            Jobs::Cores => (Limit::of(cores()), None),
            Jobs::Jobserver => match Make::of(make_flags) {
                Make::Jobserver(address) => match Server::connect(&address) {
                    Some(server) => (Limit { workers: cores(), server: Some(server) }, None),
                    None => (Limit::of(1), Some(unreachable(&address))),
                },
                Make::Unlimited => (Limit::of(cores()), None),
                Make::Serial => (Limit::of(1), None),
                Make::Absent => (Limit::of(1), Some(NO_MAKE.to_owned())),
            },
        }
    }

    /// Maximum number of workers that can run at a time.
    pub fn workers(&self) -> usize {
        self.workers
    }

    /// Number of threads that can run without a token of the jobserver.
    pub fn own_threads(&self) -> usize {
        if self.server.is_some() { 1 } else { self.workers }
    }

    /// Slots for the workers of one queue of jobs.
    pub fn slots(&self) -> Slots<'_> {
        let server = self.server.as_ref();
        // Without a pipe waiting workers could not be stopped, so only the slot that every process has is used.
        let end = server.and_then(|_| std::io::pipe().ok());
        let (closed, open) = end.map_or((None, None), |(reader, writer)| (Some(reader), Some(writer)));
        Slots { server, closed, open: Mutex::new(open) }
    }
}

const NO_MAKE: &str =
    "--wrapper-jobs=jobserver: MAKEFLAGS is not set, so no make runs this link, and one job runs at a time";

fn unreachable(address: &str) -> String {
    format!(
        "--wrapper-jobs=jobserver: the jobserver {address} that MAKEFLAGS names cannot be reached, so one job runs at a time; \
         mark the recipe's line with '+', so that make hands its jobserver on"
    )
}

/// What MAKEFLAGS tells about the make that runs this link.
#[derive(Debug, PartialEq, Eq)]
enum Make {
    /// It has a jobserver: `fifo:PATH`, or two descriptors `R,W`.
    Jobserver(String),
    /// `make -j`: any number of jobs.
    Unlimited,
    /// `make`, `make -j1`.
    Serial,
    /// No make runs this link.
    Absent,
}

impl Make {
    fn of(flags: Option<&str>) -> Self {
        let Some(flags) = flags else { return Make::Absent };
        // Variables of make's command line follow "--".
        let words = || flags.split_whitespace().take_while(|word| *word != "--");
        let address = |word: &str| {
            word.strip_prefix("--jobserver-auth=").or(word.strip_prefix("--jobserver-fds=")).map(str::to_owned)
        };
        match words().filter_map(address).last() {
            Some(address) => Make::Jobserver(address),
            None if words().any(|word| word == "-j") => Make::Unlimited,
            None => Make::Serial,
        }
    }
}

impl Server {
    fn connect(address: &str) -> Option<Self> {
        let (take, give) = match address.strip_prefix("fifo:") {
            Some(path) => (path.to_owned(), path.to_owned()),
            None => {
                let (take, give) = address.split_once(',')?;
                let descriptor = |number: &str| Some(format!("/proc/self/fd/{}", number.parse::<u32>().ok()?));
                (descriptor(take)?, descriptor(give)?)
            }
        };
        // Opened again, because O_NONBLOCK would affect all users of a shared file description.
        let nonblocking = i32::try_from(rustix::fs::OFlags::NONBLOCK.bits()).ok()?;
        let take = OpenOptions::new().read(true).custom_flags(nonblocking).open(take).ok()?;
        let give = OpenOptions::new().write(true).open(give).ok()?;
        // make closes its pipe for recipes that are not marked, so that the descriptors may belong to other files.
        let is_pipe = |file: &File| file.metadata().is_ok_and(|found| found.file_type().is_fifo());
        (is_pipe(&take) && is_pipe(&give)).then_some(Server { take, give })
    }

    /// Takes a token, unless another process took it first.
    fn try_take(&self) -> Option<u8> {
        let mut held = held();
        if held.ended {
            return None;
        }
        let mut token = [0];
        (&self.take).read_exact(&mut token).ok()?;
        if held.server.is_none() {
            held.server = self.give.try_clone().ok();
        }
        held.tokens.push(token[0]);
        Some(token[0])
    }
}

/// Slots for the workers of one queue of jobs. A worker takes a slot before it takes a job, so that no job waits for a slot
/// that another worker has.
#[derive(Debug)]
pub struct Slots<'l> {
    server: Option<&'l Server>,
    /// Closed at the other end when no job is left.
    closed: Option<PipeReader>,
    open: Mutex<Option<PipeWriter>>,
}

impl Slots<'_> {
    /// Waits for a slot. The first worker always has that of this process, which needs no token. `None`: no job is left.
    pub fn wait(&self, worker: usize) -> Option<Slot> {
        let Some(server) = self.server.filter(|_| worker > 0) else { return Some(Slot { token: None }) };
        let closed = self.closed.as_ref()?;
        loop {
            let mut ends =
                [PollFd::from_borrowed_fd(server.take.as_fd(), PollFlags::IN), PollFd::new(closed, PollFlags::IN)];
            match poll(&mut ends, None) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(_) => return None,
            }
            if !ends[1].revents().is_empty() {
                return None;
            }
            if let Some(token) = server.try_take() {
                return Some(Slot { token: Some(token) });
            }
        }
    }

    /// Ends all waiting, because no job is left.
    pub fn close(&self) {
        self.open.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

/// Permission to run one job, given back when dropped.
#[derive(Debug)]
pub struct Slot {
    token: Option<u8>,
}

impl Drop for Slot {
    fn drop(&mut self) {
        if let Some(token) = self.token {
            held().give_back(token);
        }
    }
}

/// Tokens to be written back if the process ends early.
#[derive(Debug)]
struct Held {
    server: Option<File>,
    tokens: Vec<u8>,
    /// The process is ending and takes no more tokens.
    ended: bool,
}

static HELD: Mutex<Held> = Mutex::new(Held { server: None, tokens: Vec::new(), ended: false });

fn held() -> MutexGuard<'static, Held> {
    HELD.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Held {
    /// Writes a token back, once for each time it was taken.
    fn give_back(&mut self, token: u8) {
        let Some(place) = self.tokens.iter().position(|one| *one == token) else { return };
        self.tokens.swap_remove(place);
        if let Some(server) = &mut self.server {
            // If the server is gone, nobody needs the token.
            let _ = server.write_all(&[token]);
        }
    }
}

/// Gives all tokens back, because this process ends before its jobs do.
pub fn give_all_back() {
    let mut held = held();
    held.ended = true;
    while let Some(token) = held.tokens.last().copied() {
        held.give_back(token);
    }
}

/// As [`give_all_back`], in a signal handler. If another thread holds the lock, the tokens are not given back.
pub fn give_all_back_in_signal() {
    let Ok(held) = HELD.try_lock() else { return };
    if let Some(mut server) = held.server.as_ref() {
        let _ = server.write_all(&held.tokens);
    }
    // The process ends without releasing the lock.
    std::mem::forget(held);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makeflags_say() {
        let server = |address: &str| Make::Jobserver(address.to_owned());
        for (flags, expected) in [
            (None, Make::Absent),
            (Some(""), Make::Serial),
            (Some("w"), Make::Serial),
            (Some(" -j1"), Make::Serial),
            (Some("kw -j"), Make::Unlimited),
            (Some(" -j2 --jobserver-auth=3,4"), server("3,4")),
            (Some(" -j2 --jobserver-fds=3,4 -j --jobserver-auth=fifo:/tmp/GMfifo1"), server("fifo:/tmp/GMfifo1")),
            (Some("s -j2 --jobserver-auth=3,4 -- A=--jobserver-auth=7,8"), server("3,4")),
            (Some(" -- A=--jobserver-auth=7,8"), Make::Serial),
        ] {
            assert_eq!(Make::of(flags), expected, "{flags:?}");
        }
    }

    #[test]
    fn only_pipes_are_jobservers() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "++").unwrap();
        assert!(Server::connect(&format!("fifo:{}", file.display())).is_none());
        assert!(Server::connect("fifo:/no/such/fifo").is_none());
        assert!(Server::connect("900,901").is_none());
        // What make gives to a recipe that is not marked with '+'.
        assert!(Server::connect("-2,-2").is_none());
        assert!(unreachable("-2,-2").contains("mark the recipe's line with '+'"));
    }

    /// A jobserver with these tokens, as make 4.3 hands it on, and the pipe's end that reads what is left.
    fn server(tokens: &[u8]) -> (Limit, PipeReader, PipeWriter) {
        use std::os::fd::AsRawFd;
        let (take, mut give) = std::io::pipe().unwrap();
        give.write_all(tokens).unwrap();
        let server = Server::connect(&format!("{},{}", take.as_raw_fd(), give.as_raw_fd()));
        (Limit { workers: 8, server: Some(server.unwrap()) }, take, give)
    }

    fn left(limit: Limit, mut take: PipeReader, give: PipeWriter) -> Vec<u8> {
        drop((limit, give));
        held().server = None;
        let mut left = Vec::new();
        take.read_to_end(&mut left).unwrap();
        left.sort_unstable();
        left
    }

    /// Tokens are kept for the whole process, so that there can only be one test that takes some.
    #[test]
    fn tokens_first_then_jobs() {
        let (limit, take, give) = server(b"ab");
        let slots = limit.slots();
        let own = slots.wait(0).unwrap();
        let (second, third) = (slots.wait(1).unwrap(), slots.wait(2).unwrap());
        assert_eq!((own.token, second.token.is_some() && third.token.is_some()), (None, true));
        // All tokens are taken: the first worker never waits, the others do, and not beyond the last job.
        assert!(slots.wait(0).is_some());
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| slots.wait(3).is_none());
            slots.close();
            assert!(waiting.join().unwrap());
        });
        drop((second, own));
        // A process that ends early gives the rest back, once, and takes no more.
        give_all_back();
        drop(third);
        assert!(limit.server.as_ref().unwrap().try_take().is_none());
        drop(slots);
        held().ended = false;
        assert_eq!(left(limit, take, give), b"ab");
    }
}
