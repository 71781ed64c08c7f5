//! Bridges the host names of kernels between nvcc and clang: a kernel that one compiler's unit defines and another's launches is
//! undefined under one name and defined under the other. The host linker defines the missing name at the same address.

use std::collections::HashSet;
use std::ffi::OsString;

use llvm_passes::symbols::Strength;
use offload_bundle::host_object::{FileKind, StubAlias, host_symbols, stub_aliases};

use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles};

/// Whether units of both compilers are linked together.
pub fn are_mixed(images: &[FoundImage<'_>]) -> bool {
    images.iter().any(|found| found.foreign.is_some()) && images.iter().any(|found| found.foreign.is_none())
}

/// Finds the names that are missing among the host files of the link.
///
/// # Errors
/// Damaged symbol tables.
pub fn find(inputs: &InputFiles, linked: &[bool]) -> Result<Vec<StubAlias>, Errors> {
    let (mut defined, mut undefined) = (HashSet::new(), HashSet::new());
    for (file, _) in inputs.files().iter().zip(linked).filter(|(_, linked)| **linked) {
        for (name, is_defined) in names(inputs, file)? {
            if is_defined {
                defined.insert(name)
            } else {
                undefined.insert(name)
            };
        }
    }
    Ok(stub_aliases(&defined, &undefined))
}

/// The names of a host file, with whether it defines them. Names of kernels are UTF-8.
fn names<'a>(inputs: &'a InputFiles, file: &'a InputFile) -> Result<Vec<(&'a str, bool)>, Errors> {
    if let Some(bitcode) = &file.bitcode {
        let defined = |strength: Strength| !matches!(strength, Strength::Undefined | Strength::WeakUndefined);
        return Ok(bitcode.symbols.iter().map(|symbol| (&*symbol.name, defined(symbol.strength))).collect());
    }
    if file.kind != FileKind::ElfRelocatable {
        return Ok(Vec::new());
    }
    let symbols = host_symbols(inputs.bytes(file), false).map_err(|error| damaged(&file.name, file.base(), &error))?;
    Ok(symbols.iter().filter_map(|symbol| Some((std::str::from_utf8(symbol.name).ok()?, symbol.defined))).collect())
}

/// The host linker's options that define the names. `-u` extracts the archive member with the other name.
pub fn linker_words(aliases: &[StubAlias]) -> impl Iterator<Item = OsString> {
    aliases.iter().flat_map(|StubAlias { name, target }| {
        ["-u".to_owned(), target.clone(), format!("--defsym={name}={target}")].map(OsString::from)
    })
}
