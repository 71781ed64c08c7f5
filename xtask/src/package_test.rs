//! `cargo xtask test --packages`: each package as its user has it, on systems that have nothing of this working tree.
//!
//! In Debian 11 and 12, made by debootstrap, the Debian package, the wheel and the archive are installed, link the sample, and are
//! removed; then nothing of them may be left. The CMake package builds the sample with three versions of CMake and two generators, and
//! mypy compares the Python module with its types. The default run leaves this out: it needs root, the network and ten minutes.

pub mod cmake;
mod install;
mod leftovers;
mod python;
mod sample;

use std::process::Command;

use crate::chroot::Chroot;
use crate::debian;
use crate::failure::{Failure, Result};
use crate::llvm_release::LlvmRelease;
use crate::package;
use crate::repository::Repository;
use crate::step::{Progress, noted_step, step};
use crate::{dist, setup};

use install::{Form, ofs};

/// The systems, the oldest first: dist/ is linked against its C library.
const SYSTEMS: [(&str, &str); 2] = [("bullseye", "Debian 11"), ("bookworm", "Debian 12")];

/// What links programs there, and what a Python wheel is installed with.
const PACKAGES: &str = "g++,python3,python3-venv";

/// Builds dist/ and its packages, unless they are to be taken as they are, and stops at the first step that fails.
pub fn run(repository: &Repository, is_built: bool) -> Result<()> {
    let toolchain = setup::install(repository)?;
    if !is_built {
        dist::build(repository, &toolchain, LlvmRelease::default())?;
        package::write_all(repository, &toolchain)?;
    }
    let packages = package::find(repository)?;
    let mut passed = 0;
    for (suite, name) in SYSTEMS {
        let chroot = step(&format!("{name}: the system, by debootstrap"), |progress| {
            Chroot::install(progress, repository.target.join("package-test").join(suite), suite, PACKAGES)
        })?;
        step(&format!("{name}: compile the sample for it, copy CUDA's tools"), |progress| {
            sample::prepare(repository, &toolchain, progress, &chroot)
        })?;
        for form in ofs(&packages) {
            let title = format!("{name}: {} links the sample, is removed, leaves nothing", form.title);
            let note = |added: &usize| format!("{added} files and folders came and went");
            noted_step(&title, |progress| install_and_remove(progress, &chroot, &form), note)
                .inspect_err(|_| chroot.discard())?;
            passed += 1;
        }
    }
    step("lintian finds neither errors nor warnings", |progress| {
        debian::install_for(progress, "lintian", "lintian")?;
        progress.run(Command::new("lintian").args(["--fail-on=error,warning"]).args(&packages.debs))
    })?;
    passed += 1;
    passed += python::check_types(repository, &toolchain, &packages)?;
    python::check_extra(repository, &packages)?;
    passed += 1;
    passed += cmake::build_samples(repository, &toolchain, &packages)?;
    println!("{passed} passed, 0 failed, 0 skipped");
    Ok(())
}

/// Returns how many files and folders came and went.
fn install_and_remove(progress: &Progress, chroot: &Chroot, form: &Form<'_>) -> Result<usize> {
    form.prepare(progress, chroot)?;
    let before = leftovers::of(chroot)?;
    form.install(progress, chroot)?;
    let added = leftovers::of(chroot)?.len().saturating_sub(before.len());
    if added == 0 {
        return Err(Failure::new("nothing was installed"));
    }
    sample::link_and_explain(progress, chroot, form)?;
    form.remove(progress, chroot)?;
    leftovers::compare(&before, &leftovers::of(chroot)?)?;
    Ok(added)
}
