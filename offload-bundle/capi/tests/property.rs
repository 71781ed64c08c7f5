//! Random fatbins, built by NVIDIA's `fatbinary` and nvFatbin of CUDA 13.0, by nvFatbin 12.9 and 13.5, by our builder and by our C library: all
//! the same, byte for byte, but for compressed LTO-IR, which NVIDIA scrambles, and LZ4, which another encoder makes.
//!
//! The cases are the same on every run. `FATLINK_PROPERTY_CASES` says how many; more take longer and find more.

mod library;
#[path = "library/nvjitlink.rs"]
mod nvjitlink;
#[path = "../../tests/tools/mod.rs"]
mod tools;

use std::path::{Path, PathBuf};
use std::process::Command;

use library::{Library, nvidia_12, nvidia_13, nvidia_13_5, ours};
use offload_bundle::fatbin::{
    BuilderOptions, Compression, EntryKind, FatbinBuilder, FatbinEntry, Validation, read, squeeze,
};
use offload_bundle::{ArchFeature, GpuArch};

/// The targets of the cubins.
const TARGETS: [&str; 10] =
    ["sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_103f", "sm_120"];

const DEFAULT_CASES: usize = 500;

/// A generator of numbers that is the same everywhere (xorshift64*).
struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize % limit
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn pick<'t, T>(&mut self, from: &'t [T]) -> &'t T {
        &from[self.below(from.len())]
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Cubin,
    Ptx,
    Ltoir,
}

/// An image with what it may be labelled.
struct Image {
    kind: Kind,
    bytes: Vec<u8>,
    /// The number of a cubin's target.
    number: u32,
    file: PathBuf,
}

/// One entry of a case.
struct Input<'i> {
    image: &'i Image,
    arch: GpuArch,
    name: Option<String>,
    options: Option<String>,
}

/// All the images, made by the real tools.
fn images(dir: &Path) -> Vec<Image> {
    let mut images = Vec::new();
    let mut add = |kind, bytes: Vec<u8>, number| {
        let file = dir.join(format!("{}.image", images.len()));
        // `fatbinary` hands a text's file over with a NUL of its own.
        std::fs::write(&file, bytes.strip_suffix(&[0]).filter(|_| kind == Kind::Ptx).unwrap_or(&bytes))
            .expect("an image");
        images.push(Image { kind, bytes, number, file });
    };
    for target in TARGETS {
        let arch: GpuArch = target.parse().expect("an architecture");
        let version = arch.min_ptx().to_string();
        let (whole, part) = (tools::whole_ptx(&version, target), tools::sample_ptx(&version, target));
        add(Kind::Cubin, tools::ptxas(dir, &whole, target, &[]), arch.number);
        add(Kind::Cubin, tools::ptxas(dir, &part, target, &["-c", "-lineinfo"]), arch.number);
        // A NUL at the end is what a C program hands over.
        add(Kind::Ptx, whole.into_bytes(), arch.number);
        add(Kind::Ptx, (part + "\0").into_bytes(), arch.number);
    }
    for text in [
        "\n.version 8.0\n",
        "// .version 7.4 x\r\n.version 8.0\r\n\t  \"a  // b\" /* c\n */ d\n",
        "//\n.version 6.5 // open",
    ] {
        add(Kind::Ptx, text.as_bytes().to_vec(), 80);
    }
    for (number, target) in [(80, "80"), (90, "90")] {
        let (source, output) = (dir.join("l.cu"), dir.join("l.ltoir"));
        let code = format!("extern \"C\" __device__ int triple{target}(int x) {{ return 3 * x; }}\n");
        std::fs::write(&source, code).expect("a source");
        let mut nvcc = Command::new(tools::cuda("nvcc"));
        let codes = format!("arch=compute_{target},code=lto_{target}");
        nvcc.args(["-gencode", &codes, "-ltoir", "-dc", "-o"]).arg(&output).arg(&source);
        assert!(nvcc.status().expect("nvcc starts").success());
        add(Kind::Ltoir, std::fs::read(&output).expect("nvcc wrote LTO-IR"), number);
    }
    images
}

