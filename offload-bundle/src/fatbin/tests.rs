//! Round trips through writer and reader.

use proptest::prelude::*;

use super::ptx_squeeze::squeeze_in_place;
use super::*;
use crate::{ArchFeature, GpuArch, samples};

const PLAIN: fn() -> BuilderOptions = || BuilderOptions { compress: false, ..BuilderOptions::default() };
const PACKED: fn() -> BuilderOptions = || BuilderOptions { compress_all: true, ..BuilderOptions::default() };
const SMALLER: fn() -> BuilderOptions = || BuilderOptions { compress_smaller: true, ..BuilderOptions::default() };

fn policy() -> impl Strategy<Value = BuilderOptions> {
    prop_oneof![Just(BuilderOptions::default()), Just(PACKED()), Just(SMALLER()), Just(PLAIN())]
}

/// By LZ4 or by Zstandard.
fn by(lz4: bool) -> CompressMode {
    if lz4 { CompressMode::Speed } else { CompressMode::Default }
}

fn feature() -> impl Strategy<Value = ArchFeature> {
    prop_oneof![Just(ArchFeature::Plain), Just(ArchFeature::Family), Just(ArchFeature::Accelerated)]
}

proptest! {
    #[test]
    fn written_entries_are_read_back(
        options in policy(),
        debug in any::<bool>(),
        entries in prop::collection::vec((0u8..3, 75u32..122, feature(), "[a-z.]{0,20}", "[a-z -]{0,20}"), 0..5),
        zeros in 0usize..20,
    ) {
        let mut writer = FatbinWriter::new(BuilderOptions { debug, ..options });
        let ptx = b".version 8.7\n.target sm_90\n// a comment\n";
        let ltoir = b"\xed\x43\x4e\x7f\x01\x41 and more";
        for (kind, number, feature, name, options) in &entries {
            let arch = GpuArch { number: *number, feature: *feature };
            let added = match kind {
                0 => writer.add_cubin(arch, samples::cubin(arch, true), name),
                1 => writer.add_ptx(arch, ptx, name, options),
                _ => writer.add_ltoir(arch, &ltoir[..], name, options),
            };
            added.expect("a sound image");
        }
        let size = writer.size();
        let mut data = writer.finish();
        prop_assert_eq!(data.len() as u64, size);
        data.resize(data.len() + zeros, 0);
        let read = read(&data).expect("what was written");
        prop_assert_eq!(read.len(), entries.len());
        for (found, (kind, number, feature, name, options)) in read.iter().zip(&entries) {
            let arch = GpuArch { number: *number, feature: *feature };
            prop_assert_eq!(found.arch, arch);
            prop_assert_eq!(found.identifier.unwrap_or_default(), name.as_bytes());
            prop_assert_eq!(found.is_debug(), debug);
            let payload = found.payload().expect("a sound payload");
            match kind {
                0 => {
                    prop_assert_eq!((found.kind, found.code_version), (EntryKind::Elf, (1, 8)));
                    prop_assert_eq!(&payload[..], &samples::cubin(arch, true)[..]);
                    prop_assert_eq!(found.compat.is_some(), *number >= 100);
                }
                1 => {
                    prop_assert_eq!((found.kind, found.code_version), (EntryKind::Ptx, (8, 7)));
                    prop_assert_eq!(&payload[..], b".version 8.7\n.target sm_90\n\n");
                    prop_assert_eq!(found.options, Some(options.as_bytes()));
                }
                _ => {
                    prop_assert_eq!((found.kind, found.code_version), (EntryKind::LtoIr, (1, 0x41)));
                    prop_assert!(payload.starts_with(ltoir));
                }
            }
        }
    }

    #[test]
    fn squeezing_by_words_is_squeezing_by_characters(text in prop::collection::vec(prop_oneof![
        3 => prop::sample::select(b" \t\n\r\x0b\x0c".to_vec()), 3 => any::<u8>(), 1 => prop::sample::select(b"\"/*\\".to_vec())
    ], 0..120)) {
        prop_assert_eq!(squeeze(&text), by_characters(&text));
        prop_assert_eq!(squeeze_in_place(text.clone()), by_characters(&text));
    }

    // Longer than a piece.
    #[test]
    fn squeezing_by_pieces_is_squeezing_by_characters(
        start in "[ a/*\"\n\t]{0,40}", middle in "[ a\n\t]{4080,4110}", end in "[ a/*\"\n\t]{0,40}"
    ) {
        let text = [start, middle.clone(), end, middle].concat().into_bytes();
        prop_assert_eq!(squeeze(&text), by_characters(&text));
        prop_assert_eq!(squeeze_in_place(text.clone()), by_characters(&text));
    }

    #[test]
    fn squeezing_adds_nothing_but_a_nul(text in "[ a/*\n\t]{0,40}") {
        let squeezed = squeeze(text.as_bytes());
        prop_assert!(squeezed.len() <= text.len() + 1);
        prop_assert_eq!(squeezed.last(), Some(&0));
    }
}

/// The rules as plainly as can be.
fn by_characters(text: &[u8]) -> Vec<u8> {
    let text = text.strip_suffix(&[0]).unwrap_or(text);
    let (mut out, mut at, mut previous, mut in_quotes) = (Vec::new(), 0, 0, false);
    while at < text.len() {
        let rest = &text[at..];
        if !in_quotes && rest.starts_with(b"//") {
            at += rest.iter().position(|byte| matches!(byte, b'\r' | b'\n')).unwrap_or(rest.len());
            previous = b'/';
            continue;
        }
        if !in_quotes && rest.starts_with(b"/*") {
            at += rest[1..].windows(2).position(|pair| pair == b"*/").map_or(rest.len(), |end| end + 3);
            previous = b'/';
            continue;
        }
        if rest[0] == b'"' && previous != b'\\' {
            in_quotes = !in_quotes;
        }
        let is_needless = matches!(rest[0], b' ' | b'\t') && matches!(previous, b' ' | b'\t'..=b'\r') && !in_quotes;
        if !is_needless {
            out.push(rest[0]);
        }
        previous = rest[0];
        at += 1;
    }
    out.push(0);
    out
}

