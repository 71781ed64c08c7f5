//! Completes a translated command of nvcc that links: nvcc links device code with every link, and CUDA's runtime, unless it is told not to.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::device_options::DeviceOptions;
use crate::cli::environment::Environment;
use crate::cli::nvcc_to_clang::{CudaRuntime, Translated};
use crate::cli::options::Options;
use crate::sys::process;
use crate::toolchain::Toolchain;

/// The folders with this program as a linker, from that of the program: in a build, and where a package is installed.
const LINKER_FOLDERS: [&str; 2] = [".", "../lib/fatlink/bin"];

/// The words that nvcc adds to such a link for the static runtime.
const STATIC: [&str; 4] = ["-lcudart_static", "-ldl", "-lrt", "-lpthread"];

/// The command to run.
pub fn of(translated: Translated) -> Vec<OsString> {
    let Translated { mut words, link } = translated;
    let Some(link) = link else { return words };
    if !link.names_linker {
        words.extend(linker_folder().into_iter().flat_map(|folder| ["-B".into(), folder.into_os_string()]));
    }
    let (file, runtime) = match link.runtime {
        CudaRuntime::Static => ("libcudart_static.a", &STATIC[..]),
        CudaRuntime::Shared => ("libcudart.so", &["-lcudart"][..]),
        CudaRuntime::None => return words,
    };
    let options = Options { cuda_path: link.cuda_path, environment: Environment::read(), ..Options::default() };
    // Where there is no toolkit, the compiler says what is missing.
    if let Some(folder) = Toolchain::of(&options, &DeviceOptions::default()).library_folder(file) {
        words.extend(["-L".into(), folder.into_os_string()]);
        words.extend(runtime.iter().map(OsString::from));
    }
    words
}

/// The folder that makes a compiler run this program as its linker.
fn linker_folder() -> Option<PathBuf> {
    let programs = [Some(process::started_as()), process::itself().canonicalize().ok()];
    let own = programs.iter().flatten().filter_map(|program| program.parent());
    let mut folders = own.flat_map(|own| LINKER_FOLDERS.iter().map(|folder| own.join(folder)));
    folders.find(|folder| has_linker(folder)).and_then(|folder| std::path::absolute(folder).ok())
}

fn has_linker(folder: &Path) -> bool {
    process::is_program(&folder.join("ld")) && process::is_program(&folder.join("clang-linker-wrapper"))
}
