//! Debian packages: LLVM 22, what linking it statically needs, and Python; and the mirror that they come from.

use std::os::unix::fs::MetadataExt;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::step::{Progress, noted_step, step};

const PACKAGES: [&str; 26] = [
    "clang-22",
    "lld-22",
    "llvm-22-dev",
    "llvm-22-tools",
    "clang-tools-22",
    "libomp-22-dev",
    "liboffload-22-dev",
    "libpolly-22-dev",
    "libzstd-dev",
    "zlib1g-dev",
    "g++",
    // The host linker that is not part of LLVM or of g++.
    "mold",
    // A compiler, a C library and an emulator for AArch64, a host that fatlink links for.
    "gcc-aarch64-linux-gnu",
    "libc6-dev-arm64-cross",
    "qemu-user",
    // For tests that compile the same units.
    "ccache",
    // For a test that makes conda's packages.
    "zstd",
    // For a test with compilers in images of file systems.
    "e2fsprogs",
    "squashfs-tools",
    "erofs-utils",
    // AMD's device libraries, for the benchmark.
    "rocm-device-libs",
    // The build system of most CUDA programs.
    "cmake",
    // The shells that complete options.
    "fish",
    "zsh",
    // lit, and what it needs to stop a test that runs too long.
    "python3",
    "python3-psutil",
];

/// Headless Chromium and what drives it. Debian's driver always has the version of the browser.
const BROWSER: [&str; 4] = ["chromium", "chromium-driver", "python3-selenium", "fonts-dejavu-core"];

/// The runtime library of compilers that CMake links HIP programs with.
const ROCM: [&str; 1] = ["libclang-rt-22-dev"];

/// Installs the packages for programs of HIP that are missing.
pub fn install_rocm() -> Result<()> {
    require_linux_x86_64()?;
    install_missing(&missing_packages(&ROCM)?)
}

/// Installs the packages for tests in a browser that are missing.
pub fn install_browser() -> Result<()> {
    require_linux_x86_64()?;
    install_missing(&missing_packages(&BROWSER)?)
}

/// Installs the packages that are missing, and pip if `with_pip`. If none is missing, it only runs dpkg-query once.
pub fn install_packages(with_pip: bool) -> Result<()> {
    require_linux_x86_64()?;
    let mut missing = missing_packages(&PACKAGES)?;
    if with_pip && python_with_pip().is_none() {
        missing.push("python3-pip");
    }
    install_missing(&missing)
}

fn install_missing(missing: &[&str]) -> Result<()> {
    if missing.is_empty() {
        return Ok(());
    }
    require_root_on_debian(missing)?;
    // Some other archive of this machine may be out of reach: what counts is whether the install succeeds.
    let note = |is_complete: &bool| if *is_complete { String::new() } else { "incomplete".to_owned() };
    noted_step("read Debian's package lists with apt-get", |progress| Ok(update(progress).is_ok()), note)?;
    let title = format!("install {} Debian packages and what they need with apt-get", missing.len());
    step(&title, |progress| install(progress, missing))
}

/// The Debian mirrors among this machine's apt sources.
pub fn mirrors(progress: &Progress) -> Result<Vec<String>> {
    mirrors_of(progress, "Label: Debian")
}

/// The mirrors of Debian's security archive.
pub fn security_mirrors(progress: &Progress) -> Result<Vec<String>> {
    mirrors_of(progress, "Label: Debian-Security")
}

fn mirrors_of(progress: &Progress, label: &str) -> Result<Vec<String>> {
    let mut found = known_mirrors(progress, label)?;
    if found.is_empty() {
        // Only the package lists tell which archive is Debian's, and container images come without them.
        update(progress)?;
        found = known_mirrors(progress, label)?;
    }
    if found.is_empty() {
        return Err(Failure::new(format!(
            "no Debian mirror is among apt's sources, and Debian 11's C library comes from there. This is {}: add one, or let \
             FATLINK_TOOLCHAIN name a folder that another clone has set up",
            system_name()
        )));
    }
    Ok(found)
}

fn known_mirrors(progress: &Progress, label: &str) -> Result<Vec<String>> {
    let mut command = apt_get();
    command.args(["indextargets", "--format", "$(REPO_URI)", "Created-By: Packages", "Origin: Debian"]);
    command.arg(label);
    let listing = progress.run(&mut command)?;
    let mut mirrors: Vec<String> = listing.lines().filter(|line| line.contains(":/")).map(str::to_owned).collect();
    mirrors.sort();
    mirrors.dedup();
    Ok(mirrors)
}

