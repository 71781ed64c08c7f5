//! `cargo xtask setup --openmp-device`: the runtime library that OpenMP's programs link on GPUs.
//!
//! No package has it, so it is compiled out of LLVM's source, with the options of LLVM's own build (openmp/device/CMakeLists.txt).

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::llvm_source::{self, LLVM_22, Release};
use crate::repository::{create_folder, write_file};
use crate::step::{Progress, in_parallel};
use crate::toolchain::{LLVM, Toolchain};

/// The release whose clang is installed: each has a runtime of its own.
static RELEASE: &Release = &LLVM_22;

/// The options of LLVM's build that are the same for all GPUs.
const OPTIONS: [&str; 13] = [
    "-c",
    "-O2",
    "-std=c++17",
    "-flto",
    "-fvisibility=hidden",
    "-nogpulib",
    "-nostdlibinc",
    "-fno-rtti",
    "-fno-exceptions",
    "-fconvergent-functions",
    "-Wno-unknown-cuda-version",
    // Vectors in the state that threads share would hide it from the optimizer.
    "-mllvm=-vectorize-slp=false",
    "-DSHARED_SCRATCHPAD_SIZE=512",
];

/// The folders of headers in LLVM's source.
const HEADERS: [&str; 3] = ["openmp/device/include", "libc", "offload/include"];

/// What LLVM's build leaves out.
const NOT_COMPILED: &str = "Stub.cpp";

/// The file that records what is installed.
const STAMP: &str = "options.txt";

/// GPUs that share one library.
struct Target {
    triple: &'static str,
    /// In the name that clang's option `--libomptarget-NAME-bc-path=` and LLVM's build give the bitcode.
    name: &'static str,
    options: &'static [&'static str],
}

const TARGETS: [Target; 2] = [
    Target { triple: "nvptx64-nvidia-cuda", name: "nvptx", options: &["--cuda-feature=+ptx63"] },
    // Programs with any version of code objects can link it.
    Target { triple: "amdgcn-amd-amdhsa", name: "amdgpu", options: &["-Xclang", "-mcode-object-version=none"] },
];

/// Where it is: below are `lib/TRIPLE/libompdevice.a`, and the same as one file of bitcode.
pub fn place(toolchain: &Toolchain) -> PathBuf {
    toolchain.folder().join("openmp-device")
}

/// Builds it, unless it is there.
pub fn install(toolchain: &Toolchain) -> Result<()> {
    if is_installed(toolchain) {
        return Ok(());
    }
    require_release()?;
    let sources = llvm_source::install(toolchain, RELEASE, &llvm_source::OPENMP_DEVICE)?;
    let place = place(toolchain);
    let title = format!("OpenMP's device runtime in {}", place.display());
    toolchain.install(
        &title,
        &place,
        || is_installed(toolchain),
        |progress, folder| {
            let build = |target: &Target| build(progress, target, &sources, &folder.join("lib").join(target.triple));
            TARGETS.iter().try_for_each(build)?;
            write_file(&folder.join(STAMP), stamp())
        },
    )
}

fn is_installed(toolchain: &Toolchain) -> bool {
    std::fs::read_to_string(place(toolchain).join(STAMP)).is_ok_and(|text| text == stamp())
}

fn stamp() -> String {
    let line = |target: &Target| format!("{}: {} {}\n", target.triple, OPTIONS.join(" "), target.options.join(" "));
    format!("LLVM {}\n{}", RELEASE.version, TARGETS.iter().map(line).collect::<String>())
}

/// Bitcode of another release may not load, and the runtime's functions change from one to the next.
fn require_release() -> Result<()> {
    let output = Progress::hidden().run(tool("clang").arg("--version"))?;
    if is_version(&output, RELEASE.version) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "{LLVM} has `{}`, and OpenMP's device runtime would be built out of the source of {}: install that release",
        output.lines().next().unwrap_or_default(),
        RELEASE.version
    )))
}

