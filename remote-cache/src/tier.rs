//! What a link uses: reads through, writes behind, counts, and gives up at the first failure.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use crate::credentials::Credentials;
use crate::entry::{self, Refused, Seal};
use crate::error::{LocationError, StoreError};
use crate::location::Location;
use crate::open::open;
use crate::prefetch::{Prefetch, Taken};
use crate::store::Store;
use crate::uploads::{Upload, Uploads};

/// What a link may do to the store.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Mode {
    /// Read and add entries.
    #[default]
    ReadWrite,
    /// Read entries.
    ReadOnly,
}

/// What the user has chosen.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where the store is.
    pub location: Location,
    /// How entries are sealed.
    pub seal: Seal,
    /// What the link may do.
    pub mode: Mode,
    /// How long a request may take, and how long the end of the link waits for entries that are still to be sent.
    pub limit: Duration,
}

/// What happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Entries found.
    pub hits: u64,
    /// Entries not found.
    pub misses: u64,
    /// Entries found and refused, which are also misses.
    pub refused: u64,
    /// Bytes of entries received.
    pub received_bytes: u64,
    /// Time of all requests for entries, added up.
    pub receiving: Duration,
    /// Entries sent.
    pub sent: u64,
    /// Bytes of entries sent.
    pub sent_bytes: u64,
    /// Time of all requests that sent entries, added up.
    pub sending: Duration,
    /// Entries that were not sent.
    pub unsent: u64,
}

/// The second tier of the cache of one link.
#[derive(Debug, Clone)]
pub struct Tier(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    store: Box<dyn Store>,
    settings: Settings,
    counters: Counters,
    /// Why nothing is read or written any more.
    failure: OnceLock<String>,
    /// Why nothing is written any more.
    write_failure: OnceLock<String>,
    /// The first entry that was refused.
    refused: Mutex<Option<Refused>>,
    /// The keys of entries that were found, if nothing proves who wrote them.
    unproven: Mutex<Vec<[u8; 32]>>,
    uploads: Uploads,
    prefetch: Prefetch,
}

#[derive(Debug, Default)]
struct Counters {
    hits: AtomicU64,
    misses: AtomicU64,
    refused: AtomicU64,
    received_bytes: AtomicU64,
    receiving_micros: AtomicU64,
    sent: AtomicU64,
    sent_bytes: AtomicU64,
    sending_micros: AtomicU64,
    unsent: AtomicU64,
}

fn add(counter: &AtomicU64, number: u64) {
    counter.fetch_add(number, Ordering::Relaxed);
}

fn micros(since: Instant) -> u64 {
    u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX)
}

impl Tier {
    /// Prepares the use of a store. Nothing is connected or started yet.
    ///
    /// # Errors
    /// The environment has settings that cannot be used.
    pub fn open(settings: Settings) -> Result<Self, LocationError> {
        let store = open(&settings.location, Credentials::from_environment()?, settings.limit)?;
        Ok(Self::with_store(settings, store))
    }

    fn with_store(settings: Settings, store: Box<dyn Store>) -> Self {
        Tier(Arc::new(Shared {
            store,
            settings,
            counters: Counters::default(),
            failure: OnceLock::new(),
            write_failure: OnceLock::new(),
            refused: Mutex::default(),
            unproven: Mutex::default(),
            uploads: Uploads::default(),
            prefetch: Prefetch::default(),
        }))
    }

    /// Begins to fetch the entries of keys, which are in the order in which [`Tier::get`] will be called.
    pub fn prefetch(&self, keys: impl IntoIterator<Item = [u8; 32]>) {
        for _ in 0..self.0.prefetch.add(keys) {
            let shared = Arc::clone(&self.0);
            let fetch_all = move || {
                while let Some(request) = shared.prefetch.next() {
                    let found = shared.fetch(&request.key);
                    request.end(found);
                }
            };
            // What no thread fetches is fetched when it is needed.
            let _ = std::thread::Builder::new().name("fetch".to_owned()).spawn(fetch_all);
        }
    }

    /// Returns the content of the entry of a key.
    pub fn get(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        match self.0.prefetch.take(key) {
            Taken::Result(found) => found,
            Taken::Nothing => self.0.fetch(key),
        }
    }

    /// Whether there is an entry of a key. [`Tier::get`] then returns it without another request.
    pub fn contains(&self, key: &[u8; 32]) -> bool {
        self.0.prefetch.has(key).unwrap_or_else(|request| {
            let found = self.0.fetch(key);
            let has = found.is_some();
            request.end(found);
            has
        })
    }

