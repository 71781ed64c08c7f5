//! What nvFatbin was seen to do: NVIDIA's library does it, and ours does the same. Each row names the code that both answer with.

mod library;
#[path = "../../tests/tools/mod.rs"]
mod tools;

use std::path::Path;
use std::process::Command;

use library::{Fatbin, Library, nvidia_13, nvidia_13_5, ours};

const PTX: &[u8] = b"\n.version 8.0\n.target sm_80\n.address_size 64\n";

/// Does the same with both libraries and wants the same code, the one expected, and the same bytes.
fn both(what: &str, options: &[&str], expected: i32, work: impl Fn(&Fatbin<'_>) -> i32) {
    let bytes = [nvidia_13(), ours()].map(|library| {
        let fatbin = library.create(options).expect("good options");
        assert_eq!(work(&fatbin), expected, "{what}: {}", library.name);
        fatbin.finish()
    });
    assert!(bytes[0] == bytes[1], "{what}: {} and {} bytes", bytes[0].len(), bytes[1].len());
}

/// The same where the bytes differ: compressed LTO-IR, and PTX that NVIDIA's library keeps though it has just refused it.
fn same_code(what: &str, expected: i32, work: impl Fn(&Fatbin<'_>) -> i32) {
    for library in [nvidia_13(), ours()] {
        assert_eq!(work(&library.create(&[]).expect("no options")), expected, "{what}: {}", library.name);
    }
}

fn add_ptx(text: &[u8], arch: &str) -> impl Fn(&Fatbin<'_>) -> i32 {
    move |fatbin| fatbin.add_ptx(Some(text), Some(arch), None, None)
}

fn add_cubin(image: &[u8], arch: &str) -> impl Fn(&Fatbin<'_>) -> i32 {
    move |fatbin| fatbin.add_cubin(Some(image), Some(arch), None)
}

#[test]
fn architectures() {
    for arch in ["sm_90", "compute_90", "90 ", "90A", "-90", "abc", "90aa", "9 0", "4294967296", "+", " a"] {
        both(arch, &[], 9, add_ptx(PTX, arch));
    }
    for arch in ["", "9", "91", "900", "1000", "90f", "090", " 90", "+90", "\t90a", "4294967295"] {
        both(arch, &[], 0, add_ptx(PTX, arch));
    }
}

#[test]
fn null_pointers_and_nothing() {
    for library in [nvidia_13(), ours()] {
        assert_eq!(library.create_with_nulls(), [5; 3], "{}", library.name);
        assert_eq!(library.destroy_twice(), [5, 0, 5], "{}", library.name);
        assert_eq!(library.without_handle(), [5; 7], "{}", library.name);
        assert_eq!(library.create(&[]).expect("no options").without_place(), [5; 2], "{}", library.name);
    }
    let nothing: [(i32, Call); 11] = [
        (5, |fatbin| fatbin.add_ptx(None, Some("90"), None, None)),
        (5, |fatbin| fatbin.add_ptx(Some(PTX), None, None, None)),
        (5, |fatbin| fatbin.add_ptx(Some(b""), None, None, None)),
        (11, |fatbin| fatbin.add_ptx(Some(b""), Some("sm_90"), None, None)),
        (5, |fatbin| fatbin.add_cubin(None, Some("90"), None)),
        (11, |fatbin| fatbin.add_cubin(Some(b""), Some("90"), None)),
        (11, |fatbin| fatbin.add_ltoir(Some(b""), Some("90"), None, None)),
        (5, |fatbin| fatbin.add_index(None)),
        (11, |fatbin| fatbin.add_index(Some(b""))),
        (5, |fatbin| fatbin.add_reloc(None)),
        (11, |fatbin| fatbin.add_reloc(Some(b""))),
    ];
    for (index, (expected, work)) in nothing.into_iter().enumerate() {
        both(&format!("nothing {index}"), &[], expected, work);
    }
}

#[test]
fn texts() {
    let (theirs, ours) = (nvidia_13(), ours());
    for code in -2..30 {
        assert_eq!(theirs.text_of(code), ours.text_of(code), "{code}");
    }
}

#[test]
fn options() {
    let good: [&[&str]; 17] = [
        &[],
        &["-64"],
        &["-64", "-64"],
        &["-32", "-32"],
        &["-c", "-g"],
        &["-compress=true"],
        &["-compress=false", "-compress=true"],
        &["-compress-all"],
        &["-compress-mode=default"],
        &["-compress-mode=size"],
        &["-compress-mode=speed"],
        &["-compress-mode=balance"],
        &["-compress-mode=none"],
        &["-host=linux"],
        &["-host=windows", "-host=mac"],
        &["-cuda", "-cuda"],
        &["-opencl"],
    ];
    let bad: [&[&str]; 14] = [
        &["-64", "-32"],
        &["-32", "-64"],
        &["-cuda", "-opencl"],
        &["--64"],
        &["-compress"],
        &["-compress=1"],
        &["-compress=TRUE"],
        &[""],
        &[" -64"],
        &["-host=beos"],
        &["-compress-mode=fast"],
        &["-compress-all=true"],
        &["-g", "-G"],
        &["-link"],
    ];
    for library in [nvidia_13(), ours()] {
        for words in good {
            assert!(library.create(words).is_ok(), "{}: {words:?}", library.name);
        }
        for words in bad {
            assert_eq!(library.create(words).err(), Some(8), "{}: {words:?}", library.name);
        }
    }
}

#[test]
fn ptx_is_not_looked_at() {
    let texts: [(&str, &str, i32); 20] = [
        ("\n.version 8.0\n.target sm_100\n", "90", 0),
        ("\n.version 8.0\n.target sm_90a\n", "100", 0),
        ("\n.version 8.0\n", "90", 0),
        ("\n.version 8.0\n.target beos\n", "90", 0),
        ("\n.version 8.0\n.target sm_90\n.address_size 32\n", "90", 0),
        ("\n.target sm_90\n", "90", 4),
        ("\n.version 9\n", "90", 4),
        ("\n.version 9.\n", "90", 4),
        ("\n.version -1.1\n", "90", 4),
        ("\n.version 9 .1\n", "90", 4),
        ("\n.version 99.12\n", "90", 0),
        ("\n.version .9\n", "90", 0),
        ("\n.version 70000.1\n", "90", 0),
        ("\n.version 99999999999999999999.1\n", "90", 0),
        ("// .version 7.1\n.version 8.0\n", "90", 0),
        ("\nx.version8.1", "90", 0),
        ("\n.versionx 8.1", "90", 4),
        ("\0.version 8.1", "90", 4),
        ("\n.version 8.1\0\n  more", "90", 0),
        ("x", "90", 11),
    ];
    for (text, arch, expected) in texts {
        both(text, &["-compress=false"], expected, add_ptx(text.as_bytes(), arch));
    }
    let with = |options: &'static str| {
        move |fatbin: &Fatbin<'_>| fatbin.add_ptx(Some(PTX), Some("90"), Some(b"name"), Some(options.as_bytes()))
    };
    for options in ["-uumn", "-O3 --uumnx", "-ext-desc-file=x", "x-ext-desc-string"] {
        same_code(options, 17, with(options));
    }
    for options in ["-uum", "uumn", "--foo  -O9"] {
        both(options, &[], 0, with(options));
    }
}

fn cubin(dir: &Path, arch: &str) -> Vec<u8> {
    let version = arch.parse::<offload_bundle::GpuArch>().expect("an architecture").min_ptx().to_string();
    tools::ptxas(dir, &tools::whole_ptx(&version, arch), arch, &[])
}

#[test]
fn of_cubins_four_fields_count() {
    let dir = tempfile::tempdir().expect("a folder");
    let (plain, special) = (cubin(dir.path(), "sm_90"), cubin(dir.path(), "sm_100a"));
    let patched = |at: usize, byte: u8| {
        let mut image = plain.clone();
        image[at] = byte;
        image
    };
    let cut_off = |len: usize| plain[..len].to_vec();
    let host = std::fs::read("/bin/true").expect("a host program");
    let cases: [(&str, Vec<u8>, &str, i32); 18] = [
        ("right", plain.clone(), "90", 0),
        ("suffix", plain.clone(), "90a", 0),
        ("suffix", plain.clone(), "90f", 0),
        ("other", plain.clone(), "80", 2),
        ("none", plain.clone(), "", 2),
        ("100a as 100", special.clone(), "100", 0),
        ("100a as 100f", special.clone(), "100f", 0),
        ("100a as 100a", special.clone(), "100a", 0),
        ("100a as 103", special, "103", 2),
        ("junk behind", [&plain[..], b"junk"].concat(), "90", 0),
        ("magic", patched(0, b'x'), "90", 0),
        ("class 32", patched(4, 1), "90", 3),
        ("byte order", patched(5, 2), "90", 0),
        ("abi version", patched(8, 9), "90", 0),
        ("type", patched(16, 9), "90", 0),
        ("machine", patched(18, 62), "90", 0),
        ("no ELF", vec![b'x'; 100], "90", 3),
        ("host ELF", host, "90", 2),
    ];
    for (what, image, arch, expected) in cases {
        both(what, &["-compress-all"], expected, add_cubin(&image, arch));
    }
    both("64-bit cubin, 32-bit host", &["-32"], 3, add_cubin(&plain, "90"));
    // Behind the end of these NVIDIA's library reads whatever its heap holds, and answers by that, or crashes.
    let library = ours();
    for (len, expected) in [(1, 3), (5, 2), (40, 2), (64, 0)] {
        let fatbin = library.create(&["-compress-all"]).expect("good options");
        assert_eq!(add_cubin(&cut_off(len), "90")(&fatbin), expected, "{len} bytes");
    }
}

fn ltoir(dir: &Path) -> Vec<u8> {
    let (source, image) = (dir.join("lto.cu"), dir.join("lto.ltoir"));
    std::fs::write(&source, "extern \"C\" __device__ int triple(int x) { return 3 * x; }\n").expect("a source");
    let mut nvcc = Command::new(tools::cuda("nvcc"));
    nvcc.args(["-gencode", "arch=compute_90,code=lto_90", "-ltoir", "-dc", "-o"]).arg(&image).arg(&source);
    assert!(nvcc.status().expect("nvcc starts").success());
    std::fs::read(&image).expect("nvcc wrote LTO-IR")
}

#[test]
fn ltoir_and_index() {
    let dir = tempfile::tempdir().expect("a folder");
    let good = ltoir(dir.path());
    let mut bad_magic = good.clone();
    bad_magic[0] = b'x';
    let mut version_200 = good.clone();
    version_200[4] = 200;
    let cases: [(&str, Vec<u8>, i32); 9] = [
        ("right", good.clone(), 0),
        ("3 bytes", good[..3].to_vec(), 10),
        ("7 bytes", good[..7].to_vec(), 10),
        ("8 bytes", good[..8].to_vec(), 1),
        ("40 bytes", good[..40].to_vec(), 1),
        ("half", good[..good.len() / 2].to_vec(), 0),
        ("magic", bad_magic, 0),
        ("version", version_200, 0),
        ("text", vec![b'x'; 100], 1),
    ];
    let add = |image: &[u8], options: &'static [u8]| {
        let image = image.to_vec();
        move |fatbin: &Fatbin<'_>| fatbin.add_ltoir(Some(&image), Some("90"), None, Some(options))
    };
    for (what, image, expected) in &cases {
        same_code(what, *expected, add(image, b""));
        // The header is read to compress it only.
        let expected = if *expected == 10 { 10 } else { 0 };
        both(what, &["-compress=false"], expected, add(image, b""));
    }
    for options in [&b"-O2"[..], b"-foo", b"-uumn"] {
        both("options", &["-compress=false"], 0, add(&good, options));
    }
    for image in [&b"x"[..], &good, b"\x7fELF", &[0; 200]] {
        both("index", &[], 15, |fatbin| fatbin.add_index(Some(image)));
    }
}

