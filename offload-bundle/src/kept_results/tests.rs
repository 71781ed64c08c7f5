//! Round trips, and what damage leaves of the entries.

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use proptest::sample::Index;

use super::*;

type Entries = BTreeMap<[u8; 32], Vec<u8>>;

/// Contents that shrink, that do not, and that are Zstandard frames themselves.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        vec(any::<u8>(), 0..60),
        (any::<u8>(), 0usize..5000).prop_map(|(byte, len)| vec![byte; len]),
        (any::<u8>(), 0usize..5000)
            .prop_map(|(byte, len)| compression::zstd(&vec![byte; len], LEVEL).expect("a compressor")),
    ]
}

fn entries() -> impl Strategy<Value = Entries> {
    btree_map(any::<[u8; 32]>(), content(), 0..5)
}

/// Keys of one byte and zeros.
fn sample(contents: &[(u8, &[u8])]) -> Entries {
    contents.iter().map(|(number, content)| (key(*number), content.to_vec())).collect()
}

fn key(number: u8) -> [u8; 32] {
    let mut key = [0; 32];
    key[0] = number;
    key
}

/// Whether each key of the section leads to its content or to nothing.
fn holds_nothing_else(section: &[u8], entries: &Entries) {
    let Ok(results) = KeptResults::parse(section) else { return };
    let keys: Vec<[u8; 32]> = results.keys().copied().collect();
    assert_eq!(keys.len(), results.len());
    for key in keys.iter().chain(entries.keys()) {
        if let Some(content) = results.get(key) {
            assert_eq!(Some(&content), entries.get(key));
        }
    }
}

fn error(section: &[u8]) -> String {
    KeptResults::parse(section).expect_err("damage").to_string()
}

proptest! {
    #[test]
    fn what_is_written_is_read(entries in entries()) {
        let block = write(&entries);
        prop_assert_eq!(block.len() % 16, 0);
        prop_assert_eq!(&write(&entries), &block);
        let results = KeptResults::parse(&block).expect("a sound block");
        prop_assert_eq!(results.len(), entries.len());
        prop_assert_eq!(results.is_empty(), entries.is_empty());
        prop_assert!(results.keys().eq(entries.keys()));
        for (key, content) in &entries {
            prop_assert_eq!(results.get(key), Some(content.clone()));
        }
    }

    #[test]
    fn blocks_one_behind_the_other(all in vec((entries(), 0usize..40), 0..4), front in 0usize..40) {
        let mut section = vec![0; front];
        for (entries, zeros) in &all {
            section.extend(write(entries));
            section.resize(section.len() + zeros, 0);
        }
        // The first block with a key counts.
        let mut first = Entries::new();
        for (entries, _) in all {
            for (key, content) in entries {
                first.entry(key).or_insert(content);
            }
        }
        let results = KeptResults::parse(&section).expect("sound blocks");
        prop_assert!(results.keys().eq(first.keys()));
        prop_assert_eq!(results.len(), first.len());
        for (key, content) in &first {
            prop_assert_eq!(results.get(key), Some(content.clone()));
        }
    }

    #[test]
    fn damage_never_gives_wrong_content(
        entries in entries(),
        damages in vec((any::<Index>(), any::<u8>()), 1..6),
        cut in any::<Index>(),
        is_cut: bool,
    ) {
        let mut block = write(&entries);
        for (at, byte) in damages {
            let at = at.index(block.len());
            block[at] = byte;
        }
        if is_cut {
            block.truncate(cut.index(block.len()));
        }
        holds_nothing_else(&block, &entries);
    }

    #[test]
    fn numbers_at_their_limits(
        entries in entries(),
        at in any::<Index>(),
        number in prop_oneof![Just(u64::MAX), Just(u64::MAX - 15), Just(1 << 63), 0u64..600, any::<u64>()],
    ) {
        let mut block = write(&entries);
        let at = at.index(block.len() / 8) * 8;
        block[at..at + 8].copy_from_slice(&number.to_le_bytes());
        holds_nothing_else(&block, &entries);
    }

    #[test]
    fn arbitrary_bytes(data in vec(any::<u8>(), 0..300)) {
        holds_nothing_else(&data, &Entries::new());
        holds_nothing_else(&[&MAGIC[..], &VERSION.to_le_bytes(), &data].concat(), &Entries::new());
    }
}

#[test]
fn every_bit_and_every_truncation() {
    let frame = compression::zstd(&[7; 400], LEVEL).expect("a compressor");
    let entries = sample(&[(1, b"machine code"), (2, &[b'a'; 3000]), (3, &frame), (9, b"")]);
    let block = write(&entries);
    for at in 0..block.len() {
        holds_nothing_else(&block[..at], &entries);
        assert!(at == 0 || KeptResults::parse(&block[..at]).is_err(), "{at} bytes");
        for bit in 0..8 {
            let mut damaged = block.clone();
            damaged[at] ^= 1 << bit;
            holds_nothing_else(&damaged, &entries);
        }
    }
}

