use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::*;
use crate::error::StoreError;

/// A store in memory that can be told to fail.
#[derive(Debug, Default)]
struct Memory {
    entries: Mutex<HashMap<String, Vec<u8>>>,
    requests: AtomicU64,
    broken: AtomicBool,
    full: AtomicBool,
    delay: Duration,
}

impl Store for Arc<Memory> {
    fn get(&self, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.delay);
        match self.broken.load(Ordering::Relaxed) {
            true => Err(StoreError::NoHost),
            false => Ok(self.entries.lock().unwrap().get(name).cloned()),
        }
    }

    fn put(&self, name: &str, bytes: &[u8]) -> Result<(), StoreError> {
        self.requests.fetch_add(1, Ordering::Relaxed);
        std::thread::sleep(self.delay);
        if self.full.load(Ordering::Relaxed) {
            return Err(StoreError::Full("no room".to_owned()));
        }
        self.entries.lock().unwrap().insert(name.to_owned(), bytes.to_vec());
        Ok(())
    }
}

fn settings(seal: Seal, mode: Mode) -> Settings {
    Settings { location: Location::parse("http://store").unwrap(), seal, mode, limit: Duration::from_secs(20) }
}

fn tier(memory: &Arc<Memory>) -> Tier {
    Tier::with_store(settings(Seal::Checksum, Mode::ReadWrite), Box::new(Arc::clone(memory)))
}

const fn key(number: u8) -> [u8; 32] {
    [number; 32]
}

#[test]
fn one_link_finds_what_another_has_sent() {
    let memory = Arc::new(Memory::default());
    let (first, second) = (tier(&memory), tier(&memory));
    assert_eq!(first.get(&key(1)), None);
    (0..20).for_each(|number| first.put(&key(number), vec![number; 1000]));
    assert_eq!(first.finish(), Vec::<String>::new());
    assert_eq!((first.counts().sent, first.counts().unsent, first.counts().misses), (20, 0, 1));
    assert!(second.contains(&key(0)) && !second.contains(&key(20)));
    second.prefetch((0..30).map(key));
    (0..30).for_each(|number| assert_eq!(second.get(&key(number)), (number < 20).then(|| vec![number; 1000])));
    assert_eq!(second.finish(), Vec::<String>::new());
    let Counts { hits, misses, received_bytes, sent, .. } = second.counts();
    assert_eq!((hits, misses, sent), (20, 10, 0));
    assert!(received_bytes > 20 * entry::HEADER as u64);
    assert_eq!(memory.requests.load(Ordering::Relaxed), 1 + 20 + 30, "one request for each entry");
}

#[test]
fn a_reader_writes_nothing() {
    let memory = Arc::new(Memory::default());
    let reader = Tier::with_store(settings(Seal::Checksum, Mode::ReadOnly), Box::new(Arc::clone(&memory)));
    reader.put(&key(1), vec![1]);
    assert_eq!(reader.finish(), Vec::<String>::new());
    assert_eq!(memory.requests.load(Ordering::Relaxed), 0);
}

#[test]
fn the_first_failure_ends_the_use_of_the_store() {
    let memory = Arc::new(Memory { broken: true.into(), ..Memory::default() });
    let tier = tier(&memory);
    (0..5).for_each(|number| assert_eq!(tier.get(&key(number)), None));
    tier.put(&key(1), vec![1]);
    let warnings = tier.finish();
    let expected =
        "the remote cache at http://store was not used for the rest of this link: there is no host of that name";
    assert_eq!(warnings, [expected]);
    assert_eq!(memory.requests.load(Ordering::Relaxed), 1);
    assert_eq!(tier.counts().misses, 5);
}

#[test]
fn a_full_store_is_still_read() {
    let memory = Arc::new(Memory::default());
    let first = tier(&memory);
    first.put(&key(1), vec![1]);
    first.finish();
    memory.full.store(true, Ordering::Relaxed);
    let second = tier(&memory);
    (2..9).for_each(|number| second.put(&key(number), vec![number]));
    let warnings = second.finish();
    let expected = "not all results of this link are in the remote cache at http://store: it is full (no room)";
    assert_eq!(warnings, [expected]);
    assert_eq!(second.get(&key(1)), Some(vec![1]));
}

#[test]
fn entries_of_others_are_refused() {
    let memory = Arc::new(Memory::default());
    let keyed =
        |secret: &[u8]| Tier::with_store(settings(Seal::keyed(secret), Mode::ReadWrite), Box::new(Arc::clone(&memory)));
    let (one, other) = (keyed(b"one"), keyed(b"other"));
    one.put(&key(1), vec![1]);
    one.finish();
    assert_eq!(other.get(&key(1)), None);
    assert_eq!((other.counts().refused, other.finish()), (0, Vec::new()), "names differ, too");
    // Somebody copies it to the name that the other one reads.
    let stolen = memory.entries.lock().unwrap().values().next().unwrap().clone();
    memory.entries.lock().unwrap().insert(Seal::keyed(b"other").name(&key(1)), stolen);
    assert_eq!(other.get(&key(1)), None);
    let expected =
        "an entry of the remote cache at http://store was not used: it is damaged, forged or sealed with another key";
    assert_eq!(other.finish(), [expected]);
    assert_eq!((other.counts().refused, other.counts().misses), (1, 2));
    assert_eq!(keyed(b"one").get(&key(1)), Some(vec![1]));
}

#[test]
fn the_end_of_a_link_waits_no_longer_than_the_limit() {
    let memory = Arc::new(Memory { delay: Duration::from_secs(60), ..Memory::default() });
    let settings = Settings { limit: Duration::from_millis(50), ..settings(Seal::Checksum, Mode::ReadWrite) };
    let tier = Tier::with_store(settings, Box::new(Arc::clone(&memory)));
    (0..8).for_each(|number| tier.put(&key(number), vec![number]));
    let begun = Instant::now();
    let warnings = tier.finish();
    assert!(begun.elapsed() < Duration::from_secs(30));
    let expected = "8 results of this link are not in the remote cache at http://store: it took more than 0.05 s to send them; \
                    --offload-cache-remote-timeout=<seconds> gives them more time";
    assert_eq!(warnings, [expected]);
    assert_eq!(tier.counts().unsent, 8);
}

#[test]
fn many_threads_share_a_tier() {
    let memory = Arc::new(Memory { delay: Duration::from_millis(1), ..Memory::default() });
    let tier = tier(&memory);
    tier.prefetch((0..40).map(key));
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let tier = &tier;
            scope.spawn(move || {
                for number in (thread..40).step_by(4) {
                    assert_eq!(tier.get(&key(number)), None);
                    tier.put(&key(number), vec![number; 10]);
                }
            });
        }
    });
    assert!(tier.finish().is_empty());
    assert_eq!((tier.counts().misses, tier.counts().sent), (40, 40));
}
