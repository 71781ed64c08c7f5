//! The table as Markdown, between marks in its page.

use super::compilers::Compiler;
use super::link::{self, Outcome};
use crate::failure::{Failure, Result};

type Row<'c> = (&'c Compiler, Vec<[Outcome; 2]>);

/// The lines that enclose the table of fatlink with an LLVM.
fn marks(llvm: u32) -> [String; 2] {
    [format!("<!-- releases with LLVM {llvm} -->\n"), format!("<!-- end of releases with LLVM {llvm} -->\n")]
}

/// The same text with another table.
pub fn replace(text: &str, llvm: u32, table: &str) -> Result<String> {
    let [begin, end] = marks(llvm);
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

#[cfg(test)]
mod tests {
    use super::super::compilers::COMPILERS;
    use super::*;

    #[test]
    fn the_page_has_a_row_for_every_release() {
        let page = include_str!("../../../docs/reference/platforms.md");
        for llvm in [22, 23] {
            let [begin, end] = marks(llvm);
            let table = page.split_once(&begin).and_then(|(_, rest)| rest.split_once(&end)).expect("a table").0;
            let rows: Vec<_> = table.lines().skip(3).filter(|line| line.starts_with('|')).collect();
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
        let new = replace(page, 22, "| new |\n").expect("a page with marks");
        assert_eq!(new, page.replace("old", "| new |"));
        assert!(replace(page, 23, "").is_err());
    }
}
