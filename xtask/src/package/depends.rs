//! The dependencies of the Debian package, by dpkg-shlibdeps.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::apt::Apt;
use crate::failure::{Failure, Result};
use crate::step::Progress;
use crate::sysroot;

/// The libraries that programs need, with the tables from which dpkg-shlibdeps learns since when they have each symbol.
const PACKAGES: [&str; 2] = ["libc6", "libgcc-s1"];

/// The value of the field `Depends` for these programs and libraries.
///
/// The tables are Debian 11's, as the programs are linked against its C library: by those of Debian 12, which merged several libraries
/// into libc.so.6, every program with threads needs glibc 2.34.
pub fn of(progress: &Progress, files: &[PathBuf], folder: &Path) -> Result<String> {
    let apt = Apt::new(&folder.join("apt"), &sysroot::apt_sources(progress)?)?;
    let downloaded = progress
        .run(apt.get().args(["update", "--error-on=any"]))
        .and_then(|_| progress.run(apt.get().arg("download").args(PACKAGES)));
    downloaded.map_err(|failure| Failure {
        message: format!(
            "cannot get the symbol tables of Debian 11's libraries: apt-get says: {}",
            failure.tool_error()
        ),
        output: failure.output,
    })?;
    let mut command = Command::new("dpkg-shlibdeps");
    // It reads the name of the package from there.
    super::write(&folder.join("debian/control"), "Source: fatlink\n\nPackage: fatlink\nArchitecture: amd64\n")?;
    command.current_dir(folder).arg("-O").env("LC_ALL", "C.UTF-8");
    for name in PACKAGES {
        let unpacked = folder.join(name);
        let package = package_of(&apt.folder, name)?;
        progress.run(Command::new("dpkg-deb").arg("--raw-extract").args([&package, &unpacked]))?;
        command.arg(option("-S", &unpacked));
    }
    command.args(files.iter().map(|file| option("-e", file)));
    let output = progress.run(&mut command)?;
    let depends = output.lines().find_map(|line| line.strip_prefix("shlibs:Depends="));
    depends.map(str::to_owned).ok_or_else(|| Failure { message: "dpkg-shlibdeps names no dependencies".into(), output })
}

fn option(name: &str, value: &Path) -> OsString {
    let mut word = OsString::from(name);
    word.push(value);
    word
}

/// The downloaded file of a package: `libc6_2.31-13+deb11u11_amd64.deb`.
fn package_of(folder: &Path, name: &str) -> Result<PathBuf> {
    let entries = std::fs::read_dir(folder).map_err(|error| Failure::file("read", folder, &error))?;
    let start = format!("{name}_");
    let found = entries.flatten().find(|entry| entry.file_name().to_string_lossy().starts_with(&start));
    found
        .map(|entry| entry.path())
        .ok_or_else(|| Failure::new(format!("apt-get downloaded no {name} to {}", folder.display())))
}
