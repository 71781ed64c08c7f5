//! Explains a host link that failed, where its inputs show what it lacks. The host linker's own errors name symbols that users do not know.

use std::collections::HashSet;
use std::path::PathBuf;

use offload_bundle::host_object::{self, FileKind, host_symbols, local_functions};

use crate::cli::options::Options;
use crate::diag::demangle;
use crate::host::input_files::{InputFile, InputFiles};
use crate::host::link_roots;

/// Functions that registration code calls, and where they are.
const RUNTIMES: [(&[u8], &str); 3] = [
    (
        b"__cudaRegisterFatBinary",
        "the CUDA runtime: add -lcudart_static -ldl -lrt -lpthread (or -lcudart), and -L with the folder of the library",
    ),
    (b"__hipRegisterFatBinary", "HIP's runtime: add -lamdhip64, and -L with the folder of the library"),
    (
        b"__tgt_register_lib",
        "OpenMP's runtime for devices: add -lomptarget (clang does so with -fopenmp and --offload-arch=)",
    ),
];

/// Maximum length in bytes of a kernel's name.
const KERNEL_WIDTH: usize = 120;

/// The hints for a link of these inputs and registration objects.
pub fn after_failure(inputs: &InputFiles, options: &Options, registration: &[PathBuf]) -> Vec<String> {
    let symbols = Symbols::of(inputs);
    // A shared library may leave the runtime to the program, and what was not read may be the runtime.
    let may_lack = link_roots::read(options).is_ok_and(|roots| roots.entry.is_none()) || !inputs.unread().is_empty();
    let runtime = (!may_lack).then(|| missing_runtime(&symbols, registration)).flatten();
    runtime.into_iter().chain(static_stubs(&symbols, inputs)).collect()
}

/// The symbols of all inputs that the host linker shares between files.
#[derive(Default)]
struct Symbols<'a> {
    defined: HashSet<&'a [u8]>,
    undefined: Vec<(&'a InputFile, &'a [u8])>,
}

impl<'a> Symbols<'a> {
    /// What cannot be read is left out: this link has failed already.
    fn of(inputs: &'a InputFiles) -> Self {
        let mut all = Symbols::default();
        for file in inputs.files() {
            let symbols = host_symbols(inputs.bytes(file), file.kind == FileKind::ElfShared).unwrap_or_default();
            for symbol in symbols {
                match symbol.defined {
                    true => drop(all.defined.insert(symbol.name)),
                    // Without a definition, a weak one is null.
                    false if symbol.weak => {}
                    false => all.undefined.push((file, symbol.name)),
                }
            }
        }
        all
    }

    fn lack(&self, name: &[u8]) -> bool {
        !self.defined.contains(name)
    }
}

/// The runtime that registration code calls and that is not among the inputs.
fn missing_runtime(symbols: &Symbols<'_>, registration: &[PathBuf]) -> Option<String> {
    let objects: Vec<Vec<u8>> = registration.iter().filter_map(|path| std::fs::read(path).ok()).collect();
    let of_objects = objects.iter().flat_map(|object| host_symbols(object, false).unwrap_or_default());
    let called = of_objects.filter(|symbol| !symbol.defined && !symbol.weak).map(|symbol| symbol.name);
    let called: HashSet<&[u8]> = called.chain(symbols.undefined.iter().map(|(_, name)| *name)).collect();
    let (_, runtime) = RUNTIMES.iter().find(|(name, _)| called.contains(name) && symbols.lack(name))?;
    Some(format!("no input of the link is {runtime}"))
}

/// A kernel that one object of nvcc launches and another one keeps to itself. From CUDA 12.8 on, the stubs of kernels that are instances of
/// templates are local to an object without relocatable device code.
fn static_stubs(symbols: &Symbols<'_>, inputs: &InputFiles) -> Option<String> {
    let undefined = symbols.undefined.iter().filter(|(_, name)| name.starts_with(b"_Z") && symbols.lack(name));
    let undefined: Vec<_> = undefined.collect();
    let objects = inputs.files().iter().filter(|file| file.kind == FileKind::ElfRelocatable && !undefined.is_empty());
    let with_device_code = objects.filter(|file| host_object::section(inputs.bytes(file), b".nv_fatbin").is_some());
    with_device_code.into_iter().find_map(|file| {
        let local: HashSet<&[u8]> = local_functions(inputs.bytes(file)).unwrap_or_default().into_iter().collect();
        let (user, name) = undefined.iter().find(|(_, name)| local.contains(name))?;
        Some(format!(
            "{} launches '{}', which {} keeps to itself, as nvcc does with instances of kernel templates: compile both with -rdc=true, or with \
             -static-global-template-stub=false",
            user.name,
            demangle::shortened(&String::from_utf8_lossy(name), KERNEL_WIDTH),
            file.name
        ))
    })
}
