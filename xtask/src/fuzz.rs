//! `cargo xtask fuzz [--seconds N] [TARGET...]`: every fuzz target of offload-bundle, ten minutes each.
//!
//! This needs neither cargo-fuzz nor a nightly compiler: libFuzzer's coverage is a pass of LLVM that the stable compiler runs with
//! `-Cpasses`. There is no address sanitizer, because the fuzzed code forbids `unsafe`; panics and overflows end a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder, read_text, write_file};
use crate::step::{Progress, step};
use crate::toolchain::{LLVM, Toolchain};

/// The flags that cargo-fuzz passes.
const FLAGS: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions -Coverflow-checks";
/// An input that takes longer is a finding: files are read in milliseconds.
const TIMEOUT_SECONDS: u32 = 20;
const MEMORY_MB: u32 = 2048;
/// Larger seeds make each run slow, and find nothing that small ones do not.
const LARGEST_SEED: u64 = 64 * 1024;

/// Builds, makes seeds, and runs one target per core at a time.
pub fn run(repository: &Repository, seconds: u32, named: &[String]) -> Result<()> {
    let fuzz = repository.root.join("offload-bundle/fuzz");
    let targets = chosen(named, targets(&fuzz)?)?;
    let built = build(repository, &fuzz)?;
    step("collect real containers as seeds", |progress| {
        let count = seeds(repository, &fuzz.join("seeds"), progress)?;
        Ok(format!("{count} files"))
    })?;
    let failures = run_all(&fuzz, &built, &targets, seconds);
    match failures.as_slice() {
        [] => Ok(()),
        [failure] => Err(Failure { message: failure.message.clone(), output: failure.output.clone() }),
        several => {
            let messages: Vec<&str> = several.iter().map(|failure| failure.message.as_str()).collect();
            Err(Failure::new(messages.join("\n")))
        }
    }
}

/// The names of the programs in the manifest.
fn targets(fuzz: &Path) -> Result<Vec<String>> {
    let path = fuzz.join("Cargo.toml");
    let manifest = read_text(&path)?;
    Ok(names_of_programs(&manifest))
}

fn names_of_programs(manifest: &str) -> Vec<String> {
    let programs = manifest.split("[[bin]]").skip(1);
    let name = |program: &str| {
        let value = program.lines().find_map(|line| line.strip_prefix("name = "))?;
        Some(value.trim_matches('"').to_owned())
    };
    programs.filter_map(name).collect()
}

/// The named targets; all that are known if none is named.
fn chosen(named: &[String], known: Vec<String>) -> Result<Vec<String>> {
    if let Some(unknown) = named.iter().find(|name| !known.contains(name)) {
        return Err(Failure::new(format!("no fuzz target `{unknown}`; there are: {}", known.join(", "))));
    }
    Ok(if named.is_empty() { known } else { named.to_vec() })
}

/// The folder with the programs.
fn build(repository: &Repository, fuzz: &Path) -> Result<PathBuf> {
    let triple = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let target = repository.target.join("fuzz");
    step("build the fuzz targets", |progress| {
        let mut cargo = repository.cargo("build");
        cargo.args(["--release", "--locked", "--bins", "--manifest-path"]).arg(fuzz.join("Cargo.toml"));
        // With a target named, the flags are not those of build scripts, which have no fuzzer to report to.
        cargo.args(["--target", &triple, "--target-dir"]).arg(&target).env("RUSTFLAGS", FLAGS);
        progress.run(&mut cargo).map(|_| "").map_err(|failure| failure.led_by("cargo build failed"))
    })?;
    Ok(target.join(triple).join("release"))
}

/// Runs the targets, as many at once as there are cores, and returns what went wrong.
fn run_all(fuzz: &Path, built: &Path, targets: &[String], seconds: u32) -> Vec<Failure> {
    let waiting = Mutex::new(targets.iter());
    let failures = Mutex::new(Vec::new());
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores.min(targets.len()) {
            scope.spawn(|| {
                while let Some(target) = waiting.lock().ok().and_then(|mut waiting| waiting.next()) {
                    match run_one(fuzz, built, target, seconds) {
                        Ok(report) => println!("  {target}: {report}"),
                        Err(failure) => {
                            println!("  {target}: FAILED");
                            failures.lock().into_iter().for_each(|mut failures| failures.push(failure_of(&failure)));
                        }
                    }
                }
            });
        }
    });
    failures.into_inner().unwrap_or_default()
}

fn failure_of(failure: &Failure) -> Failure {
    Failure { message: failure.message.clone(), output: failure.output.clone() }
}

