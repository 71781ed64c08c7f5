//! An entry as it lies in a store.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0..8 | `FATLINKR` |
//! | 8..12 | the version, little endian |
//! | 12 | how it is sealed: 0 with a checksum, 1 with a keyed MAC |
//! | 13 | how the content is coded: 0 as it is, 1 with Zstandard |
//! | 14..16 | 0 |
//! | 16..48 | the key of the entry |
//! | 48..56 | bytes of content before coding, little endian |
//! | 56..88 | BLAKE3 of bytes 0..56 and the coded content, keyed if it is a MAC |
//! | 88.. | the coded content |
//!
//! The seal covers the key of the entry, so that an entry cannot be moved under another key, and it is checked before anything
//! else of the entry is read.

use std::fmt;
use std::io::Read;

/// The version of this layout.
const VERSION: u32 = 1;

const MAGIC: &[u8; 8] = b"FATLINKR";

/// Bytes in front of the seal.
const SEALED: usize = 56;

/// Bytes in front of the content.
pub const HEADER: usize = SEALED + 32;

/// Largest content, and largest entry, in bytes. Larger results are not sent.
pub const LARGEST: u64 = 256 << 20;

/// Machine code and PTX are a third of their size at this level, at a speed above that of most networks.
const LEVEL: i32 = 3;

/// Content below this size is not coded.
const SMALLEST_CODED: usize = 256;

/// Contexts of the keys that are derived from the key file, one for each use.
const MAC_CONTEXT: &str = "fatlink remote cache 2026-11 MAC of an entry";
const NAME_CONTEXT: &str = "fatlink remote cache 2026-11 name of an entry";

/// How entries are sealed.
#[derive(Clone)]
pub enum Seal {
    /// With a checksum, which detects damage but not malice.
    Checksum,
    /// With a MAC that only holders of the key can make.
    Keyed {
        /// The key of MACs.
        mac: [u8; 32],
        /// The key of names.
        names: [u8; 32],
    },
}

impl Seal {
    /// Derives both keys from a secret.
    pub fn keyed(secret: &[u8]) -> Self {
        Seal::Keyed { mac: blake3::derive_key(MAC_CONTEXT, secret), names: blake3::derive_key(NAME_CONTEXT, secret) }
    }

    /// The name of an entry in the store: 64 hexadecimal digits. With a secret, names depend on it, so that those who use different
    /// ones do not overwrite each other's entries.
    pub fn name(&self, key: &[u8; 32]) -> String {
        match self {
            Seal::Checksum => blake3::Hash::from_bytes(*key).to_hex().to_string(),
            Seal::Keyed { names, .. } => blake3::keyed_hash(names, key).to_hex().to_string(),
        }
    }

    fn id(&self) -> u8 {
        match self {
            Seal::Checksum => 0,
            Seal::Keyed { .. } => 1,
        }
    }

    fn over(&self, start: &[u8], body: &[u8]) -> blake3::Hash {
        let mut hasher = match self {
            Seal::Checksum => blake3::Hasher::new(),
            Seal::Keyed { mac, .. } => blake3::Hasher::new_keyed(mac),
        };
        hasher.update(start).update(body).finalize()
    }
}

impl fmt::Debug for Seal {
    /// Without the keys.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Seal::Checksum => "Checksum",
            Seal::Keyed { .. } => "Keyed",
        })
    }
}

/// Why something that a store holds is no entry of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// It is cut off, of another version, or something else altogether.
    #[error("is no entry")]
    Form,
    /// It is sealed in another way.
    #[error("is not sealed with a key file as this link's entries are")]
    OtherSeal,
    /// The seal does not fit the bytes.
    #[error("is damaged, forged or sealed with another key")]
    Seal,
    /// The content is not what the header says.
    #[error("has a content that cannot be decoded")]
    Content,
}

/// Encodes the entry of `key`. `None`: it is too large.
pub fn encode(key: &[u8; 32], content: &[u8], seal: &Seal) -> Option<Vec<u8>> {
    if content.len() as u64 > LARGEST {
        return None;
    }
    let worth = content.len() >= SMALLEST_CODED;
    let coded = worth.then(|| zstd::bulk::compress(content, LEVEL).ok()).flatten();
    let coded = coded.filter(|coded| coded.len() < content.len());
    let start = start(key, content.len() as u64, seal, u8::from(coded.is_some()));
    let body = coded.as_deref().unwrap_or(content);
    let mut bytes = Vec::with_capacity(HEADER + body.len());
    bytes.extend_from_slice(&start);
    bytes.extend_from_slice(seal.over(&start, body).as_bytes());
    bytes.extend_from_slice(body);
    Some(bytes)
}

