//! Our bundles are, byte for byte, those of `clang-offload-bundler` 22; compressed ones, each reads the other's.

use std::path::Path;
use std::process::Command;

use offload_bundle::hip_bundle::{
    BundleId, CompressedMethod, CompressedVersion, HIP_ALIGNMENT, compress, inflate, read_all, write,
};

use crate::tools;

const HOST: &str = "host-x86_64-unknown-linux-gnu-";
const TARGETS: [&str; 3] = [
    "hip-amdgcn-amd-amdhsa--gfx90a:sramecc-:xnack+",
    "hipv4-amdgcn-amd-amdhsa--gfx1030",
    "hip-spirv64-amd-amdhsa--amdgcnspirv",
];

/// Images of different sizes, some of which compress well.
fn images() -> [Vec<u8>; 3] {
    [
        vec![7; 5000],
        b"\x7fELF and so on".to_vec(),
        (0..3000u32).flat_map(|number| (number * number).to_le_bytes()).collect(),
    ]
}

fn bundler(dir: &Path, arguments: &[&str], version: &str) -> Vec<u8> {
    let out = dir.join("theirs.hipfb");
    let mut command = Command::new(tools::llvm("clang-offload-bundler"));
    command.arg("-type=o").arg(format!("-targets={HOST},{}", TARGETS.join(","))).args(arguments);
    command.arg("-input=/dev/null").env("COMPRESSED_BUNDLE_FORMAT_VERSION", version);
    for (index, image) in images().iter().enumerate() {
        let file = dir.join(format!("{index}.o"));
        std::fs::write(&file, image).expect("an image is written");
        command.arg(format!("-input={}", file.display()));
    }
    let status = command.arg(format!("-output={}", out.display())).status().expect("the bundler starts");
    assert!(status.success());
    std::fs::read(&out).expect("the bundler wrote a file")
}

fn ours(alignment: u64) -> Vec<u8> {
    let images = images();
    let given: Vec<(&str, &[u8])> =
        [(HOST, &[][..])].into_iter().chain(TARGETS.into_iter().zip(images.iter().map(Vec::as_slice))).collect();
    write(&given, alignment)
}

#[test]
fn plain_bundles_are_the_same() {
    let dir = tempfile::tempdir().expect("a folder");
    for (arguments, alignment) in [(&[][..], 1), (&["-bundle-align=64"], 64), (&["-bundle-align=4096"], HIP_ALIGNMENT)]
    {
        let theirs = bundler(dir.path(), arguments, "2");
        assert!(ours(alignment) == theirs, "{alignment}");
        let entries = read_all(&theirs).expect("a sound bundle");
        let ids: Vec<String> = entries.iter().filter_map(|e| BundleId::parse(e.id)).map(|id| id.to_string()).collect();
        assert_eq!(ids, [HOST, TARGETS[0], TARGETS[1], TARGETS[2]]);
        for (entry, image) in entries[1..].iter().zip(images()) {
            assert_eq!(entry.image, image);
        }
    }
}

#[test]
fn compressed_bundles_are_read() {
    let dir = tempfile::tempdir().expect("a folder");
    // It writes no version 1 any more.
    for version in ["2", "3"] {
        let theirs = bundler(dir.path(), &["-compress", "-bundle-align=4096"], version);
        assert!(theirs.starts_with(&[b'C', b'C', b'O', b'B', version.as_bytes()[0] - b'0']));
        assert_eq!(*inflate(&theirs).expect("a sound bundle"), ours(HIP_ALIGNMENT), "{version}");
    }
}

#[test]
fn the_bundler_reads_ours() {
    let dir = tempfile::tempdir().expect("a folder");
    let bundle = ours(HIP_ALIGNMENT);
    let (file, out) = (dir.path().join("ours.hipfb"), dir.path().join("out.o"));
    for version in [CompressedVersion::V1, CompressedVersion::V2, CompressedVersion::V3] {
        for method in [CompressedMethod::Zstd(3), CompressedMethod::Zlib(6)] {
            let packed = compress(&bundle, version, method).expect("a small bundle");
            std::fs::write(&file, packed).expect("a bundle is written");
            let (input, output) = (format!("-input={}", file.display()), format!("-output={}", out.display()));
            let targets = format!("-targets={}", TARGETS[0]);
            tools::run(&tools::llvm("clang-offload-bundler"), ["-type=o", "-unbundle", &targets, &input, &output]);
            assert_eq!(std::fs::read(&out).expect("an image"), images()[0], "{version:?} {method:?}");
        }
    }
}
