//! The second tier of the cache: a store on another machine, from which links read results and to which they add their own.
//!
//! [`Location`] says where, [`store`] speaks the protocol, [`entry`] is what lies there, and [`Tier`] is what a link uses. A
//! store is slow, may be gone, and may hold anything: requests have a time limit, the first one that fails ends the use of the
//! store, everything that is read has a limit of size and is checked before it is used, and nothing here can make a link fail.

#![forbid(unsafe_code)]

mod credentials;
pub mod entry;
mod error;
mod key_file;
mod location;
#[cfg(feature = "network")]
mod network;
mod prefetch;
pub mod store;
mod tier;
mod uploads;

pub use credentials::Credentials;
pub use entry::Seal;
pub use error::{LocationError, StoreError};
pub use location::Location;
pub use tier::{Counts, Mode, Settings, Tier};