/// An object of `nvcc -rdc=true` for these targets.
fn object(dir: &Path, name: &str, code: &str) -> Vec<u8> {
    let (source, object) = (dir.join(format!("{name}.cu")), dir.join(format!("{name}.o")));
    let text = format!("__device__ int v_{name}; __global__ void k_{name}(int x) {{ v_{name} = x; }}\n");
    std::fs::write(&source, text).expect("a source");
    let mut nvcc = Command::new(tools::cuda("nvcc"));
    nvcc.args(["-dc", "-gencode", &format!("arch=compute_90,code={code}"), "-o"]).arg(&object).arg(&source);
    assert!(nvcc.status().expect("nvcc starts").success());
    std::fs::read(&object).expect("nvcc wrote an object")
}

#[test]
fn host_objects() {
    let dir = tempfile::tempdir().expect("a folder");
    let with_ptx = object(dir.path(), "a", "[sm_90,compute_90]");
    let sass_alone = object(dir.path(), "b", "sm_90");
    let lto_alone = object(dir.path(), "c", "lto_90");
    let program = std::fs::read("/bin/true").expect("a host program");
    let cases: [(&str, &[u8], i32); 9] = [
        ("with PTX", &with_ptx, 0),
        ("cubin alone", &sass_alone, 0),
        ("LTO-IR alone", &lto_alone, 0),
        ("program", &program, 0),
        ("PTX text", &[PTX, PTX].concat(), 1),
        ("15 bytes", &with_ptx[..15], 11),
        ("16 bytes", &with_ptx[..16], 1),
        ("half", &with_ptx[..with_ptx.len() / 2], 1),
        ("text", &[b'x'; 100], 1),
    ];
    for (what, image, expected) in cases {
        both(what, &[], expected, |fatbin| fatbin.add_reloc(Some(image)));
    }
    both("twice", &["-compress=false"], 16, |fatbin| {
        assert_eq!(fatbin.add_reloc(Some(&with_ptx)), 0);
        fatbin.add_reloc(Some(&with_ptx))
    });
    both("other entries stand in front", &["-g"], 0, |fatbin| {
        assert_eq!(fatbin.add_reloc(Some(&with_ptx)), 0);
        fatbin.add_ptx(Some(PTX), Some("90"), Some(b"name"), None)
    });
}

