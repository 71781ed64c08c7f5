//! Our offload binaries are, byte for byte, those of `llvm-offload-binary` 22.

use std::path::Path;

use offload_bundle::offload_binary::{ImageKind, ImageToWrite, OffloadKinds, read_all, write};

use crate::tools;

/// The tool's offload binary of an image with that file extension.
fn theirs(dir: &Path, bytes: &[u8], extension: &str, strings: &str) -> Vec<u8> {
    let (input, out) = (dir.join(format!("input.{extension}")), dir.join("out.bin"));
    std::fs::write(&input, bytes).expect("the input is written");
    let image = format!("--image=file={},{strings}", input.display());
    tools::run(&tools::llvm("llvm-offload-binary"), ["-o".as_ref(), out.as_os_str(), image.as_ref()]);
    std::fs::read(&out).expect("the tool wrote a file")
}

#[test]
fn one_image_of_every_kind() {
    let dir = tempfile::tempdir().expect("a folder");
    let cases = [
        ("o", "kind=openmp,triple=x86_64-pc-linux-gnu,arch=generic", ImageKind::Object, OffloadKinds::OPENMP, 31),
        ("bc", "kind=hip,triple=amdgcn-amd-amdhsa,arch=gfx90a:xnack+", ImageKind::Bitcode, OffloadKinds::HIP, 8),
        ("cubin", "kind=cuda,triple=nvptx64-nvidia-cuda,arch=sm_90a", ImageKind::Cubin, OffloadKinds::CUDA, 4096),
        ("fatbin", "kind=cuda,triple=nvptx64-nvidia-cuda", ImageKind::Fatbin, OffloadKinds::CUDA, 1),
        ("s", "kind=cuda,triple=t,arch=rch,feature=+ptx88,arch2=arch", ImageKind::Ptx, OffloadKinds::CUDA, 9),
        // Strings that end each other share their bytes; empty ones have no bytes of their own.
        ("o", "kind=sycl,triple=abcd,arch=bcd,x=d,cd=xcd,empty=,y=abcd", ImageKind::Object, OffloadKinds::SYCL, 0),
    ];
    for (extension, strings, image_kind, offload_kinds, len) in cases {
        let bytes = vec![0xa5; len];
        let theirs = theirs(dir.path(), &bytes, extension, strings);
        let read = read_all(&theirs).expect("a sound offload binary");
        assert_eq!(read.len(), 1);
        let image = &read[0];
        assert_eq!((image.image_kind, image.offload_kinds), (image_kind, offload_kinds), "{strings}");
        assert_eq!(image.image, bytes, "{strings}");
        for pair in strings.split(',').filter(|pair| !pair.starts_with("kind=")) {
            let (key, value) = pair.split_once('=').expect("a pair");
            assert_eq!(image.get(key), Some(value), "{strings}");
        }
        // The tool's order of strings is that of a hash table, so it is taken over.
        let strings_read = image.strings.clone();
        let ours = write(&ImageToWrite { image_kind, offload_kinds, flags: 0, strings: strings_read, image: &bytes });
        assert!(ours == theirs, "{strings}: {} bytes of ours differ from {} of theirs", ours.len(), theirs.len());
    }
}

#[test]
fn the_tool_extracts_what_we_write() {
    let dir = tempfile::tempdir().expect("a folder");
    let strings = vec![("triple", "nvptx64-nvidia-cuda"), ("arch", "sm_90")];
    let image = ImageToWrite {
        image_kind: ImageKind::Cubin,
        offload_kinds: OffloadKinds::CUDA,
        flags: 0,
        strings,
        image: b"the image",
    };
    let (input, out) = (dir.path().join("input.bin"), dir.path().join("out.cubin"));
    std::fs::write(&input, write(&image)).expect("the input is written");
    let filter = format!("--image=file={},arch=sm_90", out.display());
    tools::run(&tools::llvm("llvm-offload-binary"), [input.as_os_str(), filter.as_ref()]);
    assert_eq!(std::fs::read(&out).expect("the tool wrote a file"), b"the image");
}
