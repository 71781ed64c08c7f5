//! Which versions of glibc's symbols programs and libraries need: a tag such as manylinux_2_31 is a promise about these alone.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::files_in;
use crate::step::Progress;
use crate::toolchain::LLVM;

/// What the packages promise: Debian 11's, which the file `control` of the Debian package and the wheel's tag name.
pub const GLIBC: (u32, u32) = (2, 31);

/// Libraries that every system with glibc has, and gcc's, which its C++ compiler needs.
const SYSTEM: [&str; 9] = [
    "libc.so.6",
    "libm.so.6",
    "libdl.so.2",
    "libpthread.so.0",
    "librt.so.1",
    "libutil.so.1",
    "ld-linux-x86-64.so.2",
    "ld-linux-aarch64.so.1",
    "libgcc_s.so.1",
];

/// Checks all programs and shared libraries of dist/. The note names the newest version that any of them needs.
pub fn check(progress: &Progress, dist: &Path) -> Result<String> {
    let mut files = Vec::new();
    for folder in ["bin", "lib"] {
        let plain = |path: &PathBuf| path.is_file() && !path.is_symlink() && path.extension().is_none_or(|e| e != "a");
        files.extend(files_in(&dist.join(folder))?.into_iter().filter(plain));
    }
    let newest = files.iter().map(|file| check_file(progress, file)).collect::<Result<Vec<_>>>()?;
    let newest = newest.into_iter().max().unwrap_or_default();
    Ok(format!("{}.{}", newest.0, newest.1))
}

/// Returns the newest version that a file needs.
pub fn check_file(progress: &Progress, file: &Path) -> Result<(u32, u32)> {
    let mut readelf = Command::new(Path::new(LLVM).join("bin/llvm-readelf"));
    let text = progress.run(readelf.args(["--version-info", "--needed-libs"]).arg(file))?;
    let other: Vec<&str> = needed(&text).filter(|name| !SYSTEM.contains(name)).collect();
    if !other.is_empty() {
        return Err(Failure::new(format!("{} needs {}, which not every system has", file.display(), other.join(", "))));
    }
    let newest = glibc_versions(&text).max().unwrap_or_default();
    if newest > GLIBC {
        return Err(Failure::new(format!(
            "{} needs glibc {}.{}, and packages promise {}.{}: link it against Debian 11's C library, as `cargo xtask dist` does",
            file.display(),
            newest.0,
            newest.1,
            GLIBC.0,
            GLIBC.1
        )));
    }
    Ok(newest)
}

/// The names between `NeededLibraries [` and `]`.
fn needed(text: &str) -> impl Iterator<Item = &str> {
    let lines = text.lines().skip_while(|line| !line.starts_with("NeededLibraries [")).skip(1);
    lines.take_while(|line| *line != "]").map(str::trim)
}

/// The versions that the table of needed ones names: `Name: GLIBC_2.17  Flags: none  Version: 4`.
fn glibc_versions(text: &str) -> impl Iterator<Item = (u32, u32)> {
    let words = text.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_"));
    words.filter_map(|version| {
        let mut numbers = version.split('.').map(str::parse::<u32>);
        Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = "Version needs section '.gnu.version_r' contains 2 entries:\n \
        0x0010:   Name: GLIBC_2.2.5  Flags: none  Version: 3\n  0x0020:   Name: GLIBC_2.17  Flags: none  Version: 4\n  \
        0x0020:   Name: GLIBC_PRIVATE  Flags: none  Version: 5\n\
        NeededLibraries [\n  libc.so.6\n  libstdc++.so.6\n]\n";

    #[test]
    fn versions_are_compared_as_numbers() {
        assert_eq!(glibc_versions(OUTPUT).max(), Some((2, 17)));
        assert_eq!(needed(OUTPUT).collect::<Vec<_>>(), ["libc.so.6", "libstdc++.so.6"]);
    }
}
