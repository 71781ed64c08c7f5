//! `cargo xtask fuzz [--seconds N] [TARGET...]`: every fuzz target of offload-bundle, ten minutes each.
//!
//! This needs neither cargo-fuzz nor a nightly compiler: libFuzzer's coverage is a pass of LLVM that the stable compiler runs with
//! `-Cpasses`. There is no address sanitizer, because the fuzzed code forbids `unsafe`; panics and overflows end a run.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder, files_in, name_of, read_text};
use crate::step::{Progress, in_parallel, noted_step, step};
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
    noted_step(
        "collect real containers as seeds",
        |progress| seeds(repository, &fuzz.join("seeds"), progress),
        |count| format!("{count} files"),
    )?;
    run_all(&fuzz, &built, &targets, seconds)
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
        progress.run(&mut cargo).map_err(|failure| failure.led_by("cargo build failed"))
    })?;
    Ok(target.join(triple).join("release"))
}

/// Runs all targets, as many at once as there are cores, and names those that failed.
fn run_all(fuzz: &Path, built: &Path, targets: &[String], seconds: u32) -> Result<()> {
    let failures = Mutex::new(Vec::new());
    in_parallel(targets.iter().collect(), |target: &String| {
        match run_one(fuzz, built, target, seconds) {
            Ok(report) => println!("  {target}: {report}"),
            Err(failure) => {
                println!("  {target}: FAILED");
                let mut failures = failures.lock().unwrap_or_else(PoisonError::into_inner);
                failures.push((failure.message, failure.output));
            }
        }
        Ok(())
    })?;
    let (messages, outputs): (Vec<_>, Vec<_>) = failures.into_inner().unwrap_or_default().into_iter().unzip();
    if messages.is_empty() { Ok(()) } else { Err(Failure { message: messages.join("\n"), output: outputs.join("\n") }) }
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

/// Collects the fatbins of the driver tests, and has a script make containers of them by the real tools. Returns how many there are.
fn seeds(repository: &Repository, folder: &Path, progress: &Progress) -> Result<usize> {
    create_folder(folder)?;
    let truth = repository.root.join("offload-bundle/tests/driver-truth");
    for path in [files_in(&truth)?, files_in(&truth.join("mixes"))?].concat() {
        if path.extension().is_some_and(|end| end == "fatbin") {
            copy_file(&path, &folder.join(name_of(&path)))?;
        }
    }
    let mut script = Command::new("sh");
    script.arg(repository.root.join("xtask/fuzz-seeds.sh")).current_dir(folder);
    progress.run(script.arg(&repository.root).arg(LLVM).arg(Toolchain::locate(repository)?.cuda()))?;
    for path in files_in(folder)? {
        if std::fs::metadata(&path).is_ok_and(|data| data.len() > LARGEST_SEED) {
            std::fs::remove_file(&path).map_err(|error| Failure::file("remove", &path, &error))?;
        }
    }
    files_in(folder).map(|files| files.len())
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
