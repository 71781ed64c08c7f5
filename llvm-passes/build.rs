//! Links LLVM statically, so that the program starts in a few milliseconds and needs no libLLVM where it runs. `static:-bundle`
//! keeps 400 MB of archives out of the rlib; inkwell's own linking is off (`llvm22-1-no-llvm-linking`).

use std::path::{Path, PathBuf};
use std::process::Command;

const COMPONENTS: [&str; 9] =
    ["nvptx", "amdgpu", "x86", "passes", "ipo", "linker", "bitreader", "bitwriter", "executionengine"];

/// The C++ files in `src/sys`.
const SHIM: [&str; 11] = [
    "amdgpu",
    "bodies",
    "copies",
    "diagnostics",
    "globals",
    "modules",
    "mover",
    "pass_trace",
    "process",
    "references",
    "remarks",
];

fn main() {
    println!("cargo::rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    println!("cargo::rerun-if-changed=build.rs");
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").unwrap_or_else(|| "/usr/lib/llvm-22".into());
    let llvm_config = PathBuf::from(prefix).join("bin/llvm-config");
    compile_shim(&llvm_config);
    println!("cargo::rustc-link-search=native={}", archives().display());
    println!("cargo::rustc-link-search=native={}", query(&llvm_config, &["--libdir"]).trim());
    for library in query(&llvm_config, &with_components("--libnames")).split_whitespace() {
        let name = library.trim_start_matches("lib").trim_end_matches(".a");
        if name.starts_with("LLVMAMDGPU") {
            defer_constructors(&llvm_config, library);
        }
        println!("cargo::rustc-link-lib=static:-bundle={name}");
    }
    // Code for these targets needs few of the system libraries that `--system-libs` lists; z3 and libxml2, which many systems
    // lack, are not among them. zlib is linked from its archive for the same reason. zstd comes with the zstd crate, which
    // offload-bundle depends on; a second copy would define the same symbols.
    link_archive("z");
    // The C++ library, as an archive if the compiler has one.
    link_archive("stdc++");
    provide_newer_glibc();
}

/// Copies an archive whose static constructors are to run when they are needed, not when the program starts: hundreds of options that
/// most links never use. Only their section gets another name, for which the linker defines bounds. The copy is found first.
fn defer_constructors(llvm_config: &Path, library: &str) {
    let folder = archives();
    let source = Path::new(query(llvm_config, &["--libdir"]).trim()).join(library);
    let objcopy = llvm_config.with_file_name("llvm-objcopy");
    let status = Command::new(&objcopy)
        .arg("--rename-section=.init_array=fatlink_amdgpu_init")
        .args([&source, &folder.join(library)])
        .status()
        .unwrap_or_else(|error| panic!("{}: {error}", objcopy.display()));
    assert!(status.success(), "{} failed for {}", objcopy.display(), source.display());
}

/// A folder of archives that is searched before LLVM's and the system's.
fn archives() -> PathBuf {
    let folder = out_dir().join("archives");
    std::fs::create_dir_all(&folder).expect("cargo's output folder");
    folder
}

/// The C++ files, compiled as LLVM itself is: without exceptions and run-time types.
fn compile_shim(llvm_config: &Path) {
    println!("cargo::rerun-if-changed=src/sys");
    let headers = query(llvm_config, &["--includedir"]);
    let mut compiler = cc::Build::new();
    compiler.cpp(true).std("c++17").flag("-fno-exceptions").flag("-fno-rtti").cpp_link_stdlib(None);
    compiler
        .flag("-isystem")
        .flag(headers.trim())
        .files(SHIM.map(|name| format!("src/sys/{name}.cpp")))
        .compile("fatlink_llvm");
}

/// Links the compiler's archive of a library, or the shared library if there is none. The archive is found in a folder of its own:
/// the compiler's folder also holds this machine's C library, which may not be the one to link against.
fn link_archive(name: &str) {
    let file = format!("lib{name}.a");
    let found = Command::new("c++").arg(format!("-print-file-name={file}")).output();
    let path = found.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let Some(path) = path.map(|text| PathBuf::from(text.trim())).filter(|path| path.is_absolute()) else {
        println!("cargo::rustc-link-lib=dylib={name}");
        return;
    };
    let folder = archives();
    let link = folder.join(file);
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&path, &link).expect("a link in cargo's output folder");
    println!("cargo::rustc-link-lib=static:-bundle={name}");
}

/// Links newer_glibc.c behind the archives that reference it, for linkers that read archives once.
fn provide_newer_glibc() {
    const NAME: &str = "fatlink_newer_glibc";
    println!("cargo::rerun-if-changed=src/newer_glibc.c");
    cc::Build::new().file("src/newer_glibc.c").cargo_metadata(false).compile(NAME);
    println!("cargo::rustc-link-search=native={}", out_dir().display());
    println!("cargo::rustc-link-lib=static:-bundle={NAME}");
}

fn out_dir() -> PathBuf {
    std::env::var_os("OUT_DIR").expect("cargo sets it").into()
}

fn with_components(flag: &str) -> Vec<&str> {
    ["--link-static", flag].into_iter().chain(COMPONENTS).collect()
}

fn query(llvm_config: &Path, arguments: &[&str]) -> String {
    let output = Command::new(llvm_config).args(arguments).output().unwrap_or_else(|error| {
        panic!("{}: {error}: LLVM 22 is missing; `cargo xtask setup` installs it", llvm_config.display())
    });
    assert!(
        output.status.success(),
        "{} {arguments:?} failed: {}",
        llvm_config.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("llvm-config prints text")
}
