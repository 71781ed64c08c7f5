//! `cargo xtask setup --rocm`: hipcc and AMD's headers and libraries, out of Debian's experimental suite, for the tests with real HIP programs.
//!
//! Debian 12 has none for its LLVM 22. The packages are unpacked into a folder, where a script starts hipcc with the C library that it was
//! built for, and with this machine's clang.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::apt::{Apt, KEYRING};
use crate::debian;
use crate::failure::{Failure, Result};
use crate::repository::{create_folder, replace_link, write_file};
use crate::step::Progress;
use crate::toolchain::{Toolchain, remove_folder};

/// hipcc, headers and AMD's device libraries.
const EXPERIMENTAL: [&str; 7] = [
    "hipcc",
    "rocm-device-libs-22",
    "libamdhip64-dev",
    "libamdhip64-7",
    "librocprim-dev",
    "librocthrust-dev",
    "libhipcub-dev",
];

/// What hipcc runs on.
const SID: [&str; 3] = ["libc6", "libgcc-s1", "libstdc++6"];

/// Where CMake looks for HIP's package, and that package for its own files.
const LINKS: [(&str, &str); 3] =
    [("usr/lib/cmake", "x86_64-linux-gnu/cmake"), ("lib", "usr/lib"), ("include", "usr/include")];

/// The file that records what is installed.
const STAMP: &str = "packages.txt";

/// Starts hipcc from wherever its folder is. It asks for the paths of its parts, and clang for those of AMD's.
const HIPCC: &str = r#"#!/bin/sh
root=$(cd "$(dirname "$0")/.." && pwd)
libraries=$root/usr/lib/x86_64-linux-gnu
bitcode=$root/usr/lib/llvm-22/lib/clang/22/amdgcn/bitcode
export HIP_PLATFORM=amd HIP_PATH="$root/usr" ROCM_PATH="$root/usr" HIP_LIB_PATH="$libraries"
export HIP_CLANG_PATH="${HIP_CLANG_PATH:-/usr/lib/llvm-22/bin}" DEVICE_LIB_PATH="$bitcode"
export HIPCC_COMPILE_FLAGS_APPEND="--rocm-path=$root/usr --rocm-device-lib-path=$bitcode $HIPCC_COMPILE_FLAGS_APPEND"
# The runtime's own libraries are not here: programs are linked, and not run with it.
export HIPCC_LINK_FLAGS_APPEND="-Wl,--allow-shlib-undefined $HIPCC_LINK_FLAGS_APPEND"
exec "$libraries/ld-linux-x86-64.so.2" --library-path "$libraries" "$root/usr/bin/hipcc" "$@"
"#;

/// Where it is: below are `bin/hipcc` and `usr`.
pub fn place(toolchain: &Toolchain) -> PathBuf {
    toolchain.folder().join("rocm")
}

/// Installs it, unless it is installed.
pub fn install(toolchain: &Toolchain) -> Result<()> {
    debian::install_rocm()?;
    let place = place(toolchain);
    let is_installed = || std::fs::read_to_string(place.join(STAMP)).is_ok_and(|stamp| stamp == contents());
    toolchain.install("hipcc and AMD's libraries from Debian", &place, is_installed, |progress, root| {
        unpack(progress, root)?;
        LINKS.iter().try_for_each(|(link, target)| replace_link(target, &root.join(link)))?;
        write_hipcc(&root.join("bin"))?;
        write_file(&root.join(STAMP), contents())
    })
}

fn contents() -> String {
    packages().map(|package| format!("{package}\n")).collect::<String>() + HIPCC
}

/// The packages, each with its suite.
fn packages() -> impl Iterator<Item = String> {
    let of = |suite: &'static str| move |package: &str| format!("{package}/{suite}");
    EXPERIMENTAL.into_iter().map(of("experimental")).chain(SID.into_iter().map(of("sid")))
}

fn unpack(progress: &Progress, root: &Path) -> Result<()> {
    let apt = Apt::new(&root.join("apt"), &sources(&debian::mirrors(progress)?), "amd64")?;
    let updated = progress.run(apt.get().arg("update"));
    apt.unpack(progress, &packages().collect::<Vec<_>>(), root).map_err(|failure| {
        let cause = updated.err().unwrap_or(failure);
        let message = format!("cannot get hipcc of Debian's experimental suite: apt-get says: {}", cause.tool_error());
        Failure { message, output: cause.output }
    })?;
    remove_folder(&apt.folder)
}

fn sources(mirrors: &[String]) -> String {
    let lines = |mirror: &String| {
        let line = |suite| {
            format!("deb [arch=amd64 target=Packages signed-by={KEYRING} check-valid-until=no] {mirror} {suite} main\n")
        };
        ["sid", "experimental"].map(line).concat()
    };
    mirrors.iter().map(lines).collect()
}

fn write_hipcc(folder: &Path) -> Result<()> {
    create_folder(folder)?;
    let script = folder.join("hipcc");
    write_file(&script, HIPCC)?;
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(&script, mode).map_err(|error| Failure::file("make executable", &script, &error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_package_comes_from_its_suite() {
        let packages: Vec<String> = packages().collect();
        assert!(packages.contains(&"hipcc/experimental".to_owned()) && packages.contains(&"libc6/sid".to_owned()));
        let text = sources(&["http://a.example/debian/".to_owned()]);
        assert!(text.lines().all(|line| line.contains("/debian/ ") && line.ends_with(" main")), "{text}");
    }
}