#[test]
fn duplicates_are_kept() {
    both("twice", &[], 0, |fatbin| add_ptx(PTX, "90")(fatbin) + add_ptx(PTX, "90")(fatbin));
}

/// NVIDIA's 13.5 and ours: the same codes, and the same bytes.
#[test]
fn tile_ir() {
    let long: Vec<u8> =
        b"\x7fTileIR\0\x0d\x01\0\0".iter().copied().chain((0..5000u32).map(|at| (at * at / 8) as u8)).collect();
    let images: [(&[u8], i32); 9] = [
        (b"", 11),
        (b"garbage that is long enough", 1),
        (b"\x7fTileIR", 1),
        (b"\x7fTileIS\0\x0d\x01\0\0 and so on", 1),
        (b"\x7fTileIR\0\x01", 1),
        (b"\x7fTileIR\0\x0d\x01\0\0x", 1),
        (b"\x7fTileIR\0\x0d\x01\0\0xy", 0),
        (b"\x7fTileIR\0\x01\x02\x03\x04 and so on", 0),
        (&long, 0),
    ];
    // Name and options.
    let texts: [Option<[&[u8]; 2]>; 4] =
        [None, Some([b"12345678", b""]), Some([b"VectorAdd", b"-O3 -g"]), Some([b"n", b"-uumn"])];
    for option in
        ["-64", "-compress=false", "-compress-all", "-compress-mode=size", "-g", "-32", "-cuda", "-host=windows"]
    {
        for (at, (image, expected)) in images.iter().enumerate() {
            let text = texts[at % texts.len()];
            let [theirs, ours] = [nvidia_13_5(), ours()].map(|library| {
                let fatbin = library.create(&[option]).expect("good options");
                let code =
                    fatbin.add_tile_ir(Some(*image), text.map(|[name, _]| name), text.map(|[_, options]| options));
                assert_eq!(code, Some(*expected), "{option}, image {at}: {}", library.name);
                fatbin.finish()
            });
            assert!(theirs == ours, "{option}, image {at}: {} and {} bytes", theirs.len(), ours.len());
        }
    }
}

