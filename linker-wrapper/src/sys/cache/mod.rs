//! A folder of results that many links share, each found by a hash of what it was made of.
//!
//! There are no locks, so it works on network file systems: an entry is written under a temporary name and renamed. If two
//! links write the same entry, the last one prevails, with the same content. What a killed link leaves under a temporary name
//! is removed when the folder is trimmed. Any problem with the folder or an entry is treated as a miss, and a folder that
//! others may write to is not used ([`trust`]). The store is small enough to do without a crate.

mod cached_hashes;
mod choice;
mod entry;
mod key;
mod layout;
mod object_results;
mod remote;
mod store;
mod trim;
mod trust;
mod unit_facts;

pub use cached_hashes::{known_hash, store_hash};
pub use choice::of;
pub use key::{Key, KeyBuilder};
pub use object_results::ObjectResults;
pub use remote::{distrust, is_requested as is_remote_requested, open as open_remote};
pub use store::Cache;
pub use unit_facts::UnitFactsCache;
