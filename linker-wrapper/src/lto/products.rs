//! The results of a device link.

use std::collections::BTreeMap;

use llvm_passes::session::Message;
use serde::{Deserialize, Serialize};

use crate::sys::cache::Key;

/// The linked code of one target.
#[derive(Debug, Clone, Default)]
pub struct LinkedTarget<L> {
    /// The code.
    pub code: L,
    /// LLVM's messages.
    pub messages: Vec<Message>,
    /// Messages of the tools.
    pub diagnostics: Vec<String>,
    /// Kernels that are not in the code, each with the one that stands for it.
    pub folded: BTreeMap<String, String>,
    /// What its code is cached under.
    pub key: Option<Key>,
    /// Whether it is from the cache.
    pub is_cached: bool,
    /// Whether all of it was joined from partitions that are cached.
    pub is_joined: bool,
}

/// A compiled partition in the cache. `S` is the code as its machine stores it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedPartition<S> {
    /// The code.
    pub code: S,
    /// LLVM's messages.
    pub messages: Vec<Message>,
}

/// A linked target in the cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CachedTarget<L> {
    /// The code.
    pub code: L,
    /// LLVM's messages.
    pub messages: Vec<Message>,
}