fn text(random: &mut Random) -> Option<String> {
    const TEXTS: [&str; 8] = [
        "",
        "a.cu",
        "12345678",
        "1234567",
        "a name with blanks.cu",
        "größe.cu",
        "--compile-only  ",
        "-O3 --fmad=false",
    ];
    (!random.one_in(3)).then(|| (*random.pick(&TEXTS)).to_owned())
}

fn inputs<'i>(random: &mut Random, images: &'i [Image]) -> Vec<Input<'i>> {
    let count = random.below(6);
    let input = |random: &mut Random| {
        let image = random.pick(images);
        let feature =
            *random.pick(&[ArchFeature::Plain, ArchFeature::Plain, ArchFeature::Family, ArchFeature::Accelerated]);
        let number = match image.kind {
            Kind::Cubin => image.number,
            Kind::Ptx | Kind::Ltoir => *random.pick(&[image.number, 75, 90, 103, 1000]),
        };
        Input { image, arch: GpuArch { number, feature }, name: text(random), options: text(random) }
    };
    (0..count).map(|_| input(random)).collect()
}

/// Options that nvFatbin takes, of all groups.
fn options(random: &mut Random) -> Vec<&'static str> {
    const GROUPS: [&[&str]; 7] = [
        &["-64", "-64"],
        &["-g"],
        &["-c"],
        &["-compress=true", "-compress=false"],
        &["-compress-all"],
        &[
            "-compress-mode=default",
            "-compress-mode=size",
            "-compress-mode=balance",
            "-compress-mode=none",
            "-compress-mode=speed",
        ],
        &["-host=linux", "-host=windows", "-host=mac", "-cuda", "-opencl"],
    ];
    let mut words = Vec::new();
    for group in GROUPS {
        if random.one_in(3) {
            words.push(*random.pick(group));
        }
    }
    // The order says nothing.
    if words.len() > 1 && random.one_in(2) {
        words.reverse();
    }
    words
}

/// The name without the prefix, as nvFatbin takes it.
fn short(arch: GpuArch) -> String {
    format!("{}{}", arch.number, arch.suffix())
}

