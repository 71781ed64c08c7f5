//! The table as Markdown, between marks in its page.

use super::compilers::Compiler;
use super::link::{self, Outcome};
use crate::failure::{Failure, Result};

type Row<'c> = (&'c Compiler, Vec<[Outcome; 2]>);

/// What the table of fatlink with an LLVM is called.
pub fn with_llvm(llvm: u32) -> String {
    format!("releases with LLVM {llvm}")
}

/// The lines that enclose a table.
fn marks(name: &str) -> [String; 2] {
    [format!("<!-- {name} -->\n"), format!("<!-- end of {name} -->\n")]
}

/// The same text with another table of this name.
pub fn replace(text: &str, name: &str, table: &str) -> Result<String> {
    let [begin, end] = marks(name);
    let missing = || Failure::new(format!("{} has no {begin}", super::PAGE));
    let (before, rest) = text.split_once(&begin).ok_or_else(missing)?;
    let (_, after) = rest.split_once(&end).ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{table}\n{end}{after}"))
}

/// The table: a row for each release, and in each cell its objects, and the release as the driver.
pub fn render(rows: &[Row<'_>]) -> String {
    let titles = link::kinds(std::path::Path::new("")).map(|kind| kind.title);
    let mut text = format!("| clang | {} |\n|{}\n", titles.join(" | "), " --- |".repeat(titles.len() + 1));
    for (compiler, cells) in rows {
        let cells: Vec<_> = cells.iter().map(cell).collect();
        text += &format!("| {} | {} |\n", compiler.release, cells.join(" | "));
    }
    text
}

fn cell([objects, driver]: &[Outcome; 2]) -> String {
    if objects == driver { word(objects).to_owned() } else { format!("{}, {}", word(objects), word(driver)) }
}

fn word(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Works => "yes",
        Outcome::Rejected(_) => "error",
        Outcome::Untried => "not tried",
    }
}

/// The row in one line of the terminal, with the errors.
pub fn summary(row: &[[Outcome; 2]]) -> String {
    let errors = row.iter().flatten().filter_map(|outcome| match outcome {
        Outcome::Rejected(error) => Some(error.as_str()),
        _ => None,
    });
    row.iter().map(cell).chain(errors.take(1).map(str::to_owned)).collect::<Vec<_>>().join(" | ")
}

/// The rows of a table, without its head.
#[cfg(test)]
pub fn rows<'p>(page: &'p str, name: &str) -> Option<Vec<&'p str>> {
    let [begin, end] = marks(name);
    let (table, _) = page.split_once(&begin)?.1.split_once(&end)?;
    Some(table.lines().filter(|line| line.starts_with('|')).skip(2).collect())
}

#[cfg(test)]
mod tests {
    use super::super::compilers::COMPILERS;
    use super::*;

    #[test]
    fn the_page_has_a_row_for_every_release() {
        let page = include_str!("../../../docs/reference/platforms.md");
        for llvm in [22, 23] {
            let rows = rows(page, &with_llvm(llvm)).expect("a table");
            assert_eq!(rows.len(), COMPILERS.len());
            for (row, compiler) in rows.iter().zip(&COMPILERS) {
                assert!(row.starts_with(&format!("| {} |", compiler.release)), "{row}");
                assert_eq!(row.matches(" | ").count(), link::kinds(std::path::Path::new("")).len(), "{row}");
            }
        }
    }

    #[test]
    fn a_cell_names_objects_and_driver_where_they_differ() {
        assert_eq!(cell(&[Outcome::Works, Outcome::Works]), "yes");
        assert_eq!(cell(&[Outcome::Works, Outcome::Rejected("why".to_owned())]), "yes, error");
    }

    #[test]
    fn replacing_a_table_keeps_the_rest_of_the_page() {
        let page = "a\n<!-- releases with LLVM 22 -->\n\nold\n\n<!-- end of releases with LLVM 22 -->\nb\n";
        let new = replace(page, &with_llvm(22), "| new |\n").expect("a page with marks");
        assert_eq!(new, page.replace("old", "| new |"));
        assert!(replace(page, &with_llvm(23), "").is_err());
    }
}
