//! Diagnoses device symbols that do not resolve, all in one link: by their demangled names, with the files and functions
//! concerned and advice.

use llvm_passes::resolve::{Duplicate, Resolution, Undefined};

use crate::device::error::Error;
use crate::device::targets::TargetImages;
use crate::diag::demangle;
use crate::diag::error::Errors;

/// Maximum number of places that a message lists.
const PLACES_SHOWN: usize = 5;

/// Maximum length in bytes of a referencing function's name.
const FUNCTION_WIDTH: usize = 120;

/// Reports the duplicate and undefined symbols of one target. `users` finds the functions of an image that reference a name.
///
/// # Errors
/// One for each such symbol.
pub fn unresolved(
    resolution: &Resolution,
    target: &TargetImages<'_>,
    users: &dyn Fn(usize, &str) -> Vec<String>,
) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for symbol in &resolution.duplicates {
        errors.extend(duplicate(symbol, target));
    }
    for symbol in &resolution.undefined {
        errors.extend(undefined(symbol, target, users));
    }
    errors.or(())
}

fn duplicate(symbol: &Duplicate, target: &TargetImages<'_>) -> Error {
    let places = symbol.units.iter().map(|unit| target.images[*unit].origin.to_string());
    Error::Duplicate { symbol: named(&symbol.name), arch: target.arch, definitions: joined(places, " and in ") }
}

fn undefined(symbol: &Undefined, target: &TargetImages<'_>, users: &dyn Fn(usize, &str) -> Vec<String>) -> Error {
    let places = symbol.referenced_by.iter().map(|unit| {
        let functions = in_functions(users(*unit, &symbol.name));
        format!("{}{functions}", target.images[*unit].origin)
    });
    Error::Undefined { symbol: named(&symbol.name), arch: target.arch, references: joined(places, " and by ") }
}

/// Formats a symbol as `'helper(int)' (_Z6helperi)`, or as `'name'` if it is not mangled.
pub fn named(name: &str) -> String {
    match demangle::demangled(name) {
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
