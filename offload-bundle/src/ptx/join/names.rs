//! Resolves the names of the joined module: one definition of each name that several parts share, and local names that stay distinct.

use std::collections::{HashMap, HashSet};

use super::super::scan::{Linkage, Statement, StatementKind};
use super::error::JoinError;
use super::rewrite::{self, Changes};
use crate::cubin::Memory;

/// The statements of one part, in order.
pub type PartStatements<'a> = Vec<Statement<'a>>;

/// A statement: part and place in it.
pub type StatementId = (usize, usize);

/// A name that is not local.
#[derive(Debug, Default)]
pub struct Shared {
    /// The prevailing definition.
    pub definition: Option<StatementId>,
    /// The declaration that is kept if no part defines the name.
    pub declaration: Option<StatementId>,
}

impl Shared {
    /// The statement that is kept.
    pub fn chosen(&self) -> Option<StatementId> {
        self.definition.or(self.declaration)
    }
}

/// The names of all parts.
#[derive(Debug, Default)]
pub struct Names<'a> {
    /// The names that are not local.
    pub shared: HashMap<&'a [u8], Shared>,
    /// Local constants that equal one of an earlier part, with the place of that.
    pub folded: HashMap<StatementId, StatementId>,
    /// The changes to each part.
    pub changes: Vec<Changes<'a>>,
    /// Functions that are not local and that some part declares: they may be used before their definition.
    pub declared: HashSet<&'a [u8]>,
}

/// Statements that have a name, with their places.
fn named<'p, 'a>(parts: &'p [PartStatements<'a>]) -> impl Iterator<Item = (StatementId, &'p Statement<'a>)> {
    let places = |(part, statements): (usize, &'p PartStatements<'a>)| {
        statements.iter().enumerate().map(move |(index, statement)| ((part, index), statement))
    };
    let is_named = |(_, statement): &(StatementId, &Statement<'_>)| {
        matches!(statement.kind, StatementKind::Function { .. } | StatementKind::Variable(_))
    };
    parts.iter().enumerate().flat_map(places).filter(is_named)
}

/// Resolves every name.
///
/// # Errors
/// A name that differs between two parts.
pub fn resolve<'a>(parts: &[PartStatements<'a>]) -> Result<Names<'a>, JoinError> {
    let mut names = Names::default();
    for (place, statement) in named(parts) {
        let local = statement.linkage == Linkage::Local;
        if !local && statement.is_function() && !statement.has_body {
            names.declared.insert(statement.name);
        }
        if !local {
            choose(names.shared.entry(statement.name).or_default(), place, statement, parts);
        }
    }
    check(&names, parts)?;
    rename_locals(&mut names, parts);
    Ok(names)
}

/// Takes a statement into account: strong definitions prevail over weak ones, else the first does.
fn choose(shared: &mut Shared, place: StatementId, statement: &Statement<'_>, parts: &[PartStatements<'_>]) {
    let at = |(part, index): StatementId| parts[part][index];
    if statement.defines() {
        if shared.definition.is_none_or(|other| statement.linkage > at(other).linkage) {
            shared.definition = Some(place);
        }
    } else if shared.declaration.is_none_or(|other| prefer(statement, &at(other))) {
        shared.declaration = Some(place);
    }
}

/// Whether a declaration of an undefined name is better than an earlier one: that of an alias over that of something elsewhere, what
/// comes back over what does not, what is aligned more.
fn prefer(new: &Statement<'_>, old: &Statement<'_>) -> bool {
    if (new.linkage == Linkage::Extern) != (old.linkage == Linkage::Extern) {
        return old.linkage == Linkage::Extern;
    }
    match new.is_function() {
        true => rewrite::is_noreturn(old) && !rewrite::is_noreturn(new),
        false => alignment(new) > alignment(old),
    }
}

fn alignment(statement: &Statement<'_>) -> u64 {
    let text = String::from_utf8_lossy(statement.head());
    let mut words = text.split_ascii_whitespace().skip_while(|word| *word != ".align");
    words.nth(1).and_then(|number| number.parse().ok()).unwrap_or(1)
}

/// A name must mean the same in all parts: calls rely on the signature of the function.
fn check(names: &Names<'_>, parts: &[PartStatements<'_>]) -> Result<(), JoinError> {
    for (place, statement) in named(parts).filter(|(_, statement)| statement.linkage != Linkage::Local) {
        let chosen = names.shared.get(statement.name).and_then(Shared::chosen).filter(|chosen| *chosen != place);
        let Some(chosen) = chosen.map(|(part, index)| &parts[part][index]) else { continue };
        let same = match statement.is_function() {
            true => chosen.is_function() && rewrite::signature(statement) == rewrite::signature(chosen),
            false => chosen.kind == statement.kind && (!is_final(statement) || statement.text == chosen.text),
        };
        if !same {
            return Err(JoinError::Conflict { name: String::from_utf8_lossy(statement.name).into_owned() });
        }
    }
    Ok(())
}

/// Whether a definition of a variable cannot be replaced by another one.
fn is_final(statement: &Statement<'_>) -> bool {
    matches!(statement.linkage, Linkage::Visible | Linkage::Common)
}

/// Renames a local name that several parts use, in all parts but the first.
fn rename_locals<'a>(names: &mut Names<'a>, parts: &[PartStatements<'a>]) {
    names.changes = (0..parts.len()).map(|part| Changes { part, ..Changes::default() }).collect();
    let everything: HashSet<&[u8]> = named(parts).map(|(_, statement)| statement.name).collect();
    // Where a local name was first seen, and its definition.
    let mut first: HashMap<&[u8], (usize, Option<StatementId>)> = HashMap::new();
    for (place, statement) in named(parts).filter(|(_, statement)| statement.linkage == Linkage::Local) {
        let name = statement.name;
        let seen = first.entry(name).or_insert((place.0, None));
        if seen.0 == place.0 && !names.shared.contains_key(name) {
            seen.1 = seen.1.or(statement.defines().then_some(place));
        } else if let Some(same) = seen.1.filter(|(part, index)| is_same_constant(statement, &parts[*part][*index])) {
            names.folded.insert(place, same);
        } else if !names.changes[place.0].names.contains_key(name) {
            let new = fresh(name, place.0, &everything);
            names.changes[place.0].taken.insert(new.clone());
            names.changes[place.0].names.insert(name, new);
        }
    }
}

/// `.const` variables of the same text and without addresses in it are one: a module has only 64 KiB of them.
fn is_same_constant(statement: &Statement<'_>, first: &Statement<'_>) -> bool {
    let value = &statement.text[statement.head..];
    let plain = !value.iter().any(|byte| matches!(byte, b'a'..=b'z' | b'A'..=b'Z' | b'_' | b'$'));
    statement.kind == StatementKind::Variable(Some(Memory::Constant)) && plain && first.text == statement.text
}

/// `NAME$jPART`, extended until it is unique.
fn fresh(name: &[u8], part: usize, taken: &HashSet<&[u8]>) -> Vec<u8> {
    let mut new = [name, format!("$j{part}").as_bytes()].concat();
    while taken.contains(&new[..]) {
        new.extend_from_slice(b"$j");
    }
    new
}
