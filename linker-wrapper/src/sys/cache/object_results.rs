//! Results that travel in objects: those that a relocatable link left in the inputs of this one, and those that this link puts into its
//! output. Nothing of them goes into the cache's folder, where other links would find what an object claims: what is made of them has them in
//! its key.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use offload_bundle::kept_results::{self, KeptResults};

use crate::sys::cache::key::Key;

/// The results in the objects of a link.
#[derive(Debug, Default)]
pub struct ObjectResults<'a> {
    /// Those of each input.
    found: Vec<KeptResults<'a>>,
    /// Whether they may be used.
    is_usable: bool,
    /// How many of them were used.
    used: AtomicU64,
    /// Those for the output, if it holds any.
    collected: Option<Mutex<BTreeMap<[u8; 32], Vec<u8>>>>,
}

impl<'a> ObjectResults<'a> {
    /// The results in the inputs. A link that may not use them makes the same ones itself. `collects`: the output will hold those of this
    /// link.
    pub fn new(found: Vec<KeptResults<'a>>, is_usable: bool, collects: bool) -> Self {
        ObjectResults { found, is_usable, used: AtomicU64::default(), collected: collects.then(Mutex::default) }
    }

    /// Whether results are looked up or collected.
    pub fn is_on(&self) -> bool {
        !self.found.is_empty() || self.collected.is_some()
    }

    /// Whether the output will hold the results of this link.
    pub fn collects(&self) -> bool {
        self.collected.is_some()
    }

    /// Whether an input has a result, usable or not.
    pub fn has(&self, key: &Key) -> bool {
        self.found.iter().any(|results| results.contains(key.bytes()))
    }

    /// Returns the content of a result. A damaged one is treated as a miss.
    pub fn get(&self, key: &Key) -> Option<Vec<u8>> {
        let content = self.usable().iter().find_map(|results| results.get(key.bytes()))?;
        self.used.fetch_add(1, Ordering::Relaxed);
        Some(content)
    }

    /// Whether there is probably a result; [`ObjectResults::get`] may still find that it is damaged.
    pub fn contains(&self, key: &Key) -> bool {
        self.usable().iter().any(|results| results.contains(key.bytes()))
    }

    fn usable(&self) -> &[KeptResults<'a>] {
        if self.is_usable { &self.found } else { &[] }
    }

    /// What the code of a link may depend on in addition to its units: the results in the inputs.
    pub fn identity(&self) -> Vec<u8> {
        self.found.iter().flat_map(KeptResults::identity).collect()
    }

    /// Adds a result to those of the output, if it holds any.
    pub fn collect(&self, key: &Key, content: &[u8]) {
        if let Some(collected) = &self.collected {
            let mut collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
            collected.entry(*key.bytes()).or_insert_with(|| content.to_vec());
        }
    }

    /// The contents of the output's section; empty without results.
    pub fn section(&self) -> Vec<u8> {
        let Some(collected) = &self.collected else { return Vec::new() };
        let collected = collected.lock().unwrap_or_else(PoisonError::into_inner);
        if collected.is_empty() { Vec::new() } else { kept_results::write(&collected) }
    }

    /// The number of results in the inputs, and how many of them were used; `None` without any.
    pub fn counts(&self) -> Option<(u64, u64)> {
        let found = self.found.iter().map(|results| results.len() as u64).sum();
        (found > 0).then(|| (self.used.load(Ordering::Relaxed), found))
    }
}
