//! Finds, after a link has failed, where undefined device symbols are defined all the same: in a file that was compiled for other targets,
//! or whose device code is finished because it was compiled without -fgpu-rdc or without -dc.

use std::collections::BTreeSet;

use offload_bundle::fatbin::{self, EntryKind};
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::{cubin, ptx};

use crate::cli::values::Check;
use crate::device::compat_checks;
use crate::device::error::Error;
use crate::device::symbols;
use crate::diag::error::Errors;
use crate::host::embedded_images::{self, FoundImage};
use crate::host::input_files::{InputFile, InputFiles, Place};

/// Maximum number of files that an error names.
const FILES_SHOWN: usize = 3;

/// The constructors of objects whose device code is finished, by their compilers.
const OF_CLANG: &[u8] = b"__cuda_module_ctor";
const OF_NVCC: &[u8] = b"__sti____cudaRegisterAll";

/// Says so if clang compiled some units to relocatable device code and others, named on the line, without `-fgpu-rdc`: a build system that applies
/// its options to a part of the project makes such units, and the device code of the others is then neither linked with theirs nor optimized.
pub fn differing_units(inputs: &InputFiles, images: &[FoundImage<'_>]) -> Option<String> {
    let linked = images.iter().find(|found| found.foreign.is_none())?;
    let finished = finished_files(inputs);
    let mut without =
        finished.iter().filter(|(file, compiled)| file.place == Place::Line && *compiled == Compiled::WithoutRdc);
    let (first, _) = without.next()?;
    let others = match without.count() {
        0 => "was".to_owned(),
        others => format!("and {others} more were"),
    };
    Some(format!(
        "{} {others} compiled without -fgpu-rdc, and {} with it: {} [--offload-check={}]",
        first.name,
        linked.origin.file,
        compat_checks::texts(Check::RelocatableCode, false).advice,
        Check::RelocatableCode.name()
    ))
}

/// Adds to the errors of undefined symbols where they are defined.
pub fn explain(errors: Errors, inputs: &InputFiles) -> Errors {
    errors.replaced(|error: &Error| {
        let Error::Undefined { name, arch, .. } = error else { return None };
        let found = definitions(name, arch, inputs);
        let mut known: Vec<String> = found.iter().take(FILES_SHOWN).map(|found| found.sentence(arch)).collect();
        if found.len() > FILES_SHOWN {
            known.push(format!("and {} more files define it", found.len() - FILES_SHOWN));
        }
        let mut explained = error.clone();
        if let Error::Undefined { advice, .. } = &mut explained {
            let finished = finished_files(inputs);
            match finished.iter().find(|(_, compiled)| *compiled != Compiled::IntoLibrary) {
                _ if !known.is_empty() => *advice = known.join("; "),
                // Its functions may be inlined, so that their names are gone.
                Some((file, compiled)) => {
                    advice.push_str(&format!(
                        "; the device code in {} cannot be linked: {}",
                        file.name,
                        compiled.cause()
                    ));
                }
                None => {}
            }
        }
        Some(explained)
    })
}

/// How a file with a definition was compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Compiled {
    /// By clang to relocatable code.
    ByClang,
    /// By nvcc to relocatable code.
    ByNvcc,
    /// By clang to finished code.
    WithoutRdc,
    /// By nvcc to finished code.
    WithoutDc,
    /// By either, and linked into a shared library.
    IntoLibrary,
}

impl Compiled {
    /// Why finished code is finished.
    fn cause(self) -> &'static str {
        match self {
            Compiled::WithoutDc => "nvcc compiled it without -dc",
            Compiled::IntoLibrary => "it is that of a shared library",
            _ => "it was compiled without -fgpu-rdc",
        }
    }
}

/// A file that defines a symbol.
struct Definition {
    file: String,
    targets: BTreeSet<String>,
    compiled: Compiled,
}

impl Definition {
    fn sentence(&self, arch: &str) -> String {
        let Definition { file, targets, compiled } = self;
        let targets = targets.iter().cloned().collect::<Vec<_>>().join(", ");
        match compiled {
            Compiled::ByClang => {
                format!("{file} defines it for {targets} alone: compile that with --offload-arch={arch}, too")
            }
            Compiled::ByNvcc => {
                format!(
                    "{file}, an object of nvcc, defines it for {targets} alone: compile that with -gencode for {arch}, too"
                )
            }
            Compiled::WithoutRdc => format!(
                "{file} defines it, but was compiled without -fgpu-rdc (for {targets}): compile that with -fgpu-rdc and \
                 --offload-arch={arch}"
            ),
            Compiled::WithoutDc => format!(
                "{file}, an object of nvcc, defines it, but was compiled without -dc (for {targets}): compile that with nvcc \
                 -dc and -gencode for {arch}"
            ),
            Compiled::IntoLibrary => format!(
                "{file} defines it, but device code cannot be linked with that of a shared library: link the library's objects, or an archive \
                 of them"
            ),
        }
    }
}

