//! Compares two finished cubins by what they mean to the driver.
//!
//! Everything is named instead of numbered: a relocation by the name of its symbol, a section by its name. Several local functions may
//! have one name; they are told apart by their order. What may differ:
//!
//! | may differ | because |
//! | --- | --- |
//! | `.note.nv.tkinfo` | it names the tools, and this linker is another one |
//! | the order of functions in `EXTERNS` | it is a set |
//! | the order of sections, symbols, relocations and rows | each is found by name or number; the numbers are compared by the names behind them |
//! | offsets in the file, tables of strings | the same, and nvlink's have names that nothing uses |
#![allow(dead_code)]

mod elf;

use std::collections::BTreeMap;

pub use elf::Elf;

/// What two cubins differ in, as lines; none if they are equal.
pub fn differences(ours: &[u8], theirs: &[u8]) -> Vec<String> {
    let (Some(ours), Some(theirs)) = (Elf::read(ours), Elf::read(theirs)) else {
        return vec!["a cubin is damaged".to_owned()];
    };
    let (ours, theirs) = (facts(&ours), facts(&theirs));
    let mut lines = Vec::new();
    for (name, value) in &theirs {
        match ours.get(name) {
            None => lines.push(format!("- {name}: {}", short(value))),
            Some(other) if other != value => lines.push(format!("! {name}: {}", first_difference(other, value))),
            Some(_) => {}
        }
    }
    lines.extend(
        ours.iter()
            .filter(|(name, _)| !theirs.contains_key(*name))
            .map(|(name, value)| format!("+ {name}: {}", short(value))),
    );
    lines
}

fn short(value: &str) -> String {
    value.chars().take(200).collect()
}

fn first_difference(ours: &str, theirs: &str) -> String {
    let lines = ours.lines().zip(theirs.lines()).find(|(a, b)| a != b);
    let (a, b) = lines.unwrap_or_else(|| {
        let common = ours.lines().count().min(theirs.lines().count());
        (ours.lines().nth(common).unwrap_or("(end)"), theirs.lines().nth(common).unwrap_or("(end)"))
    });
    format!("ours {} | theirs {}", short(a), short(b))
}

/// Everything about a cubin, by name.
fn facts(elf: &Elf<'_>) -> BTreeMap<String, String> {
    let mut facts = BTreeMap::new();
    facts.insert("header".to_owned(), elf.header());
    for (number, section) in elf.sections.iter().enumerate() {
        let name = elf.unique_name(number);
        if matches!(section.name, "" | ".shstrtab" | ".strtab" | ".symtab") {
            continue;
        }
        facts.insert(format!("section {name}"), elf.form(number));
        if let Some(content) = elf.content(number) {
            facts.insert(format!("content of {name}"), content);
        }
    }
    for (name, value) in elf.symbol_facts() {
        facts.insert(format!("symbol {name}"), value);
    }
    facts.insert("segments".to_owned(), elf.segments());
    facts
}