/// Decodes what a store holds under the name of `key`.
///
/// # Errors
/// It is not the whole, undamaged entry of this key, sealed as this link's entries are.
pub fn decode(key: &[u8; 32], bytes: &[u8], seal: &Seal) -> Result<Vec<u8>, Refused> {
    let (header, body) = bytes.split_first_chunk::<HEADER>().ok_or(Refused::Form)?;
    let (start_found, seal_found) = header.split_at(SEALED);
    let coding = header[13];
    let size = u64::from_le_bytes(header[48..SEALED].try_into().map_err(|_| Refused::Form)?);
    if header[..8] != *MAGIC || header[8..12] != VERSION.to_le_bytes() {
        return Err(Refused::Form);
    }
    if header[12] != seal.id() {
        return Err(Refused::OtherSeal);
    }
    let seal_found = <[u8; 32]>::try_from(seal_found).map_err(|_| Refused::Form)?;
    // `Hash` compares in constant time.
    if seal.over(start_found, body) != blake3::Hash::from_bytes(seal_found) || header[16..48] != *key {
        return Err(Refused::Seal);
    }
    if header[14..16] != [0, 0] || coding > 1 || size > LARGEST {
        return Err(Refused::Content);
    }
    let content = if coding == 1 { expanded(body, size)? } else { body.to_vec() };
    if content.len() as u64 == size { Ok(content) } else { Err(Refused::Content) }
}

/// Memory grows with what really comes out, not with what the header says.
fn expanded(body: &[u8], size: u64) -> Result<Vec<u8>, Refused> {
    let decoder = zstd::Decoder::with_buffer(body).map_err(|_| Refused::Content)?;
    let mut content = Vec::new();
    decoder.take(size + 1).read_to_end(&mut content).map_err(|_| Refused::Content)?;
    Ok(content)
}

fn start(key: &[u8; 32], size: u64, seal: &Seal, coding: u8) -> [u8; SEALED] {
    let mut bytes = [0; SEALED];
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12] = seal.id();
    bytes[13] = coding;
    bytes[16..48].copy_from_slice(key);
    bytes[48..].copy_from_slice(&size.to_le_bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const KEY: [u8; 32] = [7; 32];

    fn seals() -> [Seal; 3] {
        [Seal::Checksum, Seal::keyed(b"one secret"), Seal::keyed(b"another secret")]
    }

    #[test]
    fn entries_are_read_with_the_seal_they_were_written_with() {
        for (place, seal) in seals().iter().enumerate() {
            let entry = encode(&KEY, &[b'x'; 5000], seal).unwrap();
            assert!(entry.len() < 1000, "coded");
            for (other_place, other) in seals().iter().enumerate() {
                let expected = match (place == other_place, place == 0 || other_place == 0) {
                    (true, _) => Ok(vec![b'x'; 5000]),
                    (false, true) => Err(Refused::OtherSeal),
                    (false, false) => Err(Refused::Seal),
                };
                assert_eq!(decode(&KEY, &entry, other), expected);
            }
            assert_eq!(decode(&[8; 32], &entry, seal), Err(Refused::Seal), "moved to another key");
        }
    }

    #[test]
    fn names_depend_on_the_secret() {
        let [plain, one, other] = seals().map(|seal| seal.name(&KEY));
        assert_eq!(plain, "07".repeat(32));
        assert!(plain != one && one != other && plain != other);
        assert!([plain, one, other].iter().all(|name| name.len() == 64));
    }

    #[test]
    fn keys_are_not_printed() {
        assert_eq!(format!("{:?}", Seal::keyed(b"secret")), "Keyed");
    }

    /// An entry with a right checksum: whoever writes to a store without a key file can make one.
    fn forged(size: u64, coding: u8, body: &[u8]) -> Vec<u8> {
        let start = start(&KEY, size, &Seal::Checksum, coding);
        [&start[..], Seal::Checksum.over(&start, body).as_bytes(), body].concat()
    }

    #[test]
    fn sizes_are_not_believed() {
        let bomb = zstd::bulk::compress(&vec![0; 50 << 20], 19).unwrap();
        for (size, coding, body) in [
            (u64::MAX, 1, &bomb[..]),
            (LARGEST + 1, 1, &bomb),
            (100, 1, &bomb),
            (LARGEST, 1, &bomb),
            (LARGEST, 0, b"x"),
            (0, 0, b"x"),
            (1, 2, b"x"),
            (1, 1, b"x"),
        ] {
            let decoded = decode(&KEY, &forged(size, coding, body), &Seal::Checksum);
            assert_eq!(decoded, Err(Refused::Content), "{size} {coding}");
        }
        assert!(decode(&KEY, &forged(50 << 20, 1, &bomb), &Seal::Checksum).is_ok());
    }

    proptest! {
        #[test]
        fn round_trip(content in proptest::collection::vec(any::<u8>(), 0..2000), repeated in 1..5_usize) {
            let content = content.repeat(repeated);
            for seal in seals() {
                let entry = encode(&KEY, &content, &seal).unwrap();
                prop_assert_eq!(decode(&KEY, &entry, &seal).unwrap(), &content[..]);
            }
        }

        #[test]
        fn every_change_is_detected(place in any::<prop::sample::Index>(), bit in 0..8_u32, cut in any::<prop::sample::Index>()) {
            for seal in seals() {
                let entry = encode(&KEY, &[b'y'; 600], &seal).unwrap();
                let mut changed = entry.clone();
                changed[place.index(entry.len())] ^= 1_u8 << bit;
                prop_assert!(decode(&KEY, &changed, &seal).is_err());
                prop_assert!(decode(&KEY, &entry[..cut.index(entry.len())], &seal).is_err());
                prop_assert!(decode(&KEY, &[&entry[..], b"z"].concat(), &seal).is_err());
            }
        }

        #[test]
        fn any_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            for seal in seals() {
                prop_assert!(decode(&KEY, &bytes, &seal).is_err());
            }
        }
    }
}