/// All files that define a symbol, but not in relocatable code for the target. What cannot be read is left out: this link has failed already.
fn definitions(name: &str, arch: &str, inputs: &InputFiles) -> Vec<Definition> {
    let mut all: Vec<Definition> = Vec::new();
    let mut add = |file: &str, target: String, compiled| match all
        .iter_mut()
        .find(|one| one.file == file && one.compiled == compiled)
    {
        Some(known) => drop(known.targets.insert(target)),
        None => all.push(Definition { file: file.to_owned(), targets: BTreeSet::from([target]), compiled }),
    };
    for found in embedded_images::find(inputs).unwrap_or_default() {
        for (target, compiled) in in_image(name, arch, &found) {
            add(&found.origin.file, target, compiled);
        }
    }
    for (file, compiled) in finished_files(inputs) {
        for target in in_finished(name, file, inputs) {
            add(&file.name, target, compiled);
        }
    }
    all
}

/// The objects whose device code a compiler has finished, and the shared libraries with device code.
fn finished_files(inputs: &InputFiles) -> Vec<(&InputFile, Compiled)> {
    let compiled = |file: &InputFile| {
        let bytes = inputs.bytes(file);
        host_object::section(bytes, b".nv_fatbin")?;
        if file.kind == FileKind::ElfShared {
            return Some(Compiled::IntoLibrary);
        }
        let has = |name: &[u8]| memchr::memmem::find(bytes, name).is_some();
        let units = host_object::section(bytes, b"__nv_relfatbin").is_some();
        match (has(OF_CLANG), has(OF_NVCC) && !units) {
            (true, _) => Some(Compiled::WithoutRdc),
            (_, true) => Some(Compiled::WithoutDc),
            _ => None,
        }
    };
    let kinds = [FileKind::ElfRelocatable, FileKind::ElfShared];
    let files = inputs.files().iter().filter(|file| kinds.contains(&file.kind));
    files.filter_map(|file| Some((file, compiled(file)?))).collect()
}

/// The targets for which an image that can be linked defines a symbol.
fn in_image(name: &str, arch: &str, found: &FoundImage<'_>) -> Vec<(String, Compiled)> {
    let is_defined = |symbols: &[llvm_passes::symbols::Symbol]| {
        symbols.iter().any(|symbol| symbol.name == name && symbol.strength.is_definition())
    };
    if let Some(rdc) = &found.foreign {
        let defined = symbols::of_rdc(&found.origin, rdc).is_ok_and(|symbols| is_defined(&symbols));
        let targets = rdc.entries().iter().map(|entry| entry.arch().to_string());
        return if defined { targets.map(|target| (target, Compiled::ByNvcc)).collect() } else { Vec::new() };
    }
    let target = found.image.arch();
    let defined = || {
        symbols::of_image(found.unit.as_ref(), &found.origin, found.image.image)
            .is_ok_and(|symbols| is_defined(&symbols))
    };
    if target != arch && defined() { vec![(target.to_owned(), Compiled::ByClang)] } else { Vec::new() }
}

/// The targets for which the finished code of an object defines a symbol.
fn in_finished(name: &str, file: &InputFile, inputs: &InputFiles) -> Vec<String> {
    let Some((_, section)) = host_object::section(inputs.bytes(file), b".nv_fatbin") else { return Vec::new() };
    let containers = fatbin::read_containers(section).unwrap_or_default();
    let entries = containers.iter().flat_map(|container| &container.entries);
    let defining = entries.filter(|entry| {
        let Ok(code) = entry.payload() else { return false };
        let symbols = match entry.kind {
            EntryKind::Elf => cubin::parse(&code).map(|cubin| cubin.symbols().to_vec()).unwrap_or_default(),
            EntryKind::Ptx => ptx::symbols(&code),
            _ => Vec::new(),
        };
        symbols.iter().any(|symbol| symbol.defined && is_named(&symbol.name, name))
    });
    defining.map(|entry| entry.arch.to_string()).collect()
}

/// ptxas calls the copy of a function that it makes for a kernel `$kernel$function`.
fn is_named(symbol: &str, name: &str) -> bool {
    let copy = symbol.strip_prefix('$').and_then(|rest| rest.split_once('$'));
    symbol == name || copy.is_some_and(|(_, function)| function == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_of_functions_have_their_names() {
        assert!(is_named("_Z6helperi", "_Z6helperi") && is_named("$_Z5otherPi$_Z6helperi", "_Z6helperi"));
        assert!(!is_named("_Z6helperi", "_Z5otherPi") && !is_named("$_Z6helperi", "_Z6helperi"));
    }

    #[test]
    fn files_are_named_with_their_targets_and_what_to_do() {
        let sentence = |compiled| {
            let targets = BTreeSet::from(["sm_75".to_owned(), "sm_80".to_owned()]);
            Definition { file: "a.o".into(), targets, compiled }.sentence("sm_90")
        };
        assert!(sentence(Compiled::ByNvcc).starts_with("a.o, an object of nvcc, defines it for sm_75, sm_80 alone: "));
        assert!(
            sentence(Compiled::WithoutDc)
                .ends_with("(for sm_75, sm_80): compile that with nvcc -dc and -gencode for sm_90")
        );
    }
}
