//! Joins several PTX modules into one, which the driver can load alone.
//!
//! A program that is compiled in partitions has a PTX module for each. The reader knows what LLVM's NVPTX backend writes. The result
//! follows what ptxas accepts (tried with CUDA 13.0): a function may be declared before its definition only with the definition's own
//! linkage and `.noreturn`; a variable may be announced as `.extern` of the same type, and even values of other variables may name it
//! then, but without `-c` ptxas warns about that, so only circles of variables are announced.
//!
//! ```
//! let part = |code: &str| format!(".version 8.8\n.target sm_90\n.address_size 64\n{code}");
//! let caller = part(".extern .func helper();\n.visible .entry kernel() { call helper; ret; }");
//! let callee = part(".visible .func helper() { ret; }");
//! let joined = offload_bundle::ptx::join::join(&[caller.as_bytes(), callee.as_bytes()])?;
//! assert!(String::from_utf8(joined)?.contains(".visible .func helper();"));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod error;
mod names;
mod order;
mod rewrite;

use std::collections::{HashMap, HashSet};

use super::scan::{self, Linkage, Statement, StatementKind};
pub use error::JoinError;
use names::{Names, PartStatements, StatementId};
use order::Step;

/// Joins the PTX of partitions of one program. Of each name that several parts share one definition is kept, a strong one if there is one.
/// Local names stay distinct, except constants of the same text.
///
/// # Errors
/// Parts of different versions or targets, with full debug information, or with a name that means two things, and text that LLVM does
/// not write. Such a program has to be compiled in one piece.
pub fn join(parts: &[&[u8]]) -> Result<Vec<u8>, JoinError> {
    if parts.is_empty() {
        return Err(JoinError::NoParts);
    }
    let scanned = parts.iter().enumerate().map(|(part, text)| scan(part, text));
    let scanned = scanned.collect::<Result<Vec<PartStatements<'_>>, JoinError>>()?;
    check_headers(&scanned)?;
    let mut names = names::resolve(&scanned)?;
    let files = number_files(&scanned, &mut names)?;
    let mut joiner =
        Joiner { parts: &scanned, names: &names, out: Vec::with_capacity(parts.iter().map(|text| text.len()).sum()) };
    joiner.header();
    joiner.function_declarations()?;
    joiner.variables()?;
    joiner.functions()?;
    joiner.rest(&files)?;
    Ok(joiner.out)
}

fn scan(part: usize, text: &[u8]) -> Result<PartStatements<'_>, JoinError> {
    scan::statements(text).map_err(|error| JoinError::Syntax { part, offset: error.offset, what: error.what })
}

/// `.version`, `.target` and `.address_size` must be the same, and nothing may describe the code of one part.
fn check_headers(parts: &[PartStatements<'_>]) -> Result<(), JoinError> {
    let header = |part: &PartStatements<'_>| -> Vec<Vec<u8>> {
        let lines = part.iter().filter(|statement| statement.kind == StatementKind::Header);
        lines.map(|line| line.text.iter().copied().filter(|byte| !byte.is_ascii_whitespace()).collect()).collect()
    };
    let first = header(&parts[0]);
    if first.len() != 3 {
        return Err(JoinError::NoHeader);
    }
    if let Some(other) = parts.iter().position(|part| header(part) != first) {
        return Err(JoinError::DifferentHeaders { part: other });
    }
    let is_debug = |statement: &Statement<'_>| match statement.kind {
        StatementKind::Header => statement.text.starts_with(b".target") && statement.text.ends_with(b"debug"),
        StatementKind::Section => !is_empty_section(statement),
        _ => false,
    };
    match parts.iter().flatten().any(is_debug) {
        true => Err(JoinError::FullDebugInfo),
        false => Ok(()),
    }
}

fn is_empty_section(statement: &Statement<'_>) -> bool {
    let body = &statement.text[statement.head..];
    body.iter().all(|byte| matches!(byte, b'{' | b'}') || byte.is_ascii_whitespace())
}

/// Renumbers the files so that each is named once; returns their lines, without the number, in the new order.
fn number_files<'a>(parts: &[PartStatements<'a>], names: &mut Names<'a>) -> Result<Vec<&'a [u8]>, JoinError> {
    let mut numbers: HashMap<&[u8], u64> = HashMap::new();
    let mut files = Vec::new();
    for (part, (statements, changes)) in parts.iter().zip(&mut names.changes).enumerate() {
        for file in statements.iter().filter(|statement| statement.kind == StatementKind::File) {
            let (number, name) = split_file(file.text).ok_or(JoinError::UnnumberedFile { part })?;
            let new = *numbers.entry(name).or_insert_with(|| {
                files.push(name);
                files.len() as u64
            });
            if new != number {
                changes.files.insert(number, new);
            }
        }
    }
    Ok(files)
}