/// Runs one target and returns how many inputs it ran.
fn run_one(fuzz: &Path, built: &Path, target: &str, seconds: u32) -> Result<String> {
    let (corpus, artifacts) = (fuzz.join("corpus").join(target), fuzz.join("artifacts").join(target));
    create_folder(&corpus)?;
    create_folder(&artifacts)?;
    let log = artifacts.join("log");
    let file = std::fs::File::create(&log).map_err(|error| Failure::file("write", &log, &error))?;
    let streams = file.try_clone().map(|second| (second, file));
    let (stdout, stderr) = streams.map_err(|error| Failure::file("write", &log, &error))?;
    let mut command = Command::new(built.join(target));
    command.arg(&corpus).arg(fuzz.join("seeds")).arg(format!("-artifact_prefix={}/", artifacts.display()));
    command.args([format!("-max_total_time={seconds}"), format!("-timeout={TIMEOUT_SECONDS}")]);
    command.args([format!("-rss_limit_mb={MEMORY_MB}"), "-print_final_stats=1".to_owned()]);
    let status = command.stdout(stdout).stderr(stderr).status();
    let status = status.map_err(|error| Failure::file("run", &built.join(target), &error))?;
    let output = std::fs::read(&log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    if status.success() {
        return Ok(format!("{} inputs in {seconds} s", inputs_run(&output)));
    }
    let kept = artifacts.display();
    let message = format!("fuzz target {target} failed; the input is in {kept}, and the output in the file log there");
    let last: Vec<&str> = output.lines().rev().take(40).collect();
    Err(Failure { message, output: last.into_iter().rev().collect::<Vec<_>>().join("\n") })
}

fn inputs_run(log: &str) -> &str {
    let line = log.lines().find_map(|line| line.strip_prefix("stat::number_of_executed_units:"));
    line.map_or("?", str::trim)
}

/// Collects the fatbins of the driver tests, and containers that the real tools make of them.
fn seeds(repository: &Repository, folder: &Path, progress: &Progress) -> Result<usize> {
    create_folder(folder)?;
    let truth = repository.root.join("offload-bundle/tests/driver-truth");
    for from in [truth.clone(), truth.join("mixes")] {
        for path in files(&from)? {
            let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
            if name.ends_with(".fatbin") {
                copy_file(&path, &folder.join(name))?;
            }
        }
    }
    let toolchain = Toolchain::locate(repository)?;
    // Any version will do.
    if toolchain.cuda().join("bin/fatbinary").is_file() {
        by_tools(&truth.join("c21_sass90a_ptx80.fatbin"), "", folder, progress)?;
        let large = large_fatbin(&toolchain, folder, progress)?;
        by_tools(&large, "large-", folder, progress)?;
    }
    for_hip(folder, progress)?;
    kept_results(repository, folder, progress)?;
    for path in files(folder)? {
        if std::fs::metadata(&path).is_ok_and(|data| data.len() > LARGEST_SEED) {
            std::fs::remove_file(&path).map_err(|error| Failure::file("remove", &path, &error))?;
        }
    }
    files(folder).map(|files| files.len())
}

/// A fatbin with pages of machine code for one target, so that dropping it changes the layout of a program.
fn large_fatbin(toolchain: &Toolchain, folder: &Path, progress: &Progress) -> Result<PathBuf> {
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k()\n{\nret;\n}\n";
    write_file(&folder.join("k.ptx"), ptx)?;
    let tool = |name: &str| command_in(folder, &toolchain.cuda().join("bin").join(name));
    for arch in ["80", "90"] {
        progress.run(tool("ptxas").args(["-arch", &format!("sm_{arch}"), "k.ptx", "-o", &format!("{arch}.cubin")]))?;
    }
    let mut fatbinary = tool("fatbinary");
    fatbinary.args(["--create=large.fatbin", "--image3=kind=elf,sm=90,file=90.cubin"]);
    fatbinary.args(["--image3=kind=elf,sm=80,file=80.cubin"; 5]);
    progress.run(&mut fatbinary)?;
    Ok(folder.join("large.fatbin"))
}

/// Offload binaries, host objects, programs and archives around the images of one fatbin.
fn by_tools(fatbin: &Path, prefix: &str, folder: &Path, progress: &Progress) -> Result<()> {
    let tool = |name: &str| command_in(folder, &Path::new(LLVM).join("bin").join(name));
    let source = "int main(void) { return 0; }\n__asm__(\".section .nv_fatbin,\\\"a\\\"\\n.p2align 3\\n.incbin \\\"whole.fatbin\\\"\\n.text\");\n";
    write_file(&folder.join("main.c"), source)?;
    copy_file(fatbin, &folder.join("whole.fatbin"))?;
    let image = |arch: &str| format!("--image=file=whole.fatbin,triple=nvptx64-nvidia-cuda,arch={arch},kind=cuda");
    let named = |name: &str| format!("{prefix}{name}");
    let (object, embed) = (named("with-images.o"), "-fembed-offload-object=images.bin");
    progress.run(tool("llvm-offload-binary").args(["-o", "images.bin", &image("sm_80"), &image("sm_90a")]))?;
    if !prefix.is_empty() {
        copy_file(&folder.join("images.bin"), &folder.join(named("images.bin")))?;
    }
    progress.run(tool("clang").args(["-c", "main.c", "-o", &object, "-Xclang", embed]))?;
    progress.run(tool("clang").args(["main.c", "-fuse-ld=lld", "-o", &named("program")]))?;
    let library = ["-shared", "-fPIC", "main.c", "-fuse-ld=lld", "-o", &named("library.so")];
    progress.run(tool("clang").args(library))?;
    for format in ["gnu", "bsd"] {
        let members = [object.as_str(), "whole.fatbin"];
        progress.run(
            tool("llvm-ar").args([&format!("--format={format}"), "rcs", &named(&format!("{format}.a"))]).args(members),
        )?;
    }
    Ok(())
}

/// Objects and code objects for AMD's GPUs, bundles of them, and a library with bundles.
fn for_hip(folder: &Path, progress: &Progress) -> Result<()> {
    let tool = |name: &str| command_in(folder, &Path::new(LLVM).join("bin").join(name));
    let source = "extern \"C\" __attribute__((global)) void k(int *x) { __attribute__((shared)) int s[9]; s[*x] = 1; *x = s[1]; }\n";
    let source_path = folder.join("k.hip");
    write_file(&source_path, source)?;
    let options =
        ["-x", "hip", "--cuda-device-only", "-nogpuinc", "-nogpulib", "--no-gpu-bundle-output", "-O1", "k.hip"];
    for arch in ["gfx90a", "gfx1100"] {
        let (code, assembly, object) = (format!("{arch}.elf"), format!("{arch}.s"), format!("{arch}.o"));
        let target = format!("--offload-arch={arch}");
        progress.run(tool("clang").args(options).args([&target, "-o", &code]))?;
        progress.run(tool("clang").args(options).args([&target, "-S", "-o", &assembly]))?;
        let assemble = ["-target", "amdgcn-amd-amdhsa", "-c", &assembly, "-o", &object];
        progress.run(tool("clang").args(assemble).arg(format!("-mcpu={arch}")))?;
    }
    let targets =
        "-targets=host-x86_64-unknown-linux-gnu-,hip-amdgcn-amd-amdhsa--gfx90a,hip-amdgcn-amd-amdhsa--gfx1100";
    let inputs = ["-type=o", targets, "-input=/dev/null", "-input=gfx90a.elf", "-input=gfx1100.elf"];
    progress.run(tool("clang-offload-bundler").args(inputs).args(["-bundle-align=4096", "-output=plain.hipfb"]))?;
    progress.run(tool("clang-offload-bundler").args(inputs).args(["-compress", "-output=packed.hipfb"]))?;
    let source =
        ".section .hip_fatbin,\"a\"\n.p2align 12\n.incbin \"plain.hipfb\"\n.p2align 12\n.incbin \"packed.hipfb\"\n";
    write_file(&folder.join("hip.s"), source)?;
    progress.run(tool("clang").args(["-shared", "-nostdlib", "-fuse-ld=lld", "hip.s", "-o", "hip.so"])).map(|_| ())
}

/// A section of kept results, and an object with it.
fn kept_results(repository: &Repository, folder: &Path, progress: &Progress) -> Result<()> {
    let writer = repository.root.join("lit-tests/tests/bundle/Inputs/results.py");
    progress.run(command_in(folder, Path::new("python3")).arg(writer).args(["kept.results", "1", "2"]))?;
    let source = ".section .fatlink.results,\"e\"\n.p2align 4\n.incbin \"kept.results\"\n";
    write_file(&folder.join("kept.s"), source)?;
    let mut clang = command_in(folder, &Path::new(LLVM).join("bin/clang"));
    progress.run(clang.args(["-c", "kept.s", "-o", "kept.o"])).map(|_| ())
}

fn command_in(folder: &Path, program: &Path) -> Command {
    let mut command = Command::new(program);
    command.current_dir(folder);
    command
}

fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    let mut paths: Vec<PathBuf> =
        entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_file()).collect();
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_come_from_the_manifest() {
        let known = names_of_programs(
            "[package]\nname = \"x\"\n[[bin]]\nname = \"a\"\npath = \"a.rs\"\n\n[[bin]]\nname = \"b\"\n",
        );
        assert_eq!(known, ["a", "b"]);
        assert_eq!(chosen(&[], known.clone()).unwrap(), known);
        assert_eq!(chosen(&["b".to_owned()], known.clone()).unwrap(), ["b"]);
        assert!(chosen(&["c".to_owned()], known).unwrap_err().message.contains("no fuzz target `c`"));
    }
}
