//! Diagnoses device symbols that do not resolve, all in one link: by their demangled names, with the files and functions
//! concerned and advice.

use std::fmt::Display;

use llvm_passes::resolve::{Duplicate, Resolution, SizeMismatch, Undefined};
use offload_bundle::demangle::readable;

use crate::device::error::Error;
use crate::diag::demangle;
use crate::diag::error::Errors;
use crate::host::embedded_images::Origin;

/// Maximum number of places that a message lists.
const PLACES_SHOWN: usize = 5;

/// Maximum length in bytes of a referencing function's name.
const FUNCTION_WIDTH: usize = 120;

/// The prefixes of functions that AMD's device libraries define.
const AMD_LIBRARIES: [&str; 3] = ["__ockl_", "__ocml_", "__oclc_"];

/// The compiler of a unit, whose options advice names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SourceCompiler {
    Clang,
    Nvcc,
}

/// Reports the duplicate and undefined symbols of one target. `origins` are the places of its images with their compilers, and `users`
/// finds the functions of an image that reference a name.
///
/// # Errors
/// One for each such symbol.
pub fn unresolved(
    resolution: &Resolution,
    arch: &dyn Display,
    origins: &[(&Origin, SourceCompiler)],
    users: &dyn Fn(usize, &str) -> Vec<String>,
) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for symbol in &resolution.duplicates {
        errors.extend(duplicate(symbol, arch, origins));
    }
    for symbol in &resolution.sizes {
        errors.extend(two_sizes(symbol, arch, origins));
    }
    for symbol in &resolution.undefined {
        errors.extend(undefined(symbol, arch, origins, users));
    }
    errors.or(())
}

fn duplicate(symbol: &Duplicate, arch: &dyn Display, origins: &[(&Origin, SourceCompiler)]) -> Error {
    duplicate_in(&symbol.name, arch, symbol.units.iter().map(|unit| origins[*unit].0.to_string()))
}

fn two_sizes(symbol: &SizeMismatch, arch: &dyn Display, origins: &[(&Origin, SourceCompiler)]) -> Error {
    let place = |(unit, size): (usize, u64)| (origins[unit].0.to_string(), size);
    let ((first, first_size), (second, second_size)) = (place(symbol.first), place(symbol.second));
    let (symbol, arch) = (named(&symbol.name), arch.to_string());
    Error::TwoSizes { symbol, arch, first, first_size, second, second_size }
}

/// The error for a symbol that is defined in all these places.
pub fn duplicate_in(name: &str, arch: &dyn Display, places: impl ExactSizeIterator<Item = String>) -> Error {
    Error::Duplicate { symbol: named(name), arch: arch.to_string(), definitions: joined(places, " and in ") }
}

/// The error for a symbol that code of nvcc references in these places, or in one of them alone.
pub fn undefined_in(name: &str, arch: &dyn Display, places: Vec<String>, in_one: bool) -> Error {
    let references = match in_one {
        true => format!("one of {}", joined(places.into_iter(), ", ")),
        false => joined(places.into_iter(), " and by "),
    };
    let advice = advice(&[SourceCompiler::Nvcc], arch);
    Error::Undefined { name: name.to_owned(), symbol: named(name), arch: arch.to_string(), references, advice }
}

/// What to do where no file has the definition: how one with it is to be compiled.
fn advice(makers: &[SourceCompiler], arch: &dyn Display) -> String {
    let clang = makers.contains(&SourceCompiler::Clang).then(|| format!("-fgpu-rdc and --offload-arch={arch}"));
    let nvcc = makers.contains(&SourceCompiler::Nvcc).then(|| format!("nvcc -dc and -gencode for {arch}"));
    let compile = clang.into_iter().chain(nvcc).collect::<Vec<_>>().join(", or with ");
    format!("add the object or library that defines it, and compile that with {compile}")
}

fn undefined(
    symbol: &Undefined,
    arch: &dyn Display,
    origins: &[(&Origin, SourceCompiler)],
    users: &dyn Fn(usize, &str) -> Vec<String>,
) -> Error {
    let makers: Vec<SourceCompiler> = symbol.referenced_by.iter().map(|unit| origins[*unit].1).collect();
    let advice = advice(&makers, arch);
    let places = symbol.referenced_by.iter().map(|unit| {
        let functions = in_functions(users(*unit, &symbol.name));
        format!("{}{functions}", origins[*unit].0)
    });
    let (references, arch) = (joined(places, " and by "), arch.to_string());
    let is_of_library = AMD_LIBRARIES.iter().any(|prefix| symbol.name.starts_with(prefix));
    let (name, symbol) = (symbol.name.clone(), named(&symbol.name));
    if is_of_library {
        return Error::DeviceLibrary { symbol, arch, references };
    }
    Error::Undefined { name, symbol, arch, references, advice }
}

/// Formats a symbol as `'helper(int)' (_Z6helperi)`, or as `'name'` if it is not mangled.
pub fn named(name: &str) -> String {
    match readable(name) {
        // Demangling also drops the suffix of a static symbol; the remaining prefix is not a different name.
        demangled if !name.starts_with(&demangled) => format!("'{demangled}' ({name})"),
        _ => format!("'{name}'"),
    }
}

fn joined(places: impl ExactSizeIterator<Item = String>, separator: &str) -> String {
    let count = places.len();
    let mut text = places.take(PLACES_SHOWN).collect::<Vec<_>>().join(separator);
    if count > PLACES_SHOWN {
        text.push_str(&format!(" and {} more", count - PLACES_SHOWN));
    }
    text
}

/// Formats the functions of a bitcode unit as ` (in f, g)`. Those of a cubin are unknown.
fn in_functions(functions: Vec<String>) -> String {
    if functions.is_empty() {
        return String::new();
    }
    format!(" (in {})", joined(functions.iter().map(|name| function(name)), ", "))
}

/// As [`named`], but shortens long names, such as those of templates.
fn function(name: &str) -> String {
    let full = named(name);
    if full.len() <= FUNCTION_WIDTH { full } else { format!("'{}'", demangle::shortened(name, FUNCTION_WIDTH)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_function_names_are_shortened() {
        assert_eq!(in_functions(vec!["_Z5twicei".into(), "first".into()]), " (in 'twice(int)' (_Z5twicei), 'first')");
        let argument = "x".repeat(200);
        let long = format!("_Z4sortI{}{argument}EvT_", argument.len());
        assert_eq!(in_functions(vec![long]), " (in 'void sort<…>')");
    }
}