/// `.file 3 "a.cu"` -> 3 and `"a.cu"`.
fn split_file(text: &[u8]) -> Option<(u64, &[u8])> {
    let rest = text.strip_prefix(b".file").unwrap_or(text).trim_ascii_start();
    let end = rest.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(rest.len());
    let number = std::str::from_utf8(&rest[..end]).ok().and_then(|digits| digits.parse().ok());
    let name = rest[end..].trim_ascii();
    number.map(|number| (number, name))
}

/// Writes the joined module.
struct Joiner<'j, 'a> {
    parts: &'j [PartStatements<'a>],
    names: &'j Names<'a>,
    out: Vec<u8>,
}

impl<'a> Joiner<'_, 'a> {
    /// The lines that all parts begin with.
    fn header(&mut self) {
        self.out.extend_from_slice(b"//\n// Generated by LLVM NVPTX Back-End, in parts\n//\n\n");
        for line in self.parts[0].iter().filter(|statement| statement.kind == StatementKind::Header) {
            self.out.extend_from_slice(line.text);
            self.out.push(b'\n');
        }
        self.out.push(b'\n');
    }

    /// Writes text of a part with that part's changes, on lines of its own.
    fn put(&mut self, part: usize, text: &[u8]) -> Result<(), JoinError> {
        self.names.changes[part].apply(text, &mut self.out)?;
        self.out.push(b'\n');
        Ok(())
    }

    /// All statements of some kinds, with their places.
    fn each(&self, wanted: impl Fn(&Statement<'a>) -> bool) -> Vec<(StatementId, Statement<'a>)> {
        let mut found = Vec::new();
        for (part, statements) in self.parts.iter().enumerate() {
            let places = statements.iter().enumerate().map(|(index, statement)| ((part, index), *statement));
            found.extend(places.filter(|(_, statement)| wanted(statement)));
        }
        found
    }

    /// Whether this statement of its name is kept. Local ones all are.
    fn stays(&self, place: StatementId, statement: &Statement<'_>) -> bool {
        match self.names.shared.get(statement.name) {
            Some(shared) if statement.linkage != Linkage::Local => shared.chosen() == Some(place),
            _ => true,
        }
    }

    /// First come all functions that may be called before they are defined.
    fn function_declarations(&mut self) -> Result<(), JoinError> {
        for (place, statement) in self.each(Statement::is_function) {
            if !self.stays(place, &statement) {
                continue;
            }
            if !statement.has_body {
                self.put(place.0, statement.text)?;
            } else if self.names.declared.contains(statement.name) && statement.linkage != Linkage::Local {
                self.put(place.0, &rewrite::declaration(&statement))?;
            }
        }
        Ok(())
    }

    /// Then the variables: undefined ones, then each behind what its value names.
    fn variables(&mut self) -> Result<(), JoinError> {
        for (place, statement) in self.each(|one| matches!(one.kind, StatementKind::Variable(_) | StatementKind::Other))
        {
            let shared = self.names.shared.get(statement.name).filter(|_| statement.linkage != Linkage::Local);
            let undefined =
                shared.is_some_and(|shared| shared.definition.is_none() && shared.declaration == Some(place));
            if statement.kind == StatementKind::Other || undefined {
                self.put(place.0, statement.text)?;
            }
        }
        for step in order::variables(self.parts, self.names)? {
            let statement = |(part, index): StatementId| &self.parts[part][index];
            match step {
                Step::Define(place) => self.put(place.0, statement(place).text)?,
                Step::Announce(place) => self.put(place.0, &rewrite::announcement(statement(place)))?,
            }
        }
        Ok(())
    }

    /// Then the functions with their bodies.
    fn functions(&mut self) -> Result<(), JoinError> {
        for (place, statement) in self.each(Statement::is_function) {
            if statement.has_body && self.stays(place, &statement) {
                self.put(place.0, statement.text)?;
            }
        }
        Ok(())
    }

    /// Last, aliases, which need their functions defined, sections and files.
    fn rest(&mut self, files: &[&[u8]]) -> Result<(), JoinError> {
        let mut written = HashSet::new();
        for (place, statement) in self.each(|one| matches!(one.kind, StatementKind::Alias | StatementKind::Section)) {
            let mut text = Vec::new();
            self.names.changes[place.0].apply(statement.text, &mut text)?;
            if written.insert(text.clone()) {
                self.out.extend_from_slice(&text);
                self.out.push(b'\n');
            }
        }
        for (index, name) in files.iter().enumerate() {
            self.out.extend_from_slice(format!("\t.file\t{} ", index + 1).as_bytes());
            self.out.extend_from_slice(name);
            self.out.push(b'\n');
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
