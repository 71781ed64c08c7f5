//! The C library of offload-bundle, which takes the place of NVIDIA's nvFatbin: `dist/lib` and `dist/include`.
//!
//! The shared library is linked from the static one: its symbols need the version of NVIDIA's, and rustc would drop the version
//! script.

use std::path::Path;
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder, replace_link};
use crate::step::Progress;
use crate::sysroot;
use crate::toolchain::Toolchain;

/// Its package.
pub const PACKAGE: &str = "offload-bundle-capi";
/// What cargo calls the static library.
const BUILT: &str = "liboffload_bundle_capi.a";
/// The name that programs record.
const SONAME: &str = "libnvfatbin.so.13";

/// The exported functions; the linker may drop everything else of the static library.
const FUNCTIONS: [&str; 12] = [
    "AddCubin",
    "AddIndex",
    "AddLTOIR",
    "AddPTX",
    "AddReloc",
    "AddTileIR",
    "Create",
    "Destroy",
    "Get",
    "GetErrorString",
    "Size",
    "Version",
];

/// Lays out the library, which cargo has built.
pub fn lay_out(repository: &Repository, toolchain: &Toolchain, progress: &Progress) -> Result<()> {
    let (lib, include) = (repository.dist().join("lib"), repository.dist().join("include"));
    create_folder(&lib)?;
    create_folder(&include)?;
    let built = repository.target.join("release").join(BUILT);
    let sources = repository.root.join("offload-bundle/capi");
    copy_file(&built, &lib.join("libnvfatbin_static.a"))?;
    copy_file(&sources.join("include/nvFatbin.h"), &include.join("nvFatbin.h"))?;
    // Programs that have it open keep the old one.
    let partial = lib.join(format!("{SONAME}.partial"));
    progress.run(&mut link(toolchain, &built, &sources, &partial)).map_err(|failure| failure.led_by("clang failed"))?;
    std::fs::rename(&partial, lib.join(SONAME)).map_err(|error| Failure::file("replace", &lib.join(SONAME), &error))?;
    replace_link(SONAME, &lib.join("libnvfatbin.so"))
}

fn link(toolchain: &Toolchain, built: &Path, sources: &Path, output: &Path) -> Command {
    let (linker, words) = sysroot::linker(toolchain);
    let mut command = Command::new(linker);
    command.args(words).arg("-shared").arg("-o").arg(output);
    command.args(FUNCTIONS.map(|function| format!("-Wl,--undefined=nvFatbin{function}")));
    command.arg(built);
    command.arg(format!("-Wl,--version-script={}", sources.join("libnvfatbin.map").display()));
    command.arg(format!("-Wl,-soname,{SONAME}"));
    // Its compression threads live on after the first large fatbin: `dlclose` must not unmap the code that they run.
    command.arg("-Wl,-z,nodelete");
    command.args(["-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-Wl,--as-needed", "-Wl,--strip-all"]);
    // NVIDIA's library needs the C library alone.
    command.args(["-static-libgcc", "-lpthread", "-ldl", "-lm"]);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_header_and_the_linker_know_the_same_functions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let header = std::fs::read_to_string(root.join("offload-bundle/capi/include/nvFatbin.h")).unwrap();
        let source = std::fs::read_to_string(root.join("offload-bundle/capi/src/lib.rs")).unwrap();
        for function in FUNCTIONS {
            assert!(header.contains(&format!("nvFatbin{function}(")), "{function} is not in the header");
            assert!(source.contains(&format!("fn nvFatbin{function}(")), "{function} is not in the library");
        }
        assert_eq!(source.matches("fn nvFatbin").count(), FUNCTIONS.len());
    }
}
