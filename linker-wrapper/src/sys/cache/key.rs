//! The keys of entries: hashes of everything that the content depends on.

use std::fmt;
use std::io;
use std::path::Path;

use crate::sys::stamp::Stamp;

/// Version of the layout of keys and entries. Every change of either increments it: entries of other versions have other keys
/// and headers, and are never read.
pub const FORMAT_VERSION: u32 = 2;

/// The key of an entry.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Key([u8; 32]);

impl Key {
    /// The key with this hash.
    pub fn of_bytes(hash: [u8; 32]) -> Self {
        Key(hash)
    }

    /// The hash itself.
    pub fn bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The key of what is known of a file by its state; `None` if the file was changed so recently that another change could leave the
    /// same state. See [`Stamp::settled_state`].
    pub fn of_state(kind: &str, stamp: &Stamp) -> Option<Self> {
        let state = stamp.settled_state()?;
        Some(KeyBuilder::new("hash by state").field("kind", kind.as_bytes()).field("state", &state).finish())
    }

    /// As 64 lower-case hexadecimal digits.
    pub fn hex(&self) -> String {
        blake3::Hash::from_bytes(self.0).to_hex().to_string()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.hex())
    }
}

/// Hashes named fields to a key. Names and values are hashed with their lengths, so that different lists of fields never have
/// the same bytes.
pub struct KeyBuilder(blake3::Hasher);

impl KeyBuilder {
    /// Begins the key of one kind of entry, such as "partition".
    pub fn new(kind: &str) -> Self {
        KeyBuilder(blake3::Hasher::new()).field("format", &FORMAT_VERSION.to_le_bytes()).field("kind", kind.as_bytes())
    }

    /// Adds a value that the content depends on. The order of fields matters.
    #[must_use]
    pub fn field(mut self, name: &str, bytes: &[u8]) -> Self {
        for part in [name.as_bytes(), bytes] {
            self.0.update(&(part.len() as u64).to_le_bytes());
            self.0.update(part);
        }
        self
    }

    /// The key.
    pub fn finish(self) -> Key {
        Key(*self.0.finalize().as_bytes())
    }
}

/// Hashes a file.
///
/// # Errors
/// The file cannot be read.
pub fn identity_of(program: &Path) -> io::Result<[u8; 32]> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(program)?)?;
    Ok(*hasher.finalize().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The fields of a made-up entry; a change of any must change the key.
    const FIELDS: [(&str, &[u8]); 5] =
        [("ir", b"BC"), ("arch", b"sm_90"), ("level", b"3"), ("llvm", b"22.1.8"), ("ptxas", b"")];

    fn key(kind: &str, fields: &[(&str, &[u8])]) -> Key {
        fields.iter().fold(KeyBuilder::new(kind), |builder, (name, bytes)| builder.field(name, bytes)).finish()
    }

    #[test]
    fn every_field_counts() {
        let whole = key("code", &FIELDS);
        assert_eq!(whole, key("code", &FIELDS));
        assert_ne!(whole, key("other", &FIELDS));
        for index in 0..FIELDS.len() {
            let mut changed = FIELDS;
            changed[index].1 = b"changed";
            assert_ne!(whole, key("code", &changed), "{}", FIELDS[index].0);
            let mut renamed = FIELDS;
            renamed[index].0 = "renamed";
            assert_ne!(whole, key("code", &renamed), "{}", FIELDS[index].0);
            let fewer: Vec<_> = FIELDS.into_iter().filter(|field| *field != FIELDS[index]).collect();
            assert_ne!(whole, key("code", &fewer), "{}", FIELDS[index].0);
        }
        let mut swapped = FIELDS;
        swapped.swap(0, 1);
        assert_ne!(whole, key("code", &swapped));
    }

    #[test]
    fn bytes_cannot_move_from_field_to_field() {
        let two = |first: &[u8], second: &[u8]| KeyBuilder::new("k").field("a", first).field("b", second).finish();
        assert_ne!(two(b"xy", b"z"), two(b"x", b"yz"));
        assert_ne!(KeyBuilder::new("k").field("ab", b"c").finish(), KeyBuilder::new("k").field("a", b"bc").finish());
        // Not even a value that spells out the next field.
        let long = [&b"x"[..], &1_u64.to_le_bytes(), b"b", &1_u64.to_le_bytes(), b"z"].concat();
        assert_ne!(KeyBuilder::new("k").field("a", &long).finish(), two(b"x", b"z"));
    }

    #[test]
    fn a_program_is_its_bytes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tool");
        std::fs::write(&path, "one").unwrap();
        let before = identity_of(&path).unwrap();
        assert_eq!(before, identity_of(&path).unwrap());
        std::fs::write(&path, "two").unwrap();
        assert_ne!(before, identity_of(&path).unwrap());
        assert!(identity_of(&folder.path().join("none")).is_err());
    }
}
