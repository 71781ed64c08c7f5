//! Links LLVM statically: one program that starts in a few milliseconds and
//! needs no libLLVM where it runs. `static:-bundle` keeps 400 MB of archives
//! out of the rlib; inkwell's own linking is off (`llvm22-1-no-llvm-linking`).

use std::path::{Path, PathBuf};
use std::process::Command;

const COMPONENTS: [&str; 8] = ["nvptx", "x86", "passes", "ipo", "linker", "bitreader", "bitwriter", "executionengine"];

/// The C++ files in `src/sys`.
const SHIM: [&str; 6] = ["copies", "diagnostics", "modules", "mover", "process", "references"];

fn main() {
    println!("cargo::rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    println!("cargo::rerun-if-changed=build.rs");
    let prefix = std::env::var_os("LLVM_SYS_221_PREFIX").unwrap_or_else(|| "/usr/lib/llvm-22".into());
    let llvm_config = PathBuf::from(prefix).join("bin/llvm-config");
    compile_shim(&llvm_config);
    println!("cargo::rustc-link-search=native={}", ask(&llvm_config, &["--libdir"]).trim());
    for library in ask(&llvm_config, &with_components("--libnames")).split_whitespace() {
        let name = library.trim_start_matches("lib").trim_end_matches(".a");
        println!("cargo::rustc-link-lib=static:-bundle={name}");
    }
    // Of the system libraries that LLVM may want (`--system-libs`), code for these targets wants few:
    // not z3 and libxml2, which a bare machine lacks. zlib comes from its archive, for the same reason,
    // and zstd from the zstd crate, which offload-bundle brings: a second copy could not be told apart.
    link_archive("z");
    // LLVM is C++; its library comes along too, where the compiler has it as an archive.
    link_archive("stdc++");
    provide_newer_glibc();
}

/// The C++ files, compiled as LLVM itself is: without exceptions and run-time types.
fn compile_shim(llvm_config: &Path) {
    println!("cargo::rerun-if-changed=src/sys");
    let headers = ask(llvm_config, &["--includedir"]);
    let mut compiler = cc::Build::new();
    compiler.cpp(true).std("c++17").flag("-fno-exceptions").flag("-fno-rtti").cpp_link_stdlib(None);
    compiler
        .flag("-isystem")
        .flag(headers.trim())
        .files(SHIM.map(|name| format!("src/sys/{name}.cpp")))
        .compile("fatlink_llvm");
}

/// The compiler's archive of a library, or its shared library where there is none. The archive is linked by a folder that
/// holds nothing else: its own also has the C library of this machine, which may not be the one to link against.
fn link_archive(name: &str) {
    let file = format!("lib{name}.a");
    let found = Command::new("c++").arg(format!("-print-file-name={file}")).output();
    let path = found.ok().and_then(|output| String::from_utf8(output.stdout).ok());
    let Some(path) = path.map(|text| PathBuf::from(text.trim())).filter(|path| path.is_absolute()) else {
        println!("cargo::rustc-link-lib=dylib={name}");
        return;
    };
    let folder = out_dir().join("archives");
    std::fs::create_dir_all(&folder).expect("cargo's output folder");
    let link = folder.join(file);
    let _ = std::fs::remove_file(&link);
    std::os::unix::fs::symlink(&path, &link).expect("a link in cargo's output folder");
    println!("cargo::rustc-link-search=native={}", folder.display());
    println!("cargo::rustc-link-lib=static:-bundle={name}");
}

/// Behind the archives that want it, as linkers that read once need it.
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

fn ask(llvm_config: &Path, arguments: &[&str]) -> String {
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
