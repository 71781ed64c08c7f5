//! Refuses files that grow out of proportion when they are decompressed.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use offload_bundle::expansion::{self, Limits};
use offload_bundle::host_object::Search;

use crate::error::{Error, Result};

/// How many times its own size a file may grow. Code grows to less than 20 times; tables of zeros may grow to thousands.
const RATIO: u64 = 100;
/// What small files may grow to nevertheless, in bytes.
const LEAST: u64 = 64 << 20;
/// The most bytes of a file in a package, and of one image.
const LARGEST: u64 = 4 << 30;

static IS_UNLIMITED: AtomicBool = AtomicBool::new(false);

/// Lets files grow without limit (--allow-expansion).
pub fn allow() {
    IS_UNLIMITED.store(true, Ordering::Relaxed);
}

/// The most bytes that what a file of `size` bytes holds may take.
pub fn limits(size: u64) -> Limits {
    match IS_UNLIMITED.load(Ordering::Relaxed) {
        true => Limits { total: u64::MAX, each: u64::MAX },
        false => Limits { total: size.saturating_mul(RATIO).max(LEAST), each: LARGEST },
    }
}

/// Fails if the images of a file would grow beyond the limits.
pub fn check(name: &Path, data: &[u8], search: Search, limits: Limits) -> Result<()> {
    expansion::check(data, search, limits).map_err(|excess| {
        let member = excess.member.as_ref().map(|member| format!("({member})")).unwrap_or_default();
        Error::Expands { name: format!("{}{member}", name.display()).into(), what: excess.to_string() }
    })
}
