//! Programs of C and C++ that use the library as it is shipped, and with the sanitizers of the compiler. `cargo xtask test` sets the
//! environment.

use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

const LLVM: &str = "/usr/lib/llvm-22/bin";

const KERNEL: &str = "extern __attribute__((device)) int helper(int);\n\
    __attribute__((device)) int *place;\n\
    __attribute__((device)) void use() { *place = helper(1); }\n";
const HELPER: &str = "__attribute__((device)) int helper(int value) { return value * 3; }\n";

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn program() -> PathBuf {
    let dist = std::env::var_os("FATLINK_DIST").map(PathBuf::from);
    dist.unwrap_or_else(|| sources().join("../../dist")).join("bin/fatlink")
}

/// The static library that cargo has built beside this test. `cargo test` leaves it there under a name with a hash, and earlier ones with it.
fn static_library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    let files = std::fs::read_dir(tests.parent().unwrap()).unwrap().map(|entry| entry.unwrap().path());
    let is_library = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with("libfatlink_capi-") && name.ends_with(".a")
    };
    files.filter(is_library).max_by_key(|path| path.metadata().unwrap().modified().unwrap()).unwrap()
}

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    let (out, text) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{command:?}: {out}{text}");
    out.into_owned()
}

/// A folder with device code in objects.
fn samples() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, text) in [("kernel", KERNEL), ("helper", HELPER)] {
        let source = folder.path().join(format!("{name}.cu"));
        std::fs::write(&source, text).unwrap();
        let mut clang = Command::new(format!("{LLVM}/clang++"));
        clang.args(["-x", "cuda", "--offload-arch=sm_90", "-nogpuinc", "-nogpulib", "-fgpu-rdc", "-foffload-lto"]);
        run(clang.arg("-Wno-unknown-cuda-version").arg("-c").arg(&source).arg("-o").arg(source.with_extension("o")));
    }
    folder
}

/// A compiler with warnings as errors, and the program of the test as its input.
fn compiler(name: &str, standard: &str) -> Command {
    let mut compiler = Command::new(name);
    compiler.args([standard, "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-g", "-O1"]);
    compiler.arg("-I").arg(sources().join("include")).arg(sources().join("tests/link.c"));
    compiler
}

/// What a program needs besides the static library.
const SYSTEM: [&str; 4] = ["-lpthread", "-ldl", "-lm", "-lrt"];

/// Links the shared library as `cargo xtask dist` does.
fn shared_library(folder: &Path) -> PathBuf {
    let library = folder.join("libfatlink.so.1");
    let mut gcc = Command::new("gcc");
    gcc.arg("-shared").arg("-o").arg(&library).arg("-Wl,-soname,libfatlink.so.1");
    gcc.arg(format!("-Wl,--version-script={}", sources().join("libfatlink.map").display()));
    gcc.arg("-Wl,--whole-archive").arg(static_library()).arg("-Wl,--no-whole-archive").args(SYSTEM);
    run(&mut gcc);
    library
}

fn run_program(program_of_c: &Path, samples: &Path) -> String {
    let mut command = Command::new(program_of_c);
    let cuda = std::env::var_os("CUDA_PATH").expect("`eval \"$(cargo xtask env)\"` sets CUDA_PATH");
    command.arg(program()).arg(cuda).arg(samples).env("ASAN_OPTIONS", "detect_leaks=1:abort_on_error=1");
    // The library prints nothing, and the program one line.
    let output = run(&mut command);
    assert_eq!(output, "everything is as it should be\n");
    output
}

#[test]
fn a_program_of_c_links_with_the_shared_library() {
    let folder = samples();
    let library = shared_library(folder.path());
    for (name, standard) in [("gcc", "-std=c99"), ("g++", "-std=c++11")] {
        let output = folder.path().join(name);
        let mut compiler = compiler(name, standard);
        if name == "g++" {
            compiler.args(["-x", "none"]);
        }
        run(compiler
            .arg("-o")
            .arg(&output)
            .arg(&library)
            .arg(format!("-Wl,-rpath,{}", folder.path().display()))
            .arg("-lpthread"));
        run_program(&output, folder.path());
    }
    // What the library exports, and under which version.
    let symbols = run(Command::new(format!("{LLVM}/llvm-nm"))
        .args(["--dynamic", "--defined-only", "--format=just-symbols"])
        .arg(&library));
    let mut exported: Vec<&str> = symbols.lines().filter(|symbol| symbol.starts_with("fatlink_")).collect();
    exported.sort_unstable();
    let listed = std::fs::read_to_string(sources().join("abi/functions.txt")).unwrap();
    assert_eq!(exported, listed.lines().collect::<Vec<_>>());
}

#[test]
fn sanitizers_find_nothing() {
    let folder = samples();
    let output = folder.path().join("sanitized");
    let mut compiler = compiler("gcc", "-std=c99");
    compiler.args(["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    run(compiler.arg("-o").arg(&output).arg(static_library()).args(SYSTEM));
    run_program(&output, folder.path());
}
