//! Orders variables: a variable whose value names another one follows it, in whatever part that is.

use std::collections::{HashMap, HashSet};

use super::super::scan::{Linkage, Statement, StatementKind, words};
use super::error::JoinError;
use super::names::{Names, PartStatements, StatementId};

/// What is written next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// This definition.
    Define(StatementId),
    /// That this definition will come: variables whose values name each other in a circle need it.
    Announce(StatementId),
}

/// Orders all variables that are kept, each once.
///
/// # Errors
/// A circle through a local variable, which cannot be announced.
pub fn variables(parts: &[PartStatements<'_>], names: &Names<'_>) -> Result<Vec<Step>, JoinError> {
    let mut sorter = Sorter::new(parts, names);
    for place in sorter.roots.clone() {
        sorter.visit(place)?;
    }
    Ok(sorter.steps)
}

struct Sorter<'s, 'a> {
    parts: &'s [PartStatements<'a>],
    roots: Vec<StatementId>,
    /// By part, if local, and name.
    known: HashMap<(Option<usize>, &'a [u8]), StatementId>,
    /// Begun, and whether written.
    seen: HashMap<StatementId, bool>,
    announced: HashSet<StatementId>,
    steps: Vec<Step>,
}

impl<'s, 'a> Sorter<'s, 'a> {
    fn new(parts: &'s [PartStatements<'a>], names: &Names<'a>) -> Self {
        let (mut roots, mut known) = (Vec::new(), HashMap::new());
        for (part, statements) in parts.iter().enumerate() {
            for (index, statement) in statements.iter().enumerate() {
                let (place, local) = ((part, index), statement.linkage == Linkage::Local);
                let stays = match names.shared.get(statement.name) {
                    Some(shared) if !local => shared.definition == Some(place),
                    _ => local && !names.folded.contains_key(&place),
                };
                if !matches!(statement.kind, StatementKind::Variable(_)) {
                    continue;
                }
                if stays {
                    roots.push(place);
                    known.insert((local.then_some(part), statement.name), place);
                } else if let Some(same) = names.folded.get(&place) {
                    known.insert((Some(part), statement.name), *same);
                }
            }
        }
        Sorter { parts, roots, known, seen: HashMap::new(), announced: HashSet::new(), steps: Vec::new() }
    }

    /// Orders a variable behind everything that its value names. Uses a stack of its own, since chains may be long.
    fn visit(&mut self, root: StatementId) -> Result<(), JoinError> {
        if self.seen.contains_key(&root) {
            return Ok(());
        }
        self.seen.insert(root, false);
        let mut open = vec![(root, self.named_by(root))];
        while let Some((place, wanted)) = open.last_mut() {
            let place = *place;
            let Some(next) = wanted.pop() else {
                self.steps.push(Step::Define(place));
                self.seen.insert(place, true);
                open.pop();
                continue;
            };
            match self.seen.get(&next) {
                Some(true) => {}
                Some(false) if next == place => {}
                Some(false) => self.announce(next)?,
                None => {
                    self.seen.insert(next, false);
                    let named = self.named_by(next);
                    open.push((next, named));
                }
            }
        }
        Ok(())
    }

    fn announce(&mut self, place: StatementId) -> Result<(), JoinError> {
        let statement = self.statement(place);
        if statement.linkage == Linkage::Local {
            return Err(JoinError::LocalCircle { name: String::from_utf8_lossy(statement.name).into_owned() });
        }
        if self.announced.insert(place) {
            self.steps.push(Step::Announce(place));
        }
        Ok(())
    }

    fn statement(&self, (part, index): StatementId) -> &'s Statement<'a> {
        &self.parts[part][index]
    }

    /// The variables that a value names, last first.
    fn named_by(&self, place: StatementId) -> Vec<StatementId> {
        let statement = self.statement(place);
        let value = &statement.text[statement.head..];
        let words = words(value).map(|word| &value[word]).filter(|word| !word[0].is_ascii_digit());
        let own = |word| self.known.get(&(Some(place.0), word)).or_else(|| self.known.get(&(None, word)));
        let mut found: Vec<StatementId> = words.filter_map(own).copied().collect();
        found.reverse();
        found
    }
}