fn is_version(output: &str, version: &str) -> bool {
    output.split_whitespace().skip_while(|word| *word != "version").nth(1) == Some(version)
}

/// Compiles each file, and makes one module of all, which is the archive's only member as in LLVM's build.
fn build(progress: &Progress, target: &Target, sources: &Path, folder: &Path) -> Result<()> {
    let objects = folder.join("objects");
    create_folder(&objects)?;
    let files = source_files(&sources.join("openmp/device/src"))?;
    let units: Vec<(&PathBuf, PathBuf)> = files.iter().map(|file| (file, object(&objects, file))).collect();
    let jobs = units.iter().map(|(file, object)| compiler(target, sources, file, object)).collect();
    in_parallel(jobs, |mut job| progress.run(&mut job).map(drop))?;
    let bitcode = folder.join(format!("libomptarget-{}.bc", target.name));
    let objects_of_all = units.iter().map(|(_, object)| object);
    progress.run(tool("llvm-link").arg("-o").arg(&bitcode).args(objects_of_all))?;
    progress.run(tool("llvm-ar").arg("rcsD").arg(folder.join("libompdevice.a")).arg(&bitcode))?;
    std::fs::remove_dir_all(&objects).map_err(|error| Failure::file("remove", &objects, &error))
}

fn source_files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| is_compiled(path)).collect();
    // The order is that of the functions in the library.
    files.sort();
    Ok(files)
}

fn is_compiled(file: &Path) -> bool {
    file.extension().is_some_and(|end| end == "cpp") && !file.ends_with(NOT_COMPILED)
}

fn object(folder: &Path, file: &Path) -> PathBuf {
    folder.join(file.file_name().unwrap_or_default()).with_extension("bc")
}

fn compiler(target: &Target, sources: &Path, file: &Path, object: &Path) -> Command {
    let mut command = tool("clang++");
    // The names of the files in the bitcode are then the same in every toolchain folder.
    command.current_dir(sources).arg(format!("--target={}", target.triple)).args(OPTIONS).args(target.options);
    command.args(HEADERS.map(|folder| format!("-I{folder}")));
    command.arg(file.strip_prefix(sources).unwrap_or(file)).arg("-o").arg(object);
    command
}

fn tool(name: &str) -> Command {
    Command::new(Path::new(LLVM).join("bin").join(name))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::step::shown;

    #[test]
    fn only_the_release_of_the_source_compiles_it() {
        let output = "Debian clang version 22.1.8 (1~deb12u1)\nTarget: x86_64-pc-linux-gnu\n";
        assert!(is_version(output, "22.1.8"));
        assert!(!is_version(output, "22.1"));
        assert!(!is_version("", "22.1.8"));
    }

    #[test]
    fn headers_and_the_stub_are_not_compiled() {
        assert!(is_compiled(Path::new("src/State.cpp")));
        assert!(!is_compiled(Path::new("src/Stub.cpp")));
        assert!(!is_compiled(Path::new("src/State.h")));
    }

    #[test]
    fn the_command_is_the_same_in_every_folder() {
        let line = |folder: &str| {
            let file = Path::new(folder).join("openmp/device/src/State.cpp");
            shown(&compiler(&TARGETS[0], Path::new(folder), &file, Path::new("State.bc")))
        };
        assert_eq!(line("/a"), line("/b"));
        assert!(line("/a").contains("--target=nvptx64-nvidia-cuda -c "), "{}", line("/a"));
        assert!(line("/a").ends_with("openmp/device/src/State.cpp -o State.bc"), "{}", line("/a"));
    }

    #[test]
    fn the_stamp_has_the_options_of_every_target() {
        assert!(stamp().starts_with("LLVM 22.1.8\nnvptx64-nvidia-cuda: -c "), "{}", stamp());
        assert!(stamp().contains(" --cuda-feature=+ptx63\namdgcn-amd-amdhsa: "), "{}", stamp());
    }
}
