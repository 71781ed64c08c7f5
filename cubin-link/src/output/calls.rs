//! `.nv.callgraph` and `.nv.prototype` of the cubin.

use super::plan::Image;
use super::symbols::SymbolTable;

/// The needed functions in the order of their symbols in the cubin.
fn in_order(image: &Image<'_, '_>, symbols: &SymbolTable<'_>) -> Vec<usize> {
    let mut functions: Vec<usize> =
        (0..image.program.symbols.len()).filter(|number| is_there(image, *number)).collect();
    functions.sort_by_key(|number| symbols.of(*number));
    functions
}

fn is_there(image: &Image<'_, '_>, number: usize) -> bool {
    image.program.symbols[number].kind.is_code() && image.reach.needed[number]
}

/// `.nv.callgraph`: for each part the rows of each caller, the last one first.
pub(super) fn graph(image: &Image<'_, '_>, symbols: &SymbolTable<'_>) -> Vec<u8> {
    let calls = image.calls;
    let functions = in_order(image, symbols);
    let mut bytes = Vec::new();
    let mut row = |first: u32, second: u32| bytes.extend([first, second].map(u32::to_le_bytes).concat());
    for part in 1..=4_i32 {
        row(0, (-part).cast_unsigned());
        for function in &functions {
            let caller = symbols.of(*function);
            let there = |other: &&usize| is_there(image, **other);
            match part {
                1 => {
                    let callees = calls.callees[*function].iter().rev().filter(there);
                    callees.for_each(|callee| row(caller, symbols.of(*callee)));
                }
                2 => calls.taken_as[*function].iter().rev().for_each(|text| row(caller, symbols.prototype(text))),
                3 => calls.pointers[*function].iter().rev().for_each(|text| row(caller, symbols.prototype(text))),
                _ => {
                    let taken = calls.takes[*function].iter().rev().filter(there);
                    taken.for_each(|taken| row(caller, symbols.of(*taken)));
                }
            }
        }
    }
    bytes
}

/// Whether `.nv.prototype` has rows.
pub(super) fn has_prototypes(image: &Image<'_, '_>) -> bool {
    let mut functions = 0..image.program.symbols.len();
    functions.any(|number| is_there(image, number) && !image.calls.declared_as[number].is_empty())
}

/// `.nv.prototype`.
pub(super) fn prototypes(image: &Image<'_, '_>, symbols: &SymbolTable<'_>) -> Vec<u8> {
    let mut bytes = Vec::new();
    for function in in_order(image, symbols) {
        for text in &image.calls.declared_as[function] {
            bytes.extend([symbols.of(function), symbols.prototype(text)].map(u32::to_le_bytes).concat());
        }
    }
    bytes
}

/// The prototypes of all needed functions, with their offsets in a table of strings that begins with them.
pub(super) fn prototype_texts<'a>(image: &Image<'_, 'a>) -> Vec<(&'a str, u32)> {
    let mut texts: Vec<(&str, u32)> = Vec::new();
    let mut offset = 1;
    for number in (0..image.program.symbols.len()).filter(|number| is_there(image, *number)) {
        let calls = image.calls;
        for text in [&calls.declared_as, &calls.taken_as, &calls.pointers].into_iter().flat_map(|all| &all[number]) {
            if !text.is_empty() && !texts.iter().any(|(known, _)| known == text) {
                texts.push((text, offset));
                offset += text.len() as u32 + 1;
            }
        }
    }
    texts
}
