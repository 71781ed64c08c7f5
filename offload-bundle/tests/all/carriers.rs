//! Device code in objects and programs of every kind of host, as clang and lld make them.

use std::path::{Path, PathBuf};

use object::{Object, ObjectSection};
use offload_bundle::host_object::{Carrier, CarrierKind, carriers};
use offload_bundle::{fatbin, hip_bundle, offload_binary};

use crate::tools;

/// Sections with what their names promise.
fn source(dir: &Path) -> PathBuf {
    let mut text = String::from("#define S(n) __attribute__((section(n), used, aligned(4096)))\n");
    let fatbin = fatbin::FatbinWriter::new(fatbin::BuilderOptions::default()).finish();
    let bundle = hip_bundle::write(&[("hip-amdgcn-amd-amdhsa--gfx90a", b"image")], hip_bundle::HIP_ALIGNMENT);
    let offload = offload_binary::write(&offload_binary::ImageToWrite {
        image_kind: offload_binary::ImageKind::Bitcode,
        offload_kinds: offload_binary::OffloadKinds::CUDA,
        flags: 0,
        strings: vec![("arch", "sm_90")],
        image: b"BC\xc0\xde",
    });
    for (name, elf, mach, bytes) in [
        ("f", ".nv_fatbin", "__NV_CUDA,__nv_fatbin", &fatbin),
        ("r", "__nv_relfatbin", "__NV_CUDA,__nv_relfatbin", &fatbin),
        ("h", ".hip_fatbin", "__HIP,__hip_fatbin", &bundle),
        ("o", ".llvm.offloading", "__LLVM,__llvm_offload", &offload),
    ] {
        let bytes: Vec<String> = bytes.iter().map(u8::to_string).collect();
        text += &format!("#ifdef __APPLE__\nS(\"{mach}\")\n#else\nS(\"{elf}\")\n#endif\n");
        text += &format!("static const unsigned char {name}[] = {{{}}};\n", bytes.join(","));
    }
    text += "int main(void) { return f[0] + r[0] + h[0] + o[0]; }\n";
    let file = dir.join("host.c");
    std::fs::write(&file, text).expect("a source");
    file
}

/// Each carrier is the section of that name, and holds what its kind says.
fn assert_carries(what: &str, file: &[u8], cut: bool) {
    let found = carriers(file).unwrap_or_else(|error| panic!("{what}: {error}"));
    let mut kinds: Vec<String> = found.iter().map(|carrier| format!("{:?}", carrier.kind)).collect();
    kinds.sort();
    assert_eq!(kinds, ["Fatbins", "HipBundles", "OffloadBinaries", "RelocatableFatbins"], "{what}");
    let other = object::File::parse(file).expect("another reader reads it");
    for Carrier { kind, section, data, offset } in &found {
        let same = other.section_by_name(section).unwrap_or_else(|| panic!("{what}: no section {section}"));
        let (start, _) = same.file_range().expect("it has bytes");
        assert_eq!(*offset, start, "{what}: {section}");
        let bytes = same.data().expect("its bytes");
        assert!(bytes.starts_with(data) && bytes[data.len()..].iter().all(|&byte| byte == 0), "{what}: {section}");
        assert!(section.len() <= 8 || !cut, "{what}: {section}");
        match kind {
            CarrierKind::Fatbins | CarrierKind::RelocatableFatbins => {
                assert_eq!(fatbin::read_containers(data).expect("a fatbin").len(), 1, "{what}");
            }
            CarrierKind::HipBundles => assert_eq!(hip_bundle::read_all(data).expect("a bundle")[0].image, b"image"),
            CarrierKind::OffloadBinaries => {
                assert_eq!(offload_binary::read_all(data).expect("an offload binary")[0].arch(), "sm_90", "{what}");
            }
        }
    }
    for len in (0..file.len()).step_by(97) {
        let _ = carriers(&file[..len]);
    }
}

#[test]
fn objects_and_programs() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = source(dir.path());
    let object = dir.path().join("host.o");
    for target in [
        "x86_64-pc-linux-gnu",
        "aarch64-linux-gnu",
        "i686-pc-linux-gnu",
        "x86_64-pc-windows-msvc",
        "i686-pc-windows-msvc",
        "x86_64-apple-darwin",
        "arm64-apple-darwin",
    ] {
        let arguments = [format!("--target={target}"), "-c".to_owned(), source.display().to_string(), "-o".to_owned()];
        let words = arguments.iter().map(std::ffi::OsStr::new).chain([object.as_os_str()]);
        tools::run(&tools::llvm("clang"), words);
        assert_carries(target, &std::fs::read(&object).expect("an object"), false);
        let program = dir.path().join("host.exe");
        if target.ends_with("windows-msvc") {
            let out = format!("/out:{}", program.display());
            let words =
                ["/entry:main", "/subsystem:console", "/nodefaultlib", "/opt:noref", &out].map(std::ffi::OsStr::new);
            tools::run(&tools::llvm("lld-link"), words.into_iter().chain([object.as_os_str()]));
            assert_carries(&format!("{target} program"), &std::fs::read(&program).expect("a program"), true);
        }
        if target == "x86_64-pc-linux-gnu" {
            for kind in ["-shared", "-static"] {
                let words = [kind, "-e", "main", "-o"].map(std::ffi::OsStr::new);
                tools::run(&tools::llvm("ld.lld"), words.into_iter().chain([program.as_os_str(), object.as_os_str()]));
                assert_carries(kind, &std::fs::read(&program).expect("a program"), false);
            }
        }
    }
}

#[test]
fn they_are_listed() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = source(dir.path());
    let object = dir.path().join("host.o");
    for target in ["x86_64-pc-linux-gnu", "x86_64-pc-windows-msvc", "x86_64-apple-darwin"] {
        let arguments = [format!("--target={target}"), "-c".to_owned(), source.display().to_string(), "-o".to_owned()];
        let words = arguments.iter().map(std::ffi::OsStr::new).chain([object.as_os_str()]);
        tools::run(&tools::llvm("clang"), words);
        let bytes = std::fs::read(&object).expect("an object");
        let rows = offload_bundle::listing::list(&bytes, offload_bundle::archive::reject_thin_members)
            .expect("a sound object");
        let mut seen: Vec<_> = rows.iter().map(|row| (row.kind.as_str(), row.target.as_str(), row.size)).collect();
        seen.sort_unstable();
        assert_eq!(seen, [("cuda", "sm_90", 4), ("hip", "gfx90a", 5)], "{target}");
        for row in &rows {
            let at = usize::try_from(row.offset).expect("small");
            assert!(bytes[at..].starts_with(if row.kind == "hip" { b"image" } else { b"BC\xc0\xde" }), "{target}");
        }
    }
}
