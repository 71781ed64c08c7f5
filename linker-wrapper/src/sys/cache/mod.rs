//! A folder of results that many links share, each found by a hash of what it was made of.
//!
//! There are no locks, so that it works on network file systems too: an entry is written under another name and
//! renamed, whoever comes last wins, and both wrote the same. What a killed link leaves under that other name is
//! no entry and goes when the folder is trimmed. Whatever is wrong with the folder or an entry is a miss, and a folder that
//! others may write to is not used ([`trust`]).

mod choice;
mod entry;
mod key;
mod layout;
mod store;
mod trim;
mod trust;

pub use choice::of;
pub use key::{Key, KeyBuilder, identity_of};
pub use store::Cache;
