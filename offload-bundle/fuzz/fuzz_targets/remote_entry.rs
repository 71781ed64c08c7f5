//! Entries of a remote cache: as they come, and with the right checksum, which anybody can compute who writes to the store.
#![no_main]

use libfuzzer_sys::fuzz_target;
use remote_cache::entry::{Seal, decode, encode};

const KEY: [u8; 32] = [7; 32];

fuzz_target!(|data: &[u8]| {
    for seal in [Seal::Checksum, Seal::keyed(b"secret")] {
        assert!(decode(&KEY, data, &seal).is_err());
        let entry = encode(&KEY, data, &seal).expect("small content");
        assert_eq!(decode(&KEY, &entry, &seal).as_deref(), Ok(data));
    }
    // Everything but the start of the header is the fuzzer's: sealing, coding, size, and the coded content.
    let Some((chosen, body)) = data.split_first_chunk::<12>() else { return };
    let start = [&b"FATLINKR\x01\0\0\0"[..], &chosen[..4], &KEY, &chosen[4..]].concat();
    let checksum = blake3::Hasher::new().update(&start).update(body).finalize();
    let entry = [&start[..], checksum.as_bytes(), body].concat();
    if let Ok(content) = decode(&KEY, &entry, &Seal::Checksum) {
        assert_eq!(content.len() as u64, u64::from_le_bytes(chosen[4..].try_into().expect("8 bytes")));
    }
});
