//! How many device links run at a time: one per core, `--wrapper-jobs=N`, or as GNU make's jobserver allows.
//!
//! The jobserver protocol is in the GNU make manual, "POSIX Jobserver Interaction": a byte read from the
//! server is leave to run one more job than the one that every child may run, and is written back after it.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the user asked for.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Jobs {
    /// One per core.
    #[default]
    Cores,
    /// So many.
    Number(usize),
    /// Those of the `make` that started us.
    Jobserver,
}

impl Jobs {
    /// Jobs at a time, as far as this process decides.
    pub fn threads(self) -> usize {
        match self {
            Jobs::Number(number) => number.max(1),
            Jobs::Cores | Jobs::Jobserver => std::thread::available_parallelism().map_or(1, usize::from),
        }
    }
}

/// Hands out leave to run a job.
pub struct Limit {
    server: Option<Server>,
    /// The leave that every process has: taken.
    own_taken: AtomicBool,
    /// No server, but one was asked for: one job at a time.
    alone: Option<Mutex<()>>,
}

/// The two ends of the server's pipe, or its fifo twice.
struct Server {
    take: File,
    give: File,
}

/// Tokens read and not written back yet, for a process that ends early.
static HELD: Mutex<(Option<File>, Vec<u8>)> = Mutex::new((None, Vec::new()));

impl Limit {
    /// Connects to the jobserver if `jobs` says so. The text is a warning: there is none to connect to.
    pub fn new(jobs: Jobs) -> (Self, Option<String>) {
        let free = |server, alone| Limit { server, own_taken: AtomicBool::new(false), alone };
        if jobs != Jobs::Jobserver {
            return (free(None, None), None);
        }
        let flags = std::env::var("MAKEFLAGS").unwrap_or_default();
        match connect(&flags) {
            Some(server) => (free(Some(server), None), None),
            None => {
                let warning = "--wrapper-jobs=jobserver: MAKEFLAGS names no jobserver that can be reached, so one job runs \
                               at a time; mark the recipe's line with '+'";
                (free(None, Some(Mutex::new(()))), Some(warning.to_owned()))
            }
        }
    }

    /// Runs a job as soon as that is allowed.
    pub fn run<T>(&self, job: impl FnOnce() -> T) -> T {
        let _alone = self.alone.as_ref().map(|alone| alone.lock());
        let _leave = self.server.as_ref().map(|server| self.leave(server));
        job()
    }

    fn leave<'l>(&'l self, server: &'l Server) -> Leave<'l> {
        if !self.own_taken.swap(true, Ordering::AcqRel) {
            return Leave { limit: self, token: None };
        }
        let mut token = [0];
        match (&server.take).read_exact(&mut token) {
            Ok(()) => hold(server, token[0]),
            // The server is gone: make has ended, and nobody waits for tokens any more.
            Err(_) => return Leave { limit: self, token: None },
        }
        Leave { limit: self, token: Some(token[0]) }
    }
}

/// Leave to run one job; dropped, it goes back.
struct Leave<'l> {
    limit: &'l Limit,
    token: Option<u8>,
}

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        match self.token {
            Some(token) => give_back(token),
            None => self.limit.own_taken.store(false, Ordering::Release),
        }
    }
}

fn hold(server: &Server, token: u8) {
    if let Ok(mut held) = HELD.lock() {
        if held.0.is_none() {
            held.0 = server.give.try_clone().ok();
        }
        held.1.push(token);
    }
}

fn give_back(token: u8) {
    if let Ok(mut held) = HELD.lock() {
        if let Some(place) = held.1.iter().position(|one| *one == token) {
            held.1.swap_remove(place);
        }
        if let Some(give) = &mut held.0 {
            // Nobody is left to tell if the server is gone.
            let _ = give.write_all(&[token]);
        }
    }
}

/// Gives all tokens back: this process ends before its jobs do.
pub fn give_all_back() {
    let held = HELD.lock().map(|held| held.1.clone()).unwrap_or_default();
    held.into_iter().for_each(give_back);
}

/// `--jobserver-auth=fifo:PATH` or `--jobserver-auth=R,W`, and the older `--jobserver-fds=R,W`. The last one counts.
fn connect(flags: &str) -> Option<Server> {
    let named = |word: &str| {
        let value = word.strip_prefix("--jobserver-auth=").or_else(|| word.strip_prefix("--jobserver-fds="))?;
        Some(value.to_owned())
    };
    let value = flags.split_whitespace().filter_map(named).next_back()?;
    let (take, give) = match value.strip_prefix("fifo:") {
        Some(path) => (path.to_owned(), path.to_owned()),
        None => {
            let (take, give) = value.split_once(',')?;
            let descriptor = |number: &str| number.parse::<u32>().ok().map(|number| format!("/proc/self/fd/{number}"));
            (descriptor(take)?, descriptor(give)?)
        }
    };
    Some(Server { take: File::open(take).ok()?, give: OpenOptions::new().write(true).open(give).ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_a_jobserver_there_is_a_warning() {
        assert!(connect("").is_none());
        assert!(connect(" -j --jobserver-auth=900,901").is_none());
        assert!(connect("--jobserver-auth=fifo:/no/such/fifo").is_none());
        assert!(Limit::new(Jobs::Cores).1.is_none());
    }

    #[test]
    fn tokens_are_taken_and_given_back() {
        let folder = tempfile::tempdir().unwrap();
        // A file stands in for the fifo's two ends: tokens are read from the front and written to another.
        let (take, give) = (folder.path().join("take"), folder.path().join("give"));
        std::fs::write(&take, "ab").unwrap();
        std::fs::write(&give, "").unwrap();
        let server = Server { take: File::open(&take).unwrap(), give: File::create(&give).unwrap() };
        let limit = Limit { server: Some(server), own_taken: AtomicBool::new(false), alone: None };
        // The first needs no token; the two inside it do.
        limit.run(|| limit.run(|| limit.run(|| ())));
        assert_eq!(std::fs::read(&give).unwrap(), b"ba");
        limit.run(|| ());
        assert_eq!(std::fs::read(&give).unwrap(), b"ba");
    }
}