    /// Sends an entry while the link goes on.
    pub fn put(&self, key: &[u8; 32], content: Vec<u8>) {
        if !self.0.may_write() {
            return;
        }
        if self.0.uploads.add(Upload { key: *key, content }) {
            let shared = Arc::clone(&self.0);
            let send_all = move || {
                while let Some(upload) = shared.uploads.next() {
                    shared.send(&upload);
                }
            };
            if std::thread::Builder::new().name("send".to_owned()).spawn(send_all).is_err() {
                self.0.uploads.without_thread();
            }
        }
    }

    /// Waits until all entries are sent, within the limit, and returns what the user has to know.
    pub fn finish(&self) -> Vec<String> {
        let Shared { settings, counters, .. } = &*self.0;
        self.0.prefetch.close();
        let unsent = self.0.uploads.finish(Instant::now() + settings.limit);
        counters.unsent.store(unsent, Ordering::Relaxed);
        let place = &settings.location;
        if let Some(why) = self.0.failure.get() {
            return vec![format!("the remote cache at {place} was not used for the rest of this link: {why}")];
        }
        let mut warnings = Vec::new();
        if let Some(refused) = *self.0.refused.lock().unwrap_or_else(PoisonError::into_inner) {
            let count = counters.refused.load(Ordering::Relaxed);
            warnings.push(match count {
                1 => format!("an entry of the remote cache at {place} was not used: it {refused}"),
                _ => format!("{count} entries of the remote cache at {place} were not used: the first {refused}"),
            });
        }
        if let Some(why) = self.0.write_failure.get() {
            warnings.push(format!("not all results of this link are in the remote cache at {place}: {why}"));
        } else if unsent > 0 {
            let seconds = settings.limit.as_secs_f64();
            warnings.push(format!(
                "{unsent} results of this link are not in the remote cache at {place}: it took more than {seconds} s to send \
                 them; --offload-cache-remote-timeout=<seconds> gives them more time"
            ));
        }
        warnings
    }

    /// The keys of entries that were found and that anybody may have written who can write to the store: there is no key file.
    pub fn unproven(&self) -> Vec<[u8; 32]> {
        self.0.unproven.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The store's URL.
    pub fn location(&self) -> &Location {
        &self.0.settings.location
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let counters = &self.0.counters;
        Counts {
            hits: of(&counters.hits),
            misses: of(&counters.misses),
            refused: of(&counters.refused),
            received_bytes: of(&counters.received_bytes),
            receiving: Duration::from_micros(of(&counters.receiving_micros)),
            sent: of(&counters.sent),
            sent_bytes: of(&counters.sent_bytes),
            sending: Duration::from_micros(of(&counters.sending_micros)),
            unsent: of(&counters.unsent),
        }
    }
}

impl Shared {
    fn fetch(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        let found = self.request(key);
        let counters = &self.counters;
        add(if found.is_some() { &counters.hits } else { &counters.misses }, 1);
        if found.is_some() && matches!(self.settings.seal, Seal::Checksum) {
            self.unproven.lock().unwrap_or_else(PoisonError::into_inner).push(*key);
        }
        found
    }

    fn request(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        if self.failure.get().is_some() {
            return None;
        }
        let (begun, seal) = (Instant::now(), &self.settings.seal);
        let answer = self.store.get(&seal.name(key));
        add(&self.counters.receiving_micros, micros(begun));
        let bytes = answer.unwrap_or_else(|error| {
            // Only the first reason is reported.
            let _ = self.failure.set(error.to_string());
            self.uploads.clear();
            None
        })?;
        add(&self.counters.received_bytes, bytes.len() as u64);
        let content = entry::decode(key, &bytes, seal);
        content
            .map_err(|why| {
                add(&self.counters.refused, 1);
                self.refused.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(why);
            })
            .ok()
    }

    fn may_write(&self) -> bool {
        let failed = self.failure.get().is_some() || self.write_failure.get().is_some();
        self.settings.mode == Mode::ReadWrite && !failed
    }

    fn send(&self, Upload { key, content }: &Upload) {
        let seal = &self.settings.seal;
        // A result that is larger than any entry stays here.
        let Some(bytes) = entry::encode(key, content, seal).filter(|_| self.may_write()) else { return };
        let begun = Instant::now();
        let sent: Result<(), StoreError> = self.store.put(&seal.name(key), &bytes);
        add(&self.counters.sending_micros, micros(begun));
        match sent {
            Ok(()) => {
                add(&self.counters.sent, 1);
                add(&self.counters.sent_bytes, bytes.len() as u64);
            }
            Err(error) => {
                let _ = self.write_failure.set(error.to_string());
                self.uploads.clear();
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
