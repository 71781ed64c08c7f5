//! Our fatbins are, byte for byte, those of NVIDIA's `fatbinary` 13.0.

use std::path::Path;

use offload_bundle::GpuArch;
use offload_bundle::fatbin::{self, BuilderOptions, CompressMode, FatbinWriter, Host};

use crate::tools;

/// What one entry is made of, for both writers.
enum Image {
    Cubin(Vec<u8>),
    Ptx(String),
}

struct Input {
    image: Image,
    arch: GpuArch,
    identifier: &'static str,
    options: &'static str,
}

impl Input {
    fn cubin(arch: &str, bytes: Vec<u8>) -> Self {
        Self { image: Image::Cubin(bytes), arch: arch.parse().expect("an architecture"), identifier: "", options: "" }
    }

    fn ptx(arch: &str, text: String) -> Self {
        Self { image: Image::Ptx(text), arch: arch.parse().expect("an architecture"), identifier: "", options: "" }
    }
}

fn ours(options: BuilderOptions, inputs: &[Input]) -> Vec<u8> {
    let mut writer = FatbinWriter::new(options);
    for input in inputs {
        match &input.image {
            Image::Cubin(bytes) => writer.add_cubin(input.arch, bytes, input.identifier),
            Image::Ptx(text) => writer.add_ptx(input.arch, text.as_bytes(), input.identifier, input.options),
        }
        .expect("a sound input");
    }
    let mut streamed = Vec::new();
    writer.write_to(&mut streamed).expect("memory takes all bytes");
    assert_eq!(streamed.len() as u64, writer.size());
    assert_eq!(streamed, writer.finish());
    streamed
}

/// The result of `fatbinary`; names and options hold for all its inputs.
fn theirs(dir: &Path, flags: &[&str], inputs: &[Input]) -> Vec<u8> {
    let out = dir.join("sample.fatbin");
    let mut args: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
    args.push(format!("--create={}", out.display()));
    for (index, input) in inputs.iter().enumerate() {
        let (kind, bytes) = match &input.image {
            Image::Cubin(bytes) => ("elf", bytes.as_slice()),
            Image::Ptx(text) => ("ptx", text.as_bytes()),
        };
        let file = dir.join(format!("{index}.{kind}"));
        std::fs::write(&file, bytes).expect("an input is written");
        let arch = input.arch.to_string();
        let sm = arch.trim_start_matches("sm_");
        args.push(format!("--image3=kind={kind},sm={sm},file={}", file.display()));
        if !input.identifier.is_empty() {
            args.push(format!("--ident={}", input.identifier));
        }
        if !input.options.is_empty() {
            args.push(format!("--cmdline={}", input.options));
        }
    }
    tools::run(&tools::cuda("fatbinary"), &args);
    std::fs::read(&out).expect("fatbinary wrote a fatbin")
}

fn assert_same(what: &str, ours: &[u8], theirs: &[u8]) {
    let first = ours.iter().zip(theirs).position(|(a, b)| a != b);
    assert!(
        ours == theirs,
        "{what}: {} bytes of ours and {} of theirs differ, first at {:?}",
        ours.len(),
        theirs.len(),
        first.unwrap_or(ours.len().min(theirs.len()))
    );
}

fn min_ptx(arch: &str) -> String {
    arch.parse::<GpuArch>().expect("an architecture").min_ptx().to_string()
}

#[test]
fn cubins_of_all_targets() {
    let dir = tempfile::tempdir().expect("a folder");
    for arch in tools::TARGETS {
        let (whole, part) = (tools::whole_ptx(&min_ptx(arch), arch), tools::sample_ptx(&min_ptx(arch), arch));
        let inputs = [
            Input::cubin(arch, tools::ptxas(dir.path(), &whole, arch, &[])),
            Input::cubin(arch, tools::ptxas(dir.path(), &part, arch, &["-c"])),
        ];
        let options = BuilderOptions::default();
        assert_same(arch, &ours(options, &inputs), &theirs(dir.path(), &["-64"], &inputs));
        let options = BuilderOptions { compress_all: true, ..options };
        let flags = ["-64", "--compress-all"];
        assert_same(arch, &ours(options, &inputs), &theirs(dir.path(), &flags, &inputs));
    }
}

#[test]
fn ptx_of_all_targets() {
    let dir = tempfile::tempdir().expect("a folder");
    for arch in tools::TARGETS {
        let inputs = [Input::ptx(arch, tools::whole_ptx(&min_ptx(arch), arch))];
        let options = BuilderOptions::default();
        assert_same(arch, &ours(options, &inputs), &theirs(dir.path(), &["-64"], &inputs));
    }
}

