//! The processes of a linker: those that wait for links, and those whose links are over.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use fatlink_protocol::{FLAG, FLAG_AHEAD};

use crate::error::Error;
use crate::folder::Folder;
use crate::worker::Worker;

/// What processes are started with.
#[derive(Debug, Clone)]
pub struct Config {
    /// The program.
    pub program: PathBuf,
    /// Its whole environment.
    pub variables: Vec<(OsString, OsString)>,
    /// Where private folders are.
    pub temporary: PathBuf,
    /// How many processes wait for links.
    pub ahead: usize,
}

/// A process and its folder, which is removed after the process has ended.
#[derive(Debug)]
pub struct Seat {
    /// The process.
    pub worker: Worker,
    /// Its folder.
    pub folder: Folder,
}

/// The processes of a linker. Dropping it ends all of them.
#[derive(Debug)]
pub struct Pool {
    /// What they are started with. [`Pool::discard`] has to follow a change.
    pub config: Config,
    waiting: Arc<Mutex<Waiting>>,
    /// Threads that end processes and start others.
    helpers: Mutex<Vec<JoinHandle<()>>>,
}

/// The processes that wait for a link.
#[derive(Debug, Default)]
struct Waiting {
    seats: VecDeque<Seat>,
    /// How many are being started.
    starting: usize,
}

impl Pool {
    /// No processes yet.
    pub fn new(config: Config) -> Self {
        Pool { config, waiting: Arc::default(), helpers: Mutex::default() }
    }

    /// A process that is ready, or one that is started now.
    pub fn seat(&self) -> Result<Seat, Error> {
        loop {
            let Some(seat) = lock(&self.waiting).seats.pop_front() else { return self.config.start(FLAG) };
            // Somebody may have killed it.
            if seat.worker.is_alive() {
                return Ok(seat);
            }
        }
    }

    /// Starts the processes that are to wait.
    pub fn prepare(&self) -> Result<(), Error> {
        self.config.prepare(&self.waiting)
    }

    /// Ends a process whose link is over, and starts the next one: in a thread if processes wait for links, because their callers are in
    /// a hurry.
    pub fn renew(&self, seat: Seat) {
        if self.config.ahead == 0 {
            return;
        }
        let (config, waiting) = (self.config.clone(), Arc::clone(&self.waiting));
        let renew = move || {
            drop(seat);
            // The next link starts a process itself, and reports why that is impossible.
            let _ = config.prepare(&waiting);
        };
        // Without a thread the closure is dropped, and ends the process.
        if let Ok(helper) = std::thread::Builder::new().name("fatlink".to_owned()).spawn(renew) {
            let mut helpers = lock(&self.helpers);
            helpers.retain(|helper| !helper.is_finished());
            helpers.push(helper);
        }
    }

    /// Ends the processes that wait.
    pub fn discard(&mut self) {
        for helper in std::mem::take(&mut *lock(&self.helpers)) {
            let _ = helper.join();
        }
        lock(&self.waiting).seats.clear();
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.discard();
    }
}

impl Config {
    fn start(&self, flag: &str) -> Result<Seat, Error> {
        let folder = Folder::new(&self.temporary)?;
        let worker = Worker::start(flag, &self.program, &folder, &self.variables)?;
        Ok(Seat { worker, folder })
    }

    fn prepare(&self, waiting: &Mutex<Waiting>) -> Result<(), Error> {
        while self.may_start(waiting) {
            let started = self.start(FLAG_AHEAD);
            let mut waiting = lock(waiting);
            waiting.starting -= 1;
            waiting.seats.push_back(started?);
        }
        Ok(())
    }

    /// Whether one more process is to be started, by the thread that learns so.
    fn may_start(&self, waiting: &Mutex<Waiting>) -> bool {
        let mut waiting = lock(waiting);
        let is_wanted = waiting.seats.len() + waiting.starting < self.ahead;
        waiting.starting += usize::from(is_wanted);
        is_wanted
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
