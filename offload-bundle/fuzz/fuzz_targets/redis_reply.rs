//! Replies of a server of Redis.
#![no_main]

use libfuzzer_sys::fuzz_target;
use remote_cache::reply::{self, Reply};

fuzz_target!(|data: &[u8]| {
    let mut from = data;
    while let Ok(reply) = reply::read(&mut from, 4096) {
        if let Reply::Value(Some(value)) = reply {
            assert!(value.len() <= data.len().min(4096));
        }
    }
});