fn by_library(library: &Library, words: &[&str], inputs: &[Input<'_>]) -> Vec<u8> {
    by_library_if(library, words, inputs).expect("good options")
}

/// The same if it takes the options, else its code for that.
fn by_library_if(library: &Library, words: &[&str], inputs: &[Input<'_>]) -> Result<Vec<u8>, i32> {
    let fatbin = library.create(words)?;
    for input in inputs {
        let (arch, code) = (short(input.arch), Some(&input.image.bytes[..]));
        let name = input.name.as_deref().map(str::as_bytes);
        let options = input.options.as_deref().map(str::as_bytes);
        let result = match input.image.kind {
            Kind::Cubin => fatbin.add_cubin(code, Some(&arch), name),
            Kind::Ptx => fatbin.add_ptx(code, Some(&arch), name, options),
            Kind::Ltoir => fatbin.add_ltoir(code, Some(&arch), name, options),
        };
        assert_eq!(result, 0, "{} with {arch}", library.name);
    }
    Ok(fatbin.finish())
}

fn by_builder(words: &[&str], inputs: &[Input<'_>]) -> Vec<u8> {
    let options =
        BuilderOptions { validation: Validation::Nvidia, ..BuilderOptions::parse(words).expect("good options") };
    let mut builder = FatbinBuilder::new(options);
    for input in inputs {
        let bytes = &input.image.bytes[..];
        let name = input.name.as_deref().unwrap_or_default();
        let options = input.options.as_deref().unwrap_or_default();
        let added = match input.image.kind {
            Kind::Cubin => builder.add_cubin(input.arch, bytes, name),
            Kind::Ptx => builder.add_ptx(input.arch, bytes, name, options),
            Kind::Ltoir => builder.add_ltoir(input.arch, bytes, name, options),
        };
        added.expect("a sound image");
    }
    builder.finish().expect("small images")
}

/// `fatbinary` has one name and one text of options for all entries; it wants them where there is an entry.
fn by_fatbinary(dir: &Path, words: &[&str], inputs: &[Input<'_>]) -> Vec<u8> {
    let out = dir.join("theirs.fatbin");
    // Its short options have one dash, its long ones two.
    let spelled = |word: &&str| if word.len() > 3 { format!("-{word}") } else { (*word).to_owned() };
    let mut arguments: Vec<String> = words.iter().map(spelled).collect();
    arguments.push(format!("--create={}", out.display()));
    for input in inputs {
        let kind = match input.image.kind {
            Kind::Cubin => "elf",
            Kind::Ptx => "ptx",
            Kind::Ltoir => "nvvm",
        };
        arguments.push(format!("--image3=kind={kind},sm={},file={}", short(input.arch), input.image.file.display()));
    }
    if let Some(first) = inputs.first() {
        let named = [("--ident", &first.name), ("--cmdline", &first.options), ("--cicc-cmdline", &first.options)];
        for (option, value) in named {
            if let Some(value) = value.as_ref().filter(|value| !value.is_empty()) {
                arguments.push(format!("{option}={value}"));
            }
        }
    }
    tools::run(&tools::cuda("fatbinary"), &arguments);
    std::fs::read(&out).expect("fatbinary wrote a fatbin")
}

/// Everything of an entry that does not depend on the compressor.
fn essence<'a>(entry: &FatbinEntry<'a>) -> impl PartialEq + std::fmt::Debug + use<'a> {
    const SCRAMBLED: u64 = 0x1_0000;
    let labels = (entry.kind, entry.arch, entry.code_version, entry.flags & !SCRAMBLED, entry.compression);
    (labels, entry.identifier, entry.options, entry.compat, entry.uncompressed_size)
}

/// The same, byte for byte where that is possible, and else by entries.
fn assert_same(what: &str, words: &[&str], mine: &[u8], theirs: &[u8]) {
    if mine == theirs {
        return;
    }
    let (mine, theirs) = (read(mine).expect("ours"), read(theirs).expect("theirs"));
    assert_eq!(mine.len(), theirs.len(), "{what} {words:?}");
    for (mine, theirs) in mine.iter().zip(&theirs) {
        assert_eq!(essence(mine), essence(theirs), "{what} {words:?}");
        let is_scrambled = theirs.kind == EntryKind::LtoIr && theirs.compression != Compression::None;
        match theirs.compression {
            _ if is_scrambled => {}
            Compression::Lz4 => {
                assert_eq!(mine.payload(), theirs.payload().map_err(|_| unreachable!()), "{what} {words:?}");
            }
            _ => assert!(mine.header == theirs.header && mine.stored == theirs.stored, "{what} {words:?}: {mine:?}"),
        }
    }
}

/// What was put in is read back out of NVIDIA's bytes, and written again as they were.
fn assert_reads(bytes: &[u8], inputs: &[Input<'_>]) {
    let entries = read(bytes).expect("NVIDIA's fatbin");
    assert_eq!(entries.len(), inputs.len());
    let mut again = FatbinBuilder::new(BuilderOptions::default());
    for (entry, input) in entries.iter().zip(inputs) {
        assert_eq!(entry.arch, input.arch);
        assert_eq!(entry.identifier.unwrap_or_default(), input.name.as_deref().unwrap_or_default().as_bytes());
        if input.image.kind != Kind::Cubin {
            assert_eq!(entry.options, Some(input.options.as_deref().unwrap_or_default().as_bytes()));
        }
        if input.image.kind != Kind::Ltoir {
            let payload = entry.payload().expect("a sound payload");
            match input.image.kind {
                Kind::Ptx => assert_eq!([&payload[..], &[0]].concat(), squeeze(&input.image.bytes)),
                _ => assert!(payload.starts_with(&input.image.bytes)),
            }
        }
        again.add_entry(entry).expect("an entry that was read");
    }
    assert!(again.finish().expect("entries that were read") == bytes);
}

/// `cuobjdump` lists our entries, and extracts our images.
fn assert_cuobjdump_reads(dir: &Path, bytes: &[u8], inputs: &[Input<'_>]) {
    let file = dir.join("ours.fatbin");
    std::fs::write(&file, bytes).expect("a fatbin is written");
    let extracted = dir.join("extracted");
    std::fs::create_dir_all(&extracted).expect("a folder");
    let mut command = Command::new(tools::cuda("cuobjdump"));
    let output = command
        .args(["-xelf", "all", "-xptx", "all"])
        .arg(&file)
        .current_dir(&extracted)
        .output()
        .expect("cuobjdump starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut found: Vec<Vec<u8>> = Vec::new();
    for entry in std::fs::read_dir(&extracted).expect("the folder") {
        found.push(std::fs::read(entry.expect("a file").path()).expect("a file"));
    }
    for input in inputs.iter().filter(|input| input.image.kind == Kind::Cubin) {
        assert!(found.contains(&input.image.bytes), "a cubin for {} is missing", input.arch);
    }
    std::fs::remove_dir_all(&extracted).expect("the folder goes");
    let listed = tools::run(&tools::cuda("cuobjdump"), ["-all".as_ref(), file.as_os_str()]);
    assert_eq!(listed.matches("code version = ").count(), inputs.len(), "{listed}");
}

#[test]
fn random_fatbins() {
    let dir = tempfile::tempdir().expect("a folder");
    let cases = std::env::var("FATLINK_PROPERTY_CASES").map_or(DEFAULT_CASES, |cases| cases.parse().expect("a number"));
    let images = images(dir.path());
    let (nvidia_13, nvidia_13_5, nvidia_12, ours) = (nvidia_13(), nvidia_13_5(), nvidia_12(), ours());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for case in 0..cases {
        let (words, mut inputs) = (options(&mut random), inputs(&mut random, &images));
        let what = format!("case {case}");
        let theirs = by_library(&nvidia_13, &words, &inputs);
        let mine = by_builder(&words, &inputs);
        assert_same(&format!("{what}, builder"), &words, &mine, &theirs);
        let from_c = by_library(&ours, &words, &inputs);
        assert!(from_c == mine, "{what}: our library and our builder differ, {words:?}");
        assert_reads(&theirs, &inputs);

        let with_concat: Vec<&str> = words.iter().copied().chain(["-concat"]).collect();
        for words in [&words, &with_concat] {
            let [theirs, mine] = [&nvidia_13_5, &ours].map(|library| by_library_if(library, words, &inputs));
            match (theirs, mine) {
                (Ok(theirs), Ok(mine)) => assert_same(&format!("{what}, 13.5"), words, &mine, &theirs),
                (theirs, mine) => assert_eq!(theirs, mine, "{what}, 13.5, {words:?}"),
            }
        }

        let plain: Vec<&str> =
            words.iter().copied().filter(|word| !word.starts_with("-compress")).chain(["-compress=false"]).collect();
        let theirs = by_library(&nvidia_12, &plain, &inputs);
        let as_12: Vec<&str> = plain.iter().copied().chain(["-as=12"]).collect();
        assert!(by_library(&ours, &as_12, &inputs) == theirs, "{what}: nvFatbin 12.9 differs, {plain:?}");

        // One name and one text of options for all.
        if let Some((name, options)) = inputs.first().map(|first| (first.name.clone(), first.options.clone())) {
            inputs.iter_mut().for_each(|input| (input.name, input.options) = (name.clone(), options.clone()));
        }
        let theirs = by_fatbinary(dir.path(), &words, &inputs);
        let mine = by_builder(&words, &inputs);
        assert_same(&format!("{what}, fatbinary"), &words, &mine, &theirs);
        if case % 20 == 0 {
            assert_cuobjdump_reads(dir.path(), &mine, &inputs);
        }
    }
}

/// A cubin of `size` bytes, as padding behind the ELF file is taken for a part of it. What it is padded with is neither all the same nor
/// random, so that a compressor has something to find.
fn padded(cubin: &[u8], size: usize, random: &mut Random) -> Vec<u8> {
    let mut bytes = cubin.to_vec();
    while bytes.len() < size {
        bytes.extend_from_slice(&cubin[random.below(cubin.len())..]);
        bytes.push(random.below(256) as u8);
    }
    bytes.truncate(size);
    bytes
}

/// Cubins of more than 10,000,000 bytes are compressed without being asked to, each for itself, whatever else is in the fatbin.
#[test]
fn large_cubins_are_stored_plain() {
    let dir = tempfile::tempdir().expect("a folder");
    let (nvidia_13, nvidia_12, ours) = (nvidia_13(), nvidia_12(), ours());
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let mut images = Vec::new();
    for (target, args, size) in [
        ("sm_90", &[][..], 10_000_000),
        ("sm_90", &[], 10_000_001),
        ("sm_100a", &["-c"], 10_000_001),
        ("sm_80", &["-lineinfo"], 12_345_678),
        ("sm_80", &[], 4096),
    ] {
        let arch: GpuArch = target.parse().expect("an architecture");
        let ptx = tools::whole_ptx(&arch.min_ptx().to_string(), target);
        let bytes = padded(&tools::ptxas(dir.path(), &ptx, target, args), size, &mut random);
        let file = dir.path().join(format!("{}.image", images.len()));
        std::fs::write(&file, &bytes).expect("an image");
        images.push((arch, Image { kind: Kind::Cubin, bytes, number: arch.number, file }));
    }
    let input = |(arch, image)| Input { image, arch, name: Some("a.cu".to_owned()), options: None };
    let inputs: Vec<Input<'_>> = images.iter().map(|(arch, image)| input((*arch, image))).collect();
    for (words, large, small) in [
        (&[][..], Compression::Zstd, Compression::None),
        (&["-compress-mode=balance"], Compression::Zstd, Compression::None),
        (&["-compress-mode=speed"], Compression::Lz4, Compression::None),
        (&["-compress-mode=none"], Compression::None, Compression::None),
        (&["-compress=false"], Compression::None, Compression::None),
        (&["-compress-all"], Compression::Zstd, Compression::Zstd),
    ] {
        let (theirs, mine) = (by_library(&nvidia_13, words, &inputs), by_builder(words, &inputs));
        assert_same("builder", words, &mine, &theirs);
        let compressions: Vec<_> = read(&mine).expect("ours").iter().map(|entry| entry.compression).collect();
        assert_eq!(compressions, [small, large, large, large, small], "{words:?}");
        assert!(by_library(&ours, words, &inputs) == mine, "our library and our builder differ, {words:?}");
        assert_reads(&theirs, &inputs);
        assert_same("fatbinary", words, &mine, &by_fatbinary(dir.path(), words, &inputs));
    }
    let theirs = by_library(&nvidia_12, &[], &inputs);
    assert_same("nvFatbin 12.9", &["-as=12"], &by_library(&ours, &["-as=12"], &inputs), &theirs);
}

/// NVIDIA scrambles LTO-IR after compressing it; what we only compress, its linkers take all the same.
#[test]
fn compressed_ltoir_links() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = "__global__ void store(int *to) { *to = 42; }\n";
    let (file, output) = (dir.path().join("k.cu"), dir.path().join("k.ltoir"));
    std::fs::write(&file, source).expect("a source");
    let mut nvcc = Command::new(tools::cuda("nvcc"));
    nvcc.args(["-gencode", "arch=compute_90,code=lto_90", "-ltoir", "-dc", "-o"]).arg(&output).arg(&file);
    assert!(nvcc.status().expect("nvcc starts").success());
    let image = std::fs::read(&output).expect("nvcc wrote LTO-IR");
    let root = PathBuf::from(std::env::var_os("CUDA_PATH").expect("CUDA_PATH"));
    let linked =
        ["-compress=false", "-compress-mode=default", "-compress-mode=size", "-compress-mode=speed"].map(|mode| {
            let mut builder = FatbinBuilder::new(BuilderOptions::parse([mode]).expect("good options"));
            builder.add_ltoir(GpuArch::plain(90), &image[..], "k.cu", "").expect("LTO-IR");
            let (fatbin, cubin) = (dir.path().join("k.fatbin"), dir.path().join("k.cubin"));
            let bytes = builder.finish().expect("a small image");
            let in_process = nvjitlink::link(&bytes);
            let kernels = offload_bundle::cubin::parse(&in_process).expect("a cubin").kernels();
            assert_eq!(kernels, ["_Z5storePi"], "{mode}");
            std::fs::write(&fatbin, bytes).expect("a fatbin is written");
            let nvvm = format!("-nvvmpath={}", root.join("nvvm").display());
            let arguments = ["-lto", &nvvm, "-arch=sm_90", "-o"].map(std::ffi::OsStr::new);
            tools::run(&tools::cuda("nvlink"), arguments.into_iter().chain([cubin.as_os_str(), fatbin.as_os_str()]));
            std::fs::read(&cubin).expect("nvlink wrote a cubin")
        });
    let kernels = offload_bundle::cubin::parse(&linked[0]).expect("a cubin").kernels();
    assert_eq!(kernels, ["_Z5storePi"]);
    assert!(linked.iter().all(|cubin| *cubin == linked[0]));
}
