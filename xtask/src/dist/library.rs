//! The C libraries: that of offload-bundle, which takes the place of NVIDIA's nvFatbin, and that of fatlink. They are in `dist/lib` and
//! `dist/include`.
//!
//! A shared library is linked from the static one: its symbols have versions, and rustc would drop the version script.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, copy_file, create_folder, replace_link, write_file};
use crate::step::Progress;
use crate::sysroot::Sysroot;
use crate::toolchain::Toolchain;

/// A library.
pub struct Library {
    /// Its package.
    pub package: &'static str,
    /// What cargo calls the static library, and what dist/ does.
    pub archive: (&'static str, &'static str),
    /// The folder of its sources, with its header in `include`, and its version script.
    sources: &'static str,
    header: &'static str,
    version_script: &'static str,
    /// The name that programs record, and that which linkers look for.
    soname: (&'static str, &'static str),
    /// The exported functions; the linker may drop everything else of the static library.
    functions: fn() -> Vec<String>,
    /// What pkg-config reads, with its name.
    pkg_config: Option<(&'static str, &'static str)>,
}

/// All libraries.
pub const LIBRARIES: [Library; 2] = [
    Library {
        package: "offload-bundle-capi",
        archive: ("liboffload_bundle_capi.a", "libnvfatbin_static.a"),
        sources: "offload-bundle/capi",
        header: "nvFatbin.h",
        version_script: "libnvfatbin.map",
        soname: ("libnvfatbin.so.13", "libnvfatbin.so"),
        functions: || NVFATBIN.map(|name| format!("nvFatbin{name}")).to_vec(),
        pkg_config: None,
    },
    Library {
        package: "fatlink-capi",
        archive: ("libfatlink_capi.a", "libfatlink.a"),
        sources: "linker-wrapper/capi",
        header: "fatlink.h",
        version_script: "libfatlink.map",
        soname: ("libfatlink.so.1", "libfatlink.so"),
        functions: || FATLINK.lines().filter_map(|line| Some(line.split_once("@@")?.0.to_owned())).collect(),
        pkg_config: Some(("fatlink.pc", include_str!("fatlink.pc"))),
    },
];

/// nvFatbin's functions, without their prefix.
const NVFATBIN: [&str; 12] = [
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

/// fatlink's functions with their versions, one per line.
const FATLINK: &str = include_str!("../../../linker-wrapper/capi/abi/functions.txt");

/// Lays out the libraries, which cargo has put into `built`.
pub fn lay_out(
    repository: &Repository,
    toolchain: &Toolchain,
    progress: &Progress,
    built: &Path,
    sysroot: &Sysroot,
) -> Result<()> {
    LIBRARIES.iter().try_for_each(|library| library.lay_out(repository, progress, built, sysroot.linker(toolchain)))
}

impl Library {
    fn lay_out(
        &self,
        repository: &Repository,
        progress: &Progress,
        built: &Path,
        linker: (PathBuf, [OsString; 3]),
    ) -> Result<()> {
        let (lib, include) = (repository.dist().join("lib"), repository.dist().join("include"));
        create_folder(&lib)?;
        create_folder(&include)?;
        let built = built.join(self.archive.0);
        let sources = repository.root.join(self.sources);
        let (soname, link) = self.soname;
        copy_file(&built, &lib.join(self.archive.1))?;
        copy_file(&sources.join("include").join(self.header), &include.join(self.header))?;
        if let Some((name, text)) = self.pkg_config {
            create_folder(&lib.join("pkgconfig"))?;
            write_file(&lib.join("pkgconfig").join(name), text.replace("@VERSION@", env!("CARGO_PKG_VERSION")))?;
        }
        // Programs that have it open keep the old one.
        let partial = lib.join(format!("{soname}.partial"));
        progress
            .run(&mut self.link(linker, &built, &sources, &partial))
            .map_err(|failure| failure.led_by("clang failed"))?;
        std::fs::rename(&partial, lib.join(soname))
            .map_err(|error| Failure::file("replace", &lib.join(soname), &error))?;
        replace_link(soname, &lib.join(link))
    }

    fn link(&self, (linker, words): (PathBuf, [OsString; 3]), built: &Path, sources: &Path, output: &Path) -> Command {
        let mut command = Command::new(linker);
        command.args(words).arg("-shared").arg("-o").arg(output);
        command.args((self.functions)().iter().map(|function| format!("-Wl,--undefined={function}")));
        command.arg(built);
        command.arg(format!("-Wl,--version-script={}", sources.join(self.version_script).display()));
        command.arg(format!("-Wl,-soname,{}", self.soname.0));
        // nvFatbin's compression threads live on after the first large fatbin: `dlclose` must not unmap the code that they run.
        command.arg("-Wl,-z,nodelete");
        command.args(["-Wl,--gc-sections", "-Wl,-z,relro,-z,now", "-Wl,--as-needed", "-Wl,--strip-all"]);
        // NVIDIA's library needs the C library alone, and so does ours.
        command.args(["-static-libgcc", "-lpthread", "-ldl", "-lm"]);
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_headers_and_the_linker_know_the_same_functions() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        for library in LIBRARIES {
            let sources = root.join(library.sources);
            let header = std::fs::read_to_string(sources.join("include").join(library.header)).unwrap();
            let files = std::fs::read_dir(sources.join("src")).unwrap().map(|entry| entry.unwrap().path());
            let source: String = files.map(|file| std::fs::read_to_string(file).unwrap()).collect();
            let functions = (library.functions)();
            for function in &functions {
                assert!(header.contains(&format!("{function}(")), "{function} is not in the header");
                assert!(source.contains(&format!("fn {function}(")), "{function} is not in the library");
            }
            assert_eq!(source.matches("#[unsafe(no_mangle)]").count(), functions.len());
        }
    }
}