/// A Python that has pip: the first in PATH, or the system's.
pub fn python_with_pip() -> Option<&'static str> {
    let has_pip = |python: &&str| {
        Command::new(python).args(["-m", "pip", "--version"]).output().is_ok_and(|output| output.status.success())
    };
    ["python3", "/usr/bin/python3"].into_iter().find(has_pip)
}

fn require_linux_x86_64() -> Result<()> {
    if cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        return Ok(());
    }
    Err(Failure::new(format!(
        "this is {} on {}, but the tools are installed for Linux on x86_64 only: use a Debian 12 machine or container",
        std::env::consts::OS,
        std::env::consts::ARCH
    )))
}

fn missing_packages(packages: &[&'static str]) -> Result<Vec<&'static str>> {
    // One line for each package that dpkg has heard of; the exit status only says whether it has heard of all.
    let output = Command::new("dpkg-query")
        .args(["--show", "--showformat=${Package} ${db:Status-Status}\\n"])
        .args(packages)
        .output()
        .map_err(|error| {
            Failure::new(format!(
                "cannot run dpkg-query: {error}: the tools are installed from Debian 12's packages, and this is {}: \
                 use a Debian 12 machine or container",
                system_name()
            ))
        })?;
    Ok(not_installed(packages, &String::from_utf8_lossy(&output.stdout)))
}

fn not_installed(packages: &[&'static str], dpkg_query: &str) -> Vec<&'static str> {
    let installed = |package: &str| {
        dpkg_query.lines().any(|line| line.strip_suffix(" installed").is_some_and(|name| name == package))
    };
    packages.iter().copied().filter(|package| !installed(package)).collect()
}

fn require_root_on_debian(missing: &[&str]) -> Result<()> {
    let (packages, system) = (missing.join(" "), system_name());
    if !system.starts_with("Debian GNU/Linux 12") {
        return Err(Failure::new(format!(
            "these packages are missing: {packages}\nThis is {system}, and xtask installs them on Debian 12 only: \
             install LLVM 22 under these names yourself, or use a Debian 12 machine or container"
        )));
    }
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0);
    if !is_root {
        return Err(Failure::new(format!(
            "these Debian packages are missing, and only root can install them: {packages}\n\
             Run\n  sudo apt-get update\n  sudo apt-get install --no-install-recommends {packages}"
        )));
    }
    Ok(())
}

fn install(progress: &Progress, packages: &[&str]) -> Result<()> {
    apt_install(progress, packages).map_err(|failure| {
        Failure::new(format!(
            "cannot install the Debian packages {}: apt-get says: {}\nCheck the network, and that apt's sources name \
             Debian 12 with its security archive, where LLVM 22 comes from; or install the packages by hand",
            packages.join(" "),
            failure.tool_error()
        ))
    })
}

fn apt_install(progress: &Progress, packages: &[&str]) -> Result<()> {
    let command = || {
        let mut command = apt_get();
        command.args(["install", "--yes", "--no-install-recommends"]).args(packages);
        command
    };
    progress.run_patiently(command).map(drop)
}

fn update(progress: &Progress) -> Result<()> {
    let command = || {
        let mut command = apt_get();
        command.arg("update");
        command
    };
    progress.run_patiently(command).map(drop)
}

/// `apt-get` without questions to the user.
pub fn apt_get() -> Command {
    let mut command = Command::new("apt-get");
    command.env("DEBIAN_FRONTEND", "noninteractive").env("LC_ALL", "C.UTF-8");
    // Another apt may run, as it does right after a machine's first start.
    command.args(["--option", "DPkg::Lock::Timeout=120", "--option", "Acquire::Retries=2"]);
    command
}

/// Installs a package that only some command needs, unless its program runs.
pub fn install_for(progress: &Progress, program: &str, package: &str) -> Result<()> {
    if progress.run(Command::new(program).arg("--version")).is_ok() {
        return Ok(());
    }
    apt_install(progress, &[package]).map_err(|failure| {
        Failure::new(format!("cannot install {package}: {}: run this as root on Debian", failure.tool_error()))
    })
}

fn system_name() -> String {
    let text = std::fs::read_to_string("/etc/os-release").unwrap_or_default();
    let name = text.lines().find_map(|line| line.strip_prefix("PRETTY_NAME="));
    name.map_or_else(|| std::env::consts::OS.to_owned(), |name| name.trim_matches('"').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_package_counts_when_it_is_fully_installed() {
        let all: String = PACKAGES.iter().map(|package| format!("{package} installed\n")).collect();
        assert!(not_installed(&PACKAGES, &all).is_empty());
        let removed = all.replace("lld-22 installed", "lld-22 config-files");
        assert_eq!(not_installed(&PACKAGES, &removed), ["lld-22"]);
        assert_eq!(not_installed(&BROWSER, ""), BROWSER);
    }
}
