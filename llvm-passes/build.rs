//! Links LLVM statically, so that the program starts in a few milliseconds and needs no libLLVM where it runs. `static:-bundle`
//! keeps 400 MB of archives out of the rlib; inkwell's own linking is off (`llvm22-1-no-llvm-linking`, `llvm23-1-no-llvm-linking`).

use std::path::{Path, PathBuf};
use std::process::Command;

/// Debian's LLVM 22.
const DEBIANS: &str = "/usr/lib/llvm-22";

const COMPONENTS: [&str; 10] =
    ["nvptx", "amdgpu", "x86", "aarch64", "passes", "ipo", "linker", "bitreader", "bitwriter", "executionengine"];

/// Libraries whose static constructors `src/sys/constructors.cpp` runs, and the sections that these are moved to.
const DEFERRED: [(&str, &str); 2] = [("LLVMAMDGPU", "fatlink_amdgpu_init"), ("LLVMAArch64", "fatlink_aarch64_init")];

/// The C++ files in `src/sys`.
const SHIM: [&str; 12] = [
    "amdgpu",
    "bodies",
    "constructors",
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
    let prefix = if cfg!(feature = "llvm23") { "LLVM_SYS_231_PREFIX" } else { "LLVM_SYS_221_PREFIX" };
    println!("cargo::rerun-if-env-changed={prefix}");
    println!("cargo::rerun-if-changed=build.rs");
    let prefix = std::env::var_os(prefix).map_or_else(|| DEBIANS.into(), PathBuf::from);
    let llvm_config = prefix.join("bin/llvm-config");
    compile_shim(&llvm_config);
    println!("cargo::rustc-link-search=native={}", archives().display());
    println!("cargo::rustc-link-search=native={}", query(&llvm_config, &["--libdir"]).trim());
    for library in query(&llvm_config, &with_components("--libnames")).split_whitespace() {
        let name = library.trim_start_matches("lib").trim_end_matches(".a");
        if let Some((_, section)) = DEFERRED.iter().find(|(prefix, _)| name.starts_with(prefix)) {
            defer_constructors(&llvm_config, library, section);
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
fn defer_constructors(llvm_config: &Path, library: &str, section: &str) {
    let folder = archives();
    let source = Path::new(query(llvm_config, &["--libdir"]).trim()).join(library);
    // Packages of LLVM's libraries have no programs.
    let beside = llvm_config.with_file_name("llvm-objcopy");
    let objcopy = if beside.is_file() { beside } else { Path::new(DEBIANS).join("bin/llvm-objcopy") };
    let status = Command::new(&objcopy)
        .arg(format!("--rename-section=.init_array={section}"))
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

/// The C++ files, compiled as LLVM itself is: without exceptions and run-time types. They are one translation unit: reading LLVM's
/// headers takes most of the time.
fn compile_shim(llvm_config: &Path) {
    println!("cargo::rerun-if-changed=src/sys");
    let folder = std::env::current_dir().expect("the folder of this package").join("src/sys");
    let unit = out_dir().join("shim.cpp");
    let includes: String = SHIM.iter().map(|name| format!("#include \"{}/{name}.cpp\"\n", folder.display())).collect();
    std::fs::write(&unit, includes).expect("cargo's output folder");
    let headers = query(llvm_config, &["--includedir"]);
    let mut compiler = cc::Build::new();
    compiler.cpp(true).std("c++17").flag("-fno-exceptions").flag("-fno-rtti").cpp_link_stdlib(None);
    compiler.flag("-isystem").flag(headers.trim()).file(unit).compile("fatlink_llvm");
}

/// Links the archive that the target's compiler has of a library, or the shared library if there is none. The archive is found in a folder
/// of its own: the compiler's folder also holds this machine's C library, which may not be the one to link against.
fn link_archive(name: &str) {
    let file = format!("lib{name}.a");
    let mut compiler = cc::Build::new().cpp(true).get_compiler().to_command();
    let found = compiler.arg(format!("-print-file-name={file}")).output();
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
        panic!("{}: {error}: LLVM is missing; `cargo xtask setup` installs it", llvm_config.display())
    });
    assert!(
        output.status.success(),
        "{} {arguments:?} failed: {}",
        llvm_config.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout).expect("llvm-config prints text")
}