#[test]
fn a_library_with_tile_ir_has_a_newer_version() {
    for library in [nvidia_13_5(), ours()] {
        assert_eq!(library.version(), (0, 13, 5), "{}", library.name);
        let fatbin = library.create(&[]).expect("no options");
        assert_eq!(fatbin.add_tile_ir(None, None, None), Some(5), "{}", library.name);
    }
    assert_eq!(nvidia_13().create(&[]).expect("no options").add_tile_ir(None, None, None), None);
}

/// NVIDIA's 13.5 and ours: concatenations are compressed.
#[test]
fn what_excludes_concatenations() {
    for (word, expected) in [("-compress=false", 8), ("-compress-mode=none", 8), ("-compress-all", 0), ("-g", 0)] {
        for words in [["-concat", word], [word, "-concat"]] {
            for library in [nvidia_13_5(), ours()] {
                let code = library.create(&words).err().unwrap_or(0);
                assert_eq!(code, expected, "{words:?}, {}", library.name);
            }
        }
    }
}

/// A call of a session.
type Call = fn(&Fatbin<'_>) -> i32;

#[test]
fn order_of_calls() {
    const GET: Call = |fatbin| fatbin.get_into(&mut [0; 4096]);
    const SIZE: Call = |fatbin| fatbin.size().0;
    const ADD: Call = |fatbin| fatbin.add_ptx(Some(PTX), Some("80"), None, None);
    const REFUSED: Call = |fatbin| fatbin.add_ptx(Some(b"no PTX"), Some("80"), None, None);
    const NO_ARCH: Call = |fatbin| fatbin.add_ptx(Some(PTX), Some("x"), None, None);
    let calls = [
        (GET, 1),
        (SIZE, 0),
        (GET, 0),
        (GET, 0),
        (ADD, 0),
        (GET, 1),
        (SIZE, 0),
        (REFUSED, 4),
        (GET, 0),
        (NO_ARCH, 9),
        (GET, 0),
        (SIZE, 0),
        (ADD, 0),
        (SIZE, 0),
        (GET, 0),
    ];
    both("calls", &[], 0, |fatbin| {
        for (index, (call, expected)) in calls.into_iter().enumerate() {
            assert_eq!(call(fatbin), expected, "call {index}");
        }
        0
    });
}

#[test]
fn closed_while_its_threads_wait() {
    for _ in 0..8 {
        let library = ours();
        let fatbin = library.create(&[]).expect("no options");
        for arch in ["80", "86", "89", "90"] {
            let text = [PTX, "ret;\n".repeat(100_000).as_bytes()].concat();
            assert_eq!(add_ptx(&text, arch)(&fatbin), 0);
        }
        fatbin.finish();
        drop(fatbin);
        // This closes it, and then its threads get some time.
        drop(library);
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
}

/// Only ours: what `-strict` refuses.
#[test]
fn strict() {
    let dir = tempfile::tempdir().expect("a folder");
    let library: Library = ours();
    let fatbin = library.create(&["-strict"]).expect("our own option");
    let ptx = |text: &str, arch: &str| fatbin.add_ptx(Some(text.as_bytes()), Some(arch), None, None);
    assert_eq!(ptx(".version 8.0\n.target sm_100\n", "90"), 13);
    assert_eq!(ptx(".version 8.0\n", "90"), 12);
    assert_eq!(ptx(".version 8.0\n.target sm_80\n.address_size 32\n", "90"), 3);
    assert_eq!(ptx(".version 8.0\n.target sm_80\n", "90"), 0);
    let image = cubin(dir.path(), "sm_90a");
    assert_eq!(fatbin.add_cubin(Some(&image), Some("90"), None), 2);
    assert_eq!(fatbin.add_cubin(Some(&image[..image.len() / 2]), Some("90a"), None), 3);
    assert_eq!(fatbin.add_ltoir(Some(&[b'x'; 100]), Some("90"), None, None), 10);
    assert_eq!(fatbin.add_reloc(Some(&std::fs::read("/bin/true").expect("a host program"))), 14);
}
