//! Tables, and the texts that they refer to. A text that many rows have is stored once.

use std::collections::HashMap;

use offload_bundle::printable;
use serde::Serialize;

/// Texts by number.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Texts {
    /// Names of functions: as people read them, and mangled if that differs.
    names: Vec<(String, Option<String>)>,
    /// Other texts.
    texts: Vec<String>,
    #[serde(skip)]
    known_names: HashMap<String, usize>,
    #[serde(skip)]
    known_texts: HashMap<String, usize>,
}

/// Turns a mangled name into one that people read.
pub type Demangle<'d> = &'d dyn Fn(&str) -> String;

impl Texts {
    /// The number of a function's name.
    pub fn name(&mut self, mangled: &str, demangle: Demangle<'_>) -> usize {
        if let Some(number) = self.known_names.get(mangled) {
            return *number;
        }
        let number = self.names.len();
        let shown = printable::name(&demangle(mangled)).into_owned();
        let mangled_shown = printable::name(mangled).into_owned();
        self.names.push((shown.clone(), (shown != mangled_shown).then_some(mangled_shown)));
        self.known_names.insert(mangled.to_owned(), number);
        number
    }

    /// The number of a text, as a cell of a table.
    pub fn text(&mut self, text: &str) -> Cell {
        let number = self.known_texts.get(text).copied().unwrap_or_else(|| {
            self.known_texts.insert(text.to_owned(), self.texts.len());
            self.texts.push(printable::name(text).into_owned());
            self.texts.len() - 1
        });
        Cell::Number(number as u64)
    }

    /// How many names there are.
    pub fn names(&self) -> usize {
        self.names.len()
    }
}

/// One cell.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[serde(untagged)]
pub enum Cell {
    /// Not recorded.
    None,
    /// A number, or that of a text.
    Number(u64),
    /// A difference.
    Change(i64),
    /// Seconds.
    Seconds(f64),
}

impl<N: Into<u64>> From<Option<N>> for Cell {
    fn from(number: Option<N>) -> Self {
        number.map_or(Cell::None, |number| Cell::Number(number.into()))
    }
}

impl From<u64> for Cell {
    fn from(number: u64) -> Self {
        Cell::Number(number)
    }
}

/// What the cells of a column are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum CellKind {
    /// The number of a function's name.
    Name,
    /// The number of a text.
    Text,
    /// A number.
    Number,
    /// A number of bytes.
    Bytes,
    /// A signed number.
    Change,
    /// Seconds.
    Seconds,
}

/// A column of a table.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Column {
    /// The word by which filters name it.
    pub key: &'static str,
    /// Its heading.
    pub label: &'static str,
    /// What it means.
    pub help: &'static str,
    /// What its cells are.
    pub kind: CellKind,
}

impl Column {
    /// A column.
    pub const fn new(key: &'static str, label: &'static str, kind: CellKind, help: &'static str) -> Self {
        Self { key, label, help, kind }
    }
}

/// A table.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Table {
    /// Its id in the page.
    pub id: &'static str,
    /// Its heading.
    pub title: &'static str,
    /// A remark below the heading.
    pub note: String,
    /// Its columns.
    pub columns: Vec<Column>,
    /// Its rows, of as many cells.
    pub rows: Vec<Vec<Cell>>,
    /// The column by which it is sorted at first, the largest first.
    pub sorted_by: Option<usize>,
}