#[test]
fn a_block_byte_by_byte() {
    let block = write(&sample(&[(1, b"code")]));
    let checksum = blake3::hash(&[&key(1)[..], &4u64.to_le_bytes(), b"code"].concat());
    let numbers = [112u64, 4, 4].map(u64::to_le_bytes).concat();
    let head = [&b"FATLKEPT"[..], &[1, 0, 0, 0, 1, 0, 0, 0], &128u64.to_le_bytes()].concat();
    assert_eq!(block, [&head[..], &key(1), &numbers, checksum.as_bytes(), b"code", &[0; 12]].concat());
    assert_eq!(
        write(&Entries::new()),
        [&b"FATLKEPT"[..], &[1, 0, 0, 0, 0, 0, 0, 0], &32u64.to_le_bytes(), &[0; 8]].concat()
    );
}

#[test]
fn what_shrinks_is_compressed() {
    let noise: Vec<u8> = (0..8u32).flat_map(|number| *blake3::hash(&number.to_le_bytes()).as_bytes()).collect();
    assert!(write(&sample(&[(1, &[b'a'; 100_000])])).len() < 300);
    assert_eq!(write(&sample(&[(1, &noise)])).len(), 112 + 256);
    // Above the limit it stays as it is, however well it would shrink.
    assert!(matches!(stored_form(&[b'a'; 1000], 999), Cow::Borrowed(_)));
    assert!(matches!(stored_form(&[b'a'; 1000], 1000), Cow::Owned(_)));
}

#[test]
fn the_first_undamaged_block_counts() {
    let (mut first, second) = (write(&sample(&[(1, b"first")])), write(&sample(&[(1, b"second"), (2, b"two")])));
    let both = [&first[..], &second].concat();
    let results = KeptResults::parse(&both).expect("sound blocks");
    assert_eq!((results.len(), results.get(&key(1)).as_deref()), (2, Some(&b"first"[..])));
    assert_eq!(results.check(), Ok(()));
    first[112] ^= 1;
    let both = [&first[..], &second].concat();
    let results = KeptResults::parse(&both).expect("sound tables");
    assert_eq!((results.len(), results.get(&key(1)).as_deref()), (2, Some(&b"second"[..])));
    assert_eq!(results.get(&key(3)), None);
    assert!(results.contains(&key(1)) && !results.contains(&key(3)));
    let error = results.check().expect_err("damage");
    assert_eq!(error.to_string(), "a kept result does not have its checksum at offset 0x70");
    assert!(format!("{results:?}").starts_with("[\"0100"), "{results:?}");
}

#[test]
fn a_sealed_entry_that_expands_too_far_is_refused() {
    // Any writer can make the checksum.
    let forged = |stored: &[u8], size: u64| {
        let mut block = [&MAGIC[..], &[1, 0, 0, 0, 1, 0, 0, 0], &[0; 8], &key(1)].concat();
        for number in [112, stored.len() as u64, size] {
            block.extend(number.to_le_bytes());
        }
        block.extend(checksum(&key(1), size, stored).as_bytes());
        block.extend(stored);
        block.resize(block.len().next_multiple_of(16), 0);
        let len = block.len() as u64;
        block[16..24].copy_from_slice(&len.to_le_bytes());
        KeptResults::parse(&block).expect("a sound table").get(&key(1))
    };
    let frame = compression::zstd(&[7; 400], LEVEL).expect("a compressor");
    assert_eq!(forged(&frame, 400), Some(vec![7; 400]));
    for size in [399, 401, LARGEST_COMPRESSED, LARGEST_COMPRESSED + 1, u64::MAX] {
        assert_eq!(forged(&frame, size), None, "{size}");
    }
}

#[test]
fn errors_say_what_is_wrong_and_where() {
    let block = write(&sample(&[(1, b"one"), (2, b"two")]));
    let with = |at: usize, bytes: &[u8]| {
        let mut damaged = block.clone();
        damaged[at..at + bytes.len()].copy_from_slice(bytes);
        // Behind a sound block and zeros, to see that offsets count from the start of the section.
        error(&[&write(&Entries::new())[..], &[0; 16], &damaged].concat())
    };
    assert_eq!(with(0, b"X"), "no kept results (wrong magic) at offset 0x30");
    assert_eq!(with(8, &[2]), "kept results of unknown version 2 at offset 0x38");
    assert_eq!(with(16, &8u64.to_le_bytes()), "kept results with an impossible size of 8 bytes at offset 0x40");
    assert_eq!(with(16, &[200]), "kept results with an impossible size of 200 bytes at offset 0x40");
    assert_eq!(with(17, &[9]), "the block of kept results goes beyond the end of the data at offset 0x30");
    assert_eq!(with(12, &[9]), "the table of kept results goes beyond the end of the data at offset 0x48");
    assert_eq!(with(24, &[2]), "kept results that are not in the order of their keys at offset 0xa0");
    assert_eq!(with(24 + 32, &[100]), "a kept result inside of the table at offset 0x68");
    assert_eq!(with(24 + 40, &[4]), "a kept result that is stored in more bytes than it has at offset 0x70");
    assert_eq!(with(24 + 39, &[255]), "a kept result goes beyond the end of the data at offset 0x68");
    assert_eq!(error(&block[..20]), "the header of the kept results goes beyond the end of the data at offset 0x0");
}
