//! Kept results: as they come, with a right checksum over arbitrary stored bytes, which any writer can make, and damaged after they were written.
#![no_main]

use std::collections::BTreeMap;

use libfuzzer_sys::fuzz_target;
use offload_bundle::kept_results::{KeptResults, write};

const KEY: [u8; 32] = [7; 32];

/// A block with one entry: the size is the fuzzer's, and so are the stored bytes.
fn sealed(size: [u8; 8], stored: &[u8]) -> Vec<u8> {
    let checksum = blake3::Hasher::new().update(&KEY).update(&size).update(stored).finalize();
    let total = (112 + stored.len() as u64).next_multiple_of(16);
    let mut block = [&b"FATLKEPT\x01\0\0\0\x01\0\0\0"[..], &total.to_le_bytes(), &KEY].concat();
    for bytes in [&112u64.to_le_bytes(), &(stored.len() as u64).to_le_bytes(), &size] {
        block.extend(bytes);
    }
    block.extend(checksum.as_bytes());
    block.extend(stored);
    block.resize(block.len().next_multiple_of(16), 0);
    block
}

fn read(section: &[u8]) {
    let Ok(results) = KeptResults::parse(section) else { return };
    assert_eq!(results.keys().count(), results.len());
    for key in results.keys() {
        let _ = results.get(key);
    }
}

fuzz_target!(|data: &[u8]| {
    read(data);
    let Some((size, stored)) = data.split_first_chunk::<8>() else { return };
    let section = sealed(*size, stored);
    if let Ok(results) = KeptResults::parse(&section)
        && let Some(content) = results.get(&KEY)
    {
        assert_eq!(content.len() as u64, u64::from_le_bytes(*size));
    }
    // What was written, with one byte changed, leads to the same content or to none.
    let entries = BTreeMap::from([(KEY, stored.to_vec()), ([9; 32], vec![size[0]; usize::from(size[1]) * 8])]);
    let mut block = write(&entries);
    let at = usize::from(u16::from_le_bytes([size[2], size[3]])) % block.len();
    block[at] ^= size[4];
    let Ok(results) = KeptResults::parse(&block) else { return };
    for key in results.keys() {
        if let Some(content) = results.get(key) {
            assert_eq!(Some(&content), entries.get(key));
        }
    }
});
