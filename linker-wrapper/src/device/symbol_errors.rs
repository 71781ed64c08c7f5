//! What is said about device symbols that do not resolve: all of them in one report, by the names that
//! people know, with the files and functions concerned and what usually helps.

use llvm_passes::resolve::{Duplicate, Resolution, Undefined};

use crate::device::targets::TargetImages;
use crate::diag::demangle;
use crate::diag::error::Errors;

/// More places than these say nothing new.
const PLACES_SHOWN: usize = 5;

/// Bytes of the name of a function that is no more than a place.
const PLACE_WIDTH: usize = 120;

/// Every duplicate and undefined symbol of one target. `users` says which functions of an image want a name.
///
/// # Errors
/// There is one.
pub fn unresolved(
    resolution: &Resolution,
    target: &TargetImages<'_>,
    users: &dyn Fn(usize, &str) -> Vec<String>,
) -> Result<(), Errors> {
    let mut errors = Errors::default();
    for symbol in &resolution.duplicates {
        errors.push(duplicate(symbol, target));
    }
    for symbol in &resolution.undefined {
        errors.push(undefined(symbol, target, users));
    }
    errors.or(())
}

fn duplicate(symbol: &Duplicate, target: &TargetImages<'_>) -> String {
    let places = symbol.units.iter().map(|unit| target.images[*unit].origin.to_string());
    format!(
        "duplicate device symbol {} for {}: defined in {}; make one of them static or inline, or link only one of the files",
        named(&symbol.name),
        target.arch,
        joined(places, " and in ")
    )
}

fn undefined(symbol: &Undefined, target: &TargetImages<'_>, users: &dyn Fn(usize, &str) -> Vec<String>) -> String {
    let places = symbol.referenced_by.iter().map(|unit| {
        let users = using(users(*unit, &symbol.name));
        format!("{}{users}", target.images[*unit].origin)
    });
    format!(
        "undefined device symbol {} for {}: wanted by {}; add the object or library that defines it, \
         and compile that with -fgpu-rdc and --offload-arch={}",
        named(&symbol.name),
        target.arch,
        joined(places, " and by "),
        target.arch
    )
}

/// `'helper(int)' (_Z6helperi)`, or just `'name'` where there is nothing to demangle.
pub fn named(name: &str) -> String {
    match demangle::demangled(name) {
        // What stands behind the name of a static one goes too, and is no other name.
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

/// ` (in f, g)` for a bitcode unit; a cubin does not say who uses what.
fn using(users: Vec<String>) -> String {
    if users.is_empty() {
        return String::new();
    }
    format!(" (in {})", joined(users.iter().map(|user| place(user)), ", "))
}

/// As [`named`], but a name of many lines, as templates have them, is cut: it only says where to look.
fn place(function: &str) -> String {
    let full = named(function);
    if full.len() <= PLACE_WIDTH { full } else { format!("'{}'", demangle::shortened(function, PLACE_WIDTH)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_of_long_names_are_named_shortly() {
        assert_eq!(using(vec!["_Z5twicei".into(), "first".into()]), " (in 'twice(int)' (_Z5twicei), 'first')");
        let argument = "x".repeat(200);
        let long = format!("_Z4sortI{}{argument}EvT_", argument.len());
        assert_eq!(using(vec![long]), " (in 'void sort<…>')");
    }
}
