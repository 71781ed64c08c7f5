//! What the builder takes and refuses, and that threads make no difference.

use super::*;
use crate::GpuArch;
use crate::fatbin::{CompressMode, Compression, Validation, read};
use crate::samples;

const PTX: &[u8] = b".version 8.8\n.target sm_80\n.address_size 64\n// nothing\n";
const LTOIR: &[u8] = b"\xed\x43\x4e\x7f\x01\x41\0\0\0\0\0\0\x18\0\0\0\x1c\0\0\0\x1c\0\0\0body and more";
const TILE_IR: &[u8] = b"\x7fTileIR\0\x0d\x01\x02\x03 body";

fn arch(name: &str) -> GpuArch {
    name.parse().expect("an architecture")
}

fn lenient() -> BuilderOptions {
    BuilderOptions { validation: Validation::Nvidia, ..BuilderOptions::default() }
}

/// The error code of a builder with these options for one image.
fn code<T>(options: BuilderOptions, add: impl FnOnce(&mut FatbinBuilder<'static>) -> Result<T, FatbinError>) -> u32 {
    let mut builder = FatbinBuilder::new(options);
    let code = add(&mut builder).err().map_or(0, |error| error.code());
    assert_eq!(code != 0, builder.size().expect("small images") == 16, "an image that was refused stays out");
    code
}

#[test]
fn every_kind() {
    let mut builder = FatbinBuilder::new(BuilderOptions::default());
    builder.add_cubin(arch("sm_90"), samples::cubin(arch("sm_90"), false), "a.cu").expect("a cubin");
    builder.add_ptx(arch("sm_80"), PTX, "a.cu", "-O3").expect("PTX");
    builder.add_ltoir(arch("sm_90"), LTOIR, "", "-ftz=0").expect("LTO-IR");
    builder.add_tile_ir(TILE_IR, "t", "").expect("Tile IR");
    let built = builder.finish().expect("small images");
    let entries = read(&built).expect("what was built");
    let kinds: Vec<_> = entries.iter().map(|entry| (entry.kind, entry.code_version, entry.compression)).collect();
    let expected = [
        (EntryKind::Elf, (1, 8), Compression::None),
        (EntryKind::Ptx, (8, 8), Compression::Zstd),
        (EntryKind::LtoIr, (1, 0x41), Compression::Zstd),
        (EntryKind::TileIr, (0x0d01, 0x0302), Compression::Zstd),
    ];
    assert_eq!(kinds, expected);
    assert_eq!(*entries[2].payload().expect("LTO-IR"), *LTOIR);
    let mut again = FatbinBuilder::new(BuilderOptions::default());
    entries.iter().for_each(|entry| again.add_entry(entry).expect("an entry"));
    assert_eq!(again.finish().expect("small images"), built);
}

#[test]
fn modes_choose_the_compression() {
    let compressions = |words: &[&str]| {
        let mut builder = FatbinBuilder::new(BuilderOptions::parse(words).expect("options"));
        builder.add_cubin(arch("sm_90"), samples::cubin(arch("sm_90"), false), "").expect("a cubin");
        builder.add_ptx(arch("sm_80"), PTX, "", "").expect("PTX");
        let built = builder.finish().expect("small images");
        let entries = read(&built).expect("what was built");
        assert_eq!(
            *entries[1].payload().expect("PTX"),
            PTX[..PTX.len() - 11].iter().chain(b"\n").copied().collect::<Vec<_>>()
        );
        [entries[0].compression, entries[1].compression]
    };
    use Compression::{Lz4, None as Plain, Zstd};
    for (words, expected) in [
        (&[][..], [Plain, Zstd]),
        (&["-g"], [Zstd, Zstd]),
        (&["-c"], [Zstd, Zstd]),
        (&["-compress-all"], [Zstd, Zstd]),
        (&["-compress-mode=size"], [Zstd, Zstd]),
        (&["-compress-mode=balance"], [Plain, Zstd]),
        (&["-compress-mode=speed"], [Plain, Lz4]),
        (&["-compress-mode=speed", "-g"], [Lz4, Lz4]),
        (&["-compress-mode=none", "-compress-all"], [Plain, Plain]),
        (&["-compress-all", "-compress=false"], [Plain, Plain]),
        (&["-compress=true", "-compress=false"], [Plain, Zstd]),
    ] {
        assert_eq!(compressions(words), expected, "{words:?}");
    }
}

#[test]
fn options_of_nvfatbin() {
    let parse = |words: &[&str]| BuilderOptions::parse(words).map_err(|error| error.code());
    let options = parse(&["-32", "-opencl", "-host=windows", "-compress-mode=none", "-compress-level=7", "-32="]);
    let options = options.expect("options");
    assert_eq!((options.is_64_bit, options.mode, options.level), (false, CompressMode::None, Some(7)));
    for words in [
        &["-64", "-32"][..],
        &["-cuda", "-opencl"],
        &["--64"],
        &[""],
        &["-compress"],
        &["-compress=1"],
        &["-compress=TRUE"],
        &["-host=beos"],
        &["-g=true"],
        &["-compress-level=23"],
        &[" -g"],
    ] {
        assert_eq!(parse(words), Err(8), "{words:?}");
    }
}

#[test]
fn strict_where_nvfatbin_is_not() {
    let cases: [(&[u8], &str, u32); 9] = [
        (b".version 8.0\n.target sm_90\n", "sm_80", 13),
        (b".version 8.0\n.target sm_90a\n", "sm_90", 13),
        (b".version 8.0\n.target sm_90a\n", "sm_90a", 0),
        (b".version 8.8\n.target sm_100f\n", "sm_103f", 0),
        (b".version 8.8\n.target sm_100f\n", "sm_100", 13),
        (b".version 8.0\n.target sm_80\n", "sm_90a", 0),
        (b".version 8.0\n", "sm_90", 12),
        (b".version 8.0\n.target beos\n", "sm_90", 12),
        (b".version 8.0\n.target sm_90, debug\n.address_size 32\n", "sm_90", 3),
    ];
    for (text, name, expected) in cases {
        assert_eq!(code(BuilderOptions::default(), |b| b.add_ptx(arch(name), text, "", "")), expected, "{name}");
        assert_eq!(code(lenient(), |b| b.add_ptx(arch(name), text, "", "")), 0, "{name}");
    }
    let accelerated = samples::cubin(arch("sm_90a"), false);
    for (options, expected) in [(BuilderOptions::default(), 2), (lenient(), 0)] {
        assert_eq!(code(options, |b| b.add_cubin(arch("sm_90"), accelerated.clone(), "")), expected);
        assert_eq!(code(options, |b| b.add_cubin(arch("sm_90a"), accelerated.clone(), "")), 0);
        assert_eq!(code(options, |b| b.add_cubin(arch("sm_100"), accelerated.clone(), "")), 2);
        let cut = accelerated[..64].to_vec();
        assert_eq!(code(options, |b| b.add_cubin(arch("sm_90a"), cut, "")), if expected == 0 { 0 } else { 3 });
        let not_ltoir = [b"BC\xc0\xde", &LTOIR[4..]].concat();
        assert_eq!(
            code(options, |b| b.add_ltoir(arch("sm_90"), not_ltoir, "", "")),
            if expected == 0 { 0 } else { 10 }
        );
    }
}

#[test]
fn refused_by_both() {
    for options in [BuilderOptions::default(), lenient()] {
        assert_eq!(code(options, |b| b.add_ptx(arch("sm_80"), &b""[..], "", "")), 11);
        assert_eq!(code(options, |b| b.add_ptx(arch("sm_80"), &b".target sm_80"[..], "", "")), 4);
        assert_eq!(code(options, |b| b.add_ptx(arch("sm_80"), PTX, "", "-O3 --uumn")), 17);
        assert_eq!(code(options, |b| b.add_cubin(arch("sm_80"), &b""[..], "")), 11);
        assert_eq!(code(options, |b| b.add_cubin(arch("sm_80"), &b"x"[..], "")), 3);
        assert_eq!(code(options, |b| b.add_ltoir(arch("sm_80"), &b"\xed\x43"[..], "", "")), 10);
        assert_eq!(code(options, |b| b.add_ltoir(arch("sm_80"), &LTOIR[..20], "", "")), 1);
        assert_eq!(code(options, |b| b.add_tile_ir(&TILE_IR[..13], "", "")), 1);
        assert_eq!(code(options, |b| b.add_relocatable(b"\x7fELF and no more")), 1);
    }
    assert_eq!(FatbinError::text_of(0), None);
    assert_eq!(FatbinError::text_of(11), Some(c"empty input"));
    assert_eq!([18, -1].map(FatbinError::text_of), [Some(c"unknown error"); 2]);
}

#[test]
fn threads_make_no_difference() {
    let build = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| {
            let mut builder = FatbinBuilder::new(BuilderOptions::parse(["-compress-all"]).expect("options"));
            for index in 0..40u32 {
                let ptx = format!(
                    ".version 8.0\n.target sm_80\n.address_size 64\n// {index}\n.const .b8 x{index}[{index}];\n"
                );
                builder.add_ptx(arch("sm_80"), ptx.into_bytes(), "", "").expect("PTX");
                builder.add_cubin(arch("sm_90"), samples::cubin(arch("sm_90"), index % 2 == 0), "").expect("a cubin");
            }
            let mut streamed = Vec::new();
            builder.clone().write_to(&mut streamed).expect("memory takes all bytes");
            let whole = builder.finish().expect("small images");
            assert_eq!(streamed, whole);
            whole
        })
    };
    let one = build(1);
    for threads in [2, 5] {
        assert_eq!(build(threads), one);
    }
}