#[test]
fn squeezing_follows_the_rules() {
    let cases: [(&str, &str); 9] = [
        ("add  a,\t b;  // sum\nret;\n", "add a,\tb; \nret;\n"),
        ("a /* x */ b", "a  b"),
        ("a/*/b", "ab"),
        ("a/* open", "a"),
        (".file \"a  // b\"", ".file \"a  // b\""),
        ("\\\"  x", "\\\" x"),
        ("\n\n\tret", "\n\nret"),
        ("// all", ""),
        ("a\0", "a"),
    ];
    for (text, expected) in cases {
        let mut expected = expected.as_bytes().to_vec();
        expected.push(0);
        assert_eq!(squeeze(text.as_bytes()), expected, "{text:?}");
    }
}

/// LTO-IR of these bytes, alone in a fatbin.
fn ltoir_in_fatbin(bytes: &[u8], options: BuilderOptions, lz4: bool) -> Vec<u8> {
    let ltoir = [b"\xed\x43\x4e\x7f\x01\x41", bytes].concat();
    let mut writer = FatbinWriter::new(BuilderOptions { mode: by(lz4), ..options });
    writer.add_ltoir(GpuArch::plain(90), ltoir, "", "").expect("LTO-IR");
    writer.finish()
}

proptest! {
    #[test]
    fn only_what_becomes_smaller_is_compressed(
        random in prop::collection::vec(any::<u8>(), 0..300),
        zeros in 0usize..300,
        lz4 in any::<bool>(),
    ) {
        let bytes = [random, vec![0; zeros]].concat();
        let [plain, packed, smaller] = [PLAIN, PACKED, SMALLER].map(|options| ltoir_in_fatbin(&bytes, options(), lz4));
        prop_assert_eq!(&smaller, if packed.len() < plain.len() { &packed } else { &plain });
    }
}

#[test]
fn wrong_inputs_are_refused() {
    let mut writer = FatbinWriter::new(BuilderOptions::default());
    let arch = GpuArch::plain(90);
    let error = writer.add_cubin(arch, samples::cubin(GpuArch::plain(80), false), "").expect_err("another GPU");
    assert_eq!(error.kind.to_string(), "cubin for sm_80 where one for sm_90 is wanted");
    assert!(writer.add_cubin(arch, &b"\x7fELF"[..], "").is_err());
    assert!(writer.add_ptx(arch, b".target sm_90", "", "").is_err());
    assert!(writer.add_ptx(arch, b".version 9\n", "", "").is_err());
    assert!(writer.add_ltoir(arch, &b"BC\xc0\xde  "[..], "", "").is_err());
    assert_eq!(writer.size(), 16);
}

#[test]
fn the_writer_shows_what_a_reader_of_its_fatbin_sees() {
    let (sm_80, sm_90) = (GpuArch::plain(80), GpuArch::plain(90));
    for (options, lz4) in [(PLAIN(), false), (PACKED(), false), (PACKED(), true)] {
        let mut writer = FatbinWriter::new(BuilderOptions { mode: by(lz4), ..options });
        writer.add_cubin(sm_80, samples::cubin(sm_80, false), "a.cu").expect("a sound cubin");
        writer.add_ptx(sm_90, b".version 8.0\n.target sm_90\n", "", "-O1").expect("sound PTX");
        let seen = writer.entries().expect("sound entries");
        let finished = writer.clone().finish();
        let read = read(&finished).expect("a sound fatbin");
        assert_eq!(seen.len(), read.len());
        for (seen, read) in seen.iter().zip(&read) {
            // An uncompressed image comes without the padding that the container adds.
            assert!(read.stored.starts_with(seen.stored) && read.stored.len() - seen.stored.len() < 8);
            assert_eq!(FatbinEntry { stored: read.stored, ..seen.clone() }, *read);
            assert_eq!(read.compression == Compression::Lz4, lz4);
            read.payload().expect("a sound payload");
        }
    }
}

#[test]
fn sizes_that_lie_are_refused() {
    let good = samples::fatbin(true);
    let claim = |size: u64| {
        let mut data = good.clone();
        data[16 + 0x38..16 + 0x40].copy_from_slice(&size.to_le_bytes());
        let entries = read(&data).expect("the container is sound");
        entries[0].payload().map(|payload| payload.len())
    };
    let true_size = read(&good).expect("a sound fatbin")[0].uncompressed_size;
    assert_eq!(claim(true_size).expect("a sound payload") as u64, true_size);
    for size in [0, true_size - 1, true_size + 1, 1 << 40, u64::MAX] {
        assert!(claim(size).is_err(), "{size}");
    }
}

#[test]
fn two_containers_and_an_empty_one() {
    let empty = FatbinWriter::new(BuilderOptions::default()).finish();
    assert_eq!(empty.len(), 16);
    let one = samples::fatbin(false);
    let data = [one.clone(), empty, vec![0; 5], one.clone(), vec![0; 9]].concat();
    let entries = read(&data).expect("sound fatbins");
    assert_eq!(entries.len(), 6);
    assert_eq!(entries[3].offset, one.len() as u64 + 16 + 5 + 16);
    assert_eq!(read(&[]).expect("nothing").len(), 0);
}