#[test]
fn several_entries_with_a_name_and_options() {
    let dir = tempfile::tempdir().expect("a folder");
    for (identifier, options) in [("kernel.cu", ""), ("12345678", "--compile-only  "), ("", "-O3 --fmad=false")] {
        let mut inputs = Vec::new();
        for arch in ["sm_100a", "sm_90", "sm_80"] {
            let ptx = tools::whole_ptx(&min_ptx(arch), arch);
            inputs.push(Input::cubin(arch, tools::ptxas(dir.path(), &ptx, arch, &[])));
            inputs.push(Input::ptx(arch, ptx));
        }
        for input in &mut inputs {
            (input.identifier, input.options) = (identifier, options);
        }
        let theirs = theirs(dir.path(), &["-64"], &inputs);
        assert_same(identifier, &ours(BuilderOptions::default(), &inputs), &theirs);
    }
}

#[test]
fn option_variants() {
    let dir = tempfile::tempdir().expect("a folder");
    let ptx = tools::whole_ptx("9.0", "sm_103a");
    let inputs = [
        Input::cubin("sm_103a", tools::ptxas(dir.path(), &ptx, "sm_103a", &["-lineinfo"])),
        Input::ptx("sm_103a", ptx),
    ];
    let default = BuilderOptions::default();
    let variants: [(&[&str], BuilderOptions); 5] = [
        (&["-64", "-g"], BuilderOptions { debug: true, ..default }),
        (&["-64", "--compress=false"], BuilderOptions { compress: false, ..default }),
        (&["-64", "-g", "--compress=false"], BuilderOptions { debug: true, compress: false, ..default }),
        (&["-64", "--compress-mode=size"], BuilderOptions { mode: CompressMode::Size, ..default }),
        (&["-64", "--compress-mode=balance"], default),
    ];
    for (flags, options) in variants {
        assert_same(&flags.join(" "), &ours(options, &inputs), &theirs(dir.path(), flags, &inputs));
    }
    assert_eq!(default.host, Host::Linux);
}

/// NVIDIA's encoder of LZ4 is its own: the entries and their contents are equal, the compressed bytes are not.
#[test]
fn lz4_of_the_mode_speed() {
    let dir = tempfile::tempdir().expect("a folder");
    let ptx = tools::whole_ptx("9.0", "sm_90");
    let inputs =
        [Input::cubin("sm_90", tools::ptxas(dir.path(), &ptx, "sm_90", &["-lineinfo"])), Input::ptx("sm_90", ptx)];
    for (flags, compress_all) in
        [(&["-64", "--compress-mode=speed"][..], false), (&["-64", "--compress-mode=speed", "--compress-all"], true)]
    {
        let ours =
            ours(BuilderOptions { compress_all, mode: CompressMode::Speed, ..BuilderOptions::default() }, &inputs);
        let theirs = theirs(dir.path(), flags, &inputs);
        let described = |fatbin: &[u8]| {
            let entries = fatbin::read(fatbin).expect("a sound fatbin");
            let described = entries.iter().map(|entry| {
                let payload = entry.payload().expect("a sound payload").into_owned();
                (entry.kind, entry.arch, entry.flags, entry.compression, entry.uncompressed_size, payload)
            });
            described.collect::<Vec<_>>()
        };
        assert_eq!(described(&ours), described(&theirs), "{flags:?}");
    }
}

#[test]
fn no_entries() {
    let dir = tempfile::tempdir().expect("a folder");
    assert_same("empty", &ours(BuilderOptions::default(), &[]), &theirs(dir.path(), &["-64"], &[]));
}

/// Texts made of the pieces that the rules of squeezing are about, the same ones on every run.
#[test]
fn squeezed_ptx() {
    const PIECES: [&str; 18] = [
        " ", "  ", "\t", "\n", "\r\n", "\x0b", "\x0c", "//", "// a  b", "/*", "*/", "/*/", "\"", "\\\"", "\\", "/",
        "*", "add",
    ];
    let dir = tempfile::tempdir().expect("a folder");
    let mut state = 0x9e37_79b9_u32;
    for round in 0..150 {
        let mut text = String::from("\n.version 8.0\n");
        for _ in 0..round % 40 + 3 {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            text.push_str(PIECES[(state >> 16) as usize % PIECES.len()]);
        }
        let inputs = [Input::ptx("sm_90", text.clone())];
        let options = BuilderOptions { compress: false, ..BuilderOptions::default() };
        let theirs = theirs(dir.path(), &["-64", "--compress=false"], &inputs);
        assert_same(&format!("{text:?}"), &ours(options, &inputs), &theirs);
    }
}
