//! `cargo xtask test --nightly`: what takes too long for every change, or needs a machine of its own.

use std::path::Path;
use std::process::Command;

use super::report::{Report, Summary};
use super::selection::Selection;
use super::{Checker, stress};
use crate::failure::{Failure, Result};
use crate::llvm_source::{LLVM_22, LLVM_23};
use crate::package_test::cmake::install_newest;
use crate::repository::Repository;
use crate::step::{Progress, step};
use crate::{browser, demo, package_test, releases, upstream};

/// Runs every step, whatever failed before, and returns whether all passed.
pub fn run(repository: &Repository, selection: &Selection) -> Result<bool> {
    let checker = Checker::new(repository, true)?;
    let shipped = Selection { shipped: true, ..selection.clone() };
    let mut report = Report::default();
    let title = "cargo doc, warnings denied";
    report.step(title, || step(title, |progress| doc(&checker, progress)));
    report.step("tests of the programs as they are shipped", || passed(super::run(repository, &shipped)?));
    report.step("tests under load", || passed(stress::run(repository, selection)?));
    report.step("large programs", || super::big(repository));
    report.step("programs of hipcc", || super::rocm(repository));
    report.step("Bazel", || super::bazel(repository));
    let title = "public projects";
    report.step(title, || step(title, |progress| projects(&checker, progress)));
    let title = "options of ld.lld's LTO";
    report.step(title, || step(title, |progress| linker_options(&checker, progress)));
    let title = "planted losses";
    report.step(title, || step(title, |progress| losses(&checker, progress)));
    let title = "equal links";
    report.step(title, || step(title, |progress| equal_links(&checker, progress)));
    report.step("releases of clang", || releases::run(repository, true));
    report.step("LLVM 22's tests", || upstream::run(repository, &LLVM_22, None));
    report.step("LLVM 23's tests", || upstream::run(repository, &LLVM_23, None));
    report.step("demo", || demo::run(repository));
    report.step("packages", || package_test::run(repository, false));
    report.step("browser", || browser::run(repository, &[]));
    report.step("farm", || browser::farm(repository, &[]));
    let Summary { text, failed } = report.finish();
    println!("{text}");
    Ok(failed.is_empty())
}

fn passed(all: bool) -> Result<()> {
    if all { Ok(()) } else { Err(Failure::new("tests failed, see above")) }
}

fn linker_options(checker: &Checker, progress: &Progress) -> Result<()> {
    let mut python = script(checker, "benchmarks/hip/options.py");
    python.arg("--fatlink").arg(checker.repository.dist().join("bin/clang-linker-wrapper"));
    progress.run(&mut python).map(drop).map_err(|failure| failure.led_by("options differ without a message"))
}

fn losses(checker: &Checker, progress: &Progress) -> Result<()> {
    let mut python = script(checker, "benchmarks/losses/losses.py");
    python.arg("--dist").arg(checker.repository.dist());
    progress.run(&mut python).map(drop).map_err(|failure| failure.led_by("kernels are lost"))
}

fn equal_links(checker: &Checker, progress: &Progress) -> Result<()> {
    let mut python = script(checker, "benchmarks/equal_links.py");
    python.arg("--dist").arg(checker.repository.dist());
    progress.run(&mut python).map(drop).map_err(|failure| failure.led_by("equal links give different programs"))
}

/// Clones stay, and so do what was built and the script that runs it on a GPU.
fn projects(checker: &Checker, progress: &Progress) -> Result<()> {
    let mut python = script(checker, "benchmarks/public/projects.py");
    for folder in install_newest(&checker.toolchain)? {
        python.arg("--tools").arg(folder);
    }
    python.arg("--dist").arg(checker.repository.dist()).arg("--cuda").arg(checker.toolchain.cuda());
    python.arg("--clones").arg(checker.repository.target.join("clones"));
    progress.run(&mut python).map(drop).map_err(|failure| failure.led_by("public projects fail"))
}

/// A script that compares the programs in dist/, which the step of the large programs builds, with LLVM's.
fn script(checker: &Checker, path: &str) -> Command {
    let Repository { root, target, .. } = &checker.repository;
    let mut python = Command::new("python3");
    checker.environment.apply(&mut python);
    python
        .arg("-B")
        .arg(root.join(path))
        .arg("--out")
        .arg(target.join("tmp").join(Path::new(path).file_stem().unwrap_or_default()));
    python
}

fn doc(checker: &Checker, progress: &Progress) -> Result<()> {
    // The library of fatlink has one public item.
    for scope in [&["--workspace"][..], &["--package=linker-wrapper", "--document-private-items"]] {
        let mut cargo = checker.cargo("doc");
        cargo.args(["--no-deps", "--locked"]).args(scope).env("RUSTDOCFLAGS", "--deny=warnings");
        progress.run(&mut cargo).map_err(|failure| failure.led_by("rustdoc complains"))?;
    }
    Ok(())
}
