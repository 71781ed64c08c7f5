//! What a link uses: reads through, writes behind, counts, and gives up at the first failure.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::Serialize;

use crate::credentials::Credentials;
use crate::entry::{self, Refused, Seal};
use crate::error::LocationError;
use crate::location::Location;
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

/// What happened. The field names are keys of the statistics as JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Entries found.
    pub hits: u64,
    /// Entries not found.
    pub misses: u64,
    /// Bytes of entries received.
    pub received_bytes: u64,
    /// Time of all requests for entries, added up.
    pub receiving_seconds: f64,
    /// Entries found and refused, which are also misses.
    pub refused: u64,
    /// Time of all requests that sent entries, added up.
    pub sending_seconds: f64,
    /// Entries sent.
    pub sent: u64,
    /// Bytes of entries sent.
    pub sent_bytes: u64,
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
    record: Mutex<Record>,
    uploads: Uploads,
    prefetch: Prefetch,
}

/// What happened, and why something was given up.
#[derive(Debug, Default)]
struct Record {
    counts: Counts,
    /// Why nothing is read or written any more.
    failure: Option<String>,
    /// Why nothing is written any more.
    write_failure: Option<String>,
    /// The first entry that was refused.
    refused: Option<Refused>,
    /// The keys of entries that were found, if nothing proves who wrote them.
    unproven: Vec<[u8; 32]>,
}

impl Tier {
    /// Prepares the use of a store. Nothing is connected or started yet.
    ///
    /// # Errors
    /// The environment has settings that cannot be used.
    pub fn open(settings: Settings) -> Result<Self, LocationError> {
        let store = settings.location.open(&Credentials::from_environment()?, settings.limit)?;
        Ok(Self::with_store(settings, store))
    }

    fn with_store(settings: Settings, store: Box<dyn Store>) -> Self {
        Tier(Arc::new(Shared {
            store,
            settings,
            record: Mutex::default(),
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
        let Settings { location: place, limit, .. } = &self.0.settings;
        self.0.prefetch.close();
        let unsent = self.0.uploads.finish(Instant::now() + *limit);
        let mut record = self.0.record();
        record.counts.unsent = unsent;
        if let Some(why) = &record.failure {
            return vec![format!("the remote cache at {place} was not used for the rest of this link: {why}")];
        }
        let mut warnings = Vec::new();
        if let Some(refused) = record.refused {
            warnings.push(match record.counts.refused {
                1 => format!("an entry of the remote cache at {place} was not used: it {refused}"),
                count => format!("{count} entries of the remote cache at {place} were not used: the first {refused}"),
            });
        }
        if let Some(why) = &record.write_failure {
            warnings.push(format!("not all results of this link are in the remote cache at {place}: {why}"));
        } else if unsent > 0 {
            let seconds = limit.as_secs_f64();
            warnings.push(format!(
                "{unsent} results of this link are not in the remote cache at {place}: it took more than {seconds} s to send \
                 them; --offload-cache-remote-timeout=<seconds> gives them more time"
            ));
        }
        warnings
    }

    /// The keys of entries that were found and that anybody may have written who can write to the store: there is no key file.
    pub fn unproven(&self) -> Vec<[u8; 32]> {
        self.0.record().unproven.clone()
    }

    /// The store's URL.
    pub fn location(&self) -> &Location {
        &self.0.settings.location
    }

    /// What happened so far.
    pub fn counts(&self) -> Counts {
        self.0.record().counts
    }
}

impl Shared {
    fn record(&self) -> MutexGuard<'_, Record> {
        self.record.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn fetch(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        let found = self.request(key);
        let mut record = self.record();
        match found {
            Some(_) => record.counts.hits += 1,
            None => record.counts.misses += 1,
        }
        if found.is_some() && matches!(self.settings.seal, Seal::Checksum) {
            record.unproven.push(*key);
        }
        found
    }

    fn request(&self, key: &[u8; 32]) -> Option<Vec<u8>> {
        if self.record().failure.is_some() {
            return None;
        }
        let (begun, seal) = (Instant::now(), &self.settings.seal);
        let answer = self.store.get(&seal.name(key));
        self.record().counts.receiving_seconds += begun.elapsed().as_secs_f64();
        let bytes = answer.unwrap_or_else(|error| {
            // Only the first reason is reported.
            self.record().failure.get_or_insert(error.to_string());
            self.uploads.clear();
            None
        })?;
        self.record().counts.received_bytes += bytes.len() as u64;
        let refuse = |why| {
            let mut record = self.record();
            record.counts.refused += 1;
            record.refused.get_or_insert(why);
        };
        entry::decode(key, &bytes, seal).map_err(refuse).ok()
    }

    fn may_write(&self) -> bool {
        let record = self.record();
        self.settings.mode == Mode::ReadWrite && record.failure.is_none() && record.write_failure.is_none()
    }

    fn send(&self, Upload { key, content }: &Upload) {
        let seal = &self.settings.seal;
        // A result that is larger than any entry stays here.
        let Some(bytes) = entry::encode(key, content, seal).filter(|_| self.may_write()) else { return };
        let begun = Instant::now();
        let sent = self.store.put(&seal.name(key), &bytes);
        let mut record = self.record();
        record.counts.sending_seconds += begun.elapsed().as_secs_f64();
        match sent {
            Ok(()) => {
                record.counts.sent += 1;
                record.counts.sent_bytes += bytes.len() as u64;
            }
            Err(error) => {
                record.write_failure.get_or_insert(error.to_string());
                self.uploads.clear();
            }
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
