//! What clang puts into host objects, and what linkers and archivers make of them.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use offload_bundle::archive::{self, MemberData};
use offload_bundle::cubin;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;

use crate::tools;

const SOURCE: &str = "
#define __global__ __attribute__((global))
#define __device__ __attribute__((device))
__device__ int counter = 3;
extern \"C\" __global__ void kernel(int *p) { *p = counter; }
";

/// Compiles device code without any header of CUDA.
fn compile(dir: &Path, name: &str, args: &[&str]) -> PathBuf {
    let (source, object) = (dir.join(format!("{name}.cu")), dir.join(format!("{name}.o")));
    std::fs::write(&source, SOURCE.replace("kernel", name)).expect("the source is written");
    let root = tools::cuda("ptxas").parent().and_then(Path::parent).expect("a root").display().to_string();
    let cuda_path = format!("--cuda-path={root}");
    // The stubs call it; only the definitions of CUDA's headers are missing, which nothing here needs.
    let header = dir.join("launch.h");
    std::fs::write(&header, LAUNCH).expect("the header is written");
    let fixed = ["-x", "cuda", &cuda_path, "-nocudainc", "-nocudalib", "-Wno-unknown-cuda-version", "-fgpu-rdc", "-c"];
    let paths = [OsStr::new("-include"), header.as_os_str(), "-o".as_ref(), object.as_os_str(), source.as_os_str()];
    let words = fixed.iter().chain(args).map(OsStr::new);
    tools::run(&tools::llvm("clang++"), words.chain(paths));
    object
}

/// What clang's launch of a kernel refers to.
const LAUNCH: &str = "
typedef int cudaError_t;
typedef struct stream *cudaStream_t;
struct dim3 { unsigned x, y, z; };
extern \"C\" cudaError_t cudaLaunchKernel(const void *, dim3, dim3, void **, unsigned long, cudaStream_t);
";

fn read(path: &Path) -> Vec<u8> {
    std::fs::read(path).expect("the file is there")
}

#[test]
fn an_object_with_machine_code() {
    let dir = tempfile::tempdir().expect("a folder");
    let object = read(&compile(dir.path(), "first", &["--offload-arch=sm_90"]));
    assert_eq!(host_object::file_kind(&object), FileKind::ElfRelocatable);
    let images = host_object::device_images(&object).expect("sound images");
    assert_eq!(images.len(), 1);
    let found = &images[0];
    assert_eq!((found.image.triple(), found.image.arch()), ("nvptx64-nvidia-cuda", "sm_90"));
    assert_eq!(found.image.offload_kinds, OffloadKinds::CUDA);
    let start = usize::try_from(found.offset).expect("a small file");
    assert_eq!(&object[start..start + found.image.image.len()], found.image.image);
    let cubin = cubin::parse(found.image.image).expect("a sound cubin");
    assert!(cubin.is_relocatable());
    assert_eq!(cubin.kernels(), ["first"]);

    let entries = host_object::offload_entries(&object).expect("sound entries");
    let seen: Vec<_> = entries.iter().map(|entry| (entry.name.as_str(), entry.size, entry.kinds)).collect();
    assert_eq!(seen, [("first", 0, OffloadKinds::CUDA), ("counter", 4, OffloadKinds::CUDA)]);
    assert_eq!(host_object::registered_kinds(&object), OffloadKinds::default());
}

#[test]
fn an_object_with_bitcode_of_two_architectures() {
    let dir = tempfile::tempdir().expect("a folder");
    let args = ["-foffload-lto", "--offload-arch=sm_80", "--offload-arch=sm_90a"];
    let object = read(&compile(dir.path(), "first", &args));
    let images = host_object::device_images(&object).expect("sound images");
    let archs: Vec<_> = images.iter().map(|found| found.image.arch()).collect();
    assert_eq!(archs, ["sm_80", "sm_90a"]);
    for found in &images {
        assert_eq!(host_object::file_kind(found.image.image), FileKind::Bitcode);
        assert!(found.image.get("feature").is_some_and(|feature| feature.starts_with("+ptx")));
    }
}

#[test]
fn objects_merged_by_ld_r() {
    let dir = tempfile::tempdir().expect("a folder");
    let objects = ["first", "second"].map(|name| compile(dir.path(), name, &["--offload-arch=sm_90"]));
    let merged = dir.path().join("merged.o");
    let words = [OsStr::new("-r"), "-o".as_ref(), merged.as_os_str(), objects[0].as_os_str(), objects[1].as_os_str()];
    // Two definitions of `counter` clash, as they should.
    let words = words.into_iter().chain(["--allow-multiple-definition".as_ref()]);
    tools::run(&tools::llvm("ld.lld"), words);
    let merged = read(&merged);
    assert_eq!(host_object::device_images(&merged).expect("sound images").len(), 2);
    let entries = host_object::offload_entries(&merged).expect("sound entries");
    let kernels: Vec<_> = entries.iter().filter(|entry| entry.size == 0).map(|entry| entry.name.as_str()).collect();
    assert_eq!(kernels, ["first", "second"]);
}

#[test]
fn regular_and_thin_archives() {
    let dir = tempfile::tempdir().expect("a folder");
    let long_name = "a_member_with_a_long_name";
    let objects = ["first", long_name].map(|name| compile(dir.path(), name, &["--offload-arch=sm_90"]));
    for (flags, is_thin) in [("rcs", false), ("rcsT", true)] {
        let path = dir.path().join(format!("lib{flags}.a"));
        let words = [flags.as_ref(), path.as_os_str(), objects[0].as_os_str(), objects[1].as_os_str()];
        tools::run(&tools::llvm("llvm-ar"), words);
        let archive = read(&path);
        let kind = if is_thin { FileKind::ThinArchive } else { FileKind::Archive };
        assert_eq!(host_object::file_kind(&archive), kind);
        let members = archive::members(&archive).expect("a sound archive");
        // A thin archive records paths, here absolute ones.
        let base = |name: &str| name.rsplit('/').next().map(str::to_owned);
        let names: Vec<_> = members.iter().filter_map(|member| base(&member.name)).collect();
        assert_eq!(names, ["first.o".to_owned(), format!("{long_name}.o")]);
        for (member, object) in members.iter().zip(&objects) {
            let object = read(object);
            match &member.data {
                MemberData::Inline(bytes) => {
                    let start = usize::try_from(member.offset).expect("a small file");
                    assert_eq!(*bytes, &object[..]);
                    assert_eq!(&archive[start..start + bytes.len()], *bytes);
                }
                MemberData::Thin { path, size } => {
                    assert_eq!(*size, object.len() as u64);
                    assert_eq!(read(&dir.path().join(path)), object);
                }
            }
        }
    }
}

#[test]
fn errors_name_the_section_and_the_place_in_the_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let object = read(&compile(dir.path(), "first", &["--offload-arch=sm_90"]));
    let magic = offload_bundle::offload_binary::MAGIC;
    let at = object.windows(4).position(|window| window == magic).expect("an offload binary");

    let mut damaged = object.clone();
    damaged[at] = 0x11;
    let error = host_object::device_images(&damaged).expect_err("a wrong magic");
    assert_eq!(
        error.to_string(),
        format!("section .llvm.offloading: no offload binary (wrong magic) at offset {at:#x}")
    );

    let mut damaged = object.clone();
    damaged[at + 15] = 0x80;
    let error = host_object::device_images(&damaged).expect_err("an impossible size");
    assert_eq!(error.offset, at as u64);

    let error = host_object::device_images(&object[..at + 100]).expect_err("a truncated file");
    assert!(error.to_string().contains("ELF section table"), "{error}");
}
