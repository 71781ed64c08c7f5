//! `offload-bundle list`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::listing::{self, Row};
use offload_bundle::summary::{self, Group};
use serde::Serialize;

use crate::error::Result;
use crate::input;
use crate::output::{self, CommandOutput};
use crate::packages;

#[derive(Args)]
pub struct ListArguments {
    /// ELF objects, executables or libraries, archives, fatbins, cubins or offload binaries; folders and packages (.whl, .deb, .conda, .zip, .tar.*)
    /// that hold such files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Only images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// One line for all images of the same target, kind, section and compression, with their bytes; of all files together
    #[arg(long)]
    summary: bool,
    /// Print a JSON array of objects instead of columns; for several files, each object has the key `file`
    #[arg(long)]
    json: bool,
}

/// The images of one file.
struct Listed {
    file: String,
    rows: Vec<Row>,
}

/// One image of several files.
#[derive(Serialize)]
struct FileRow<'r> {
    file: &'r str,
    #[serde(flatten)]
    row: &'r Row,
}

pub fn run(arguments: &ListArguments) -> Result<CommandOutput> {
    let wanted = &arguments.section;
    let mut listed = Vec::new();
    let mut errors = packages::visit(&arguments.files, &mut |content| {
        let mut rows = input::parse(content, |data, read_thin| listing::list(data, read_thin))?;
        rows.retain(|row| wanted.is_empty() || row.section.as_ref().is_some_and(|section| wanted.contains(section)));
        if content.is_named || !rows.is_empty() {
            listed.push(Listed { file: content.name.clone(), rows });
        }
        Ok(())
    });
    let are_several = packages::are_several(&arguments.files);
    if !are_several && let Some(error) = errors.pop() {
        return Err(error);
    }
    let text = match (arguments.summary, are_several) {
        (true, _) => summary_text(&listed, arguments.json)?,
        (false, true) => text_of_several(&listed, arguments.json)?,
        (false, false) => text_of_one(&listed, arguments.json)?,
    };
    Ok(CommandOutput { errors, ..CommandOutput::success(text) })
}

fn text_of_one(listed: &[Listed], json: bool) -> Result<String> {
    let rows = listed.first().map_or(&[][..], |listed| &listed.rows);
    if json { output::json(&rows) } else { Ok(listing::table(rows)) }
}

fn text_of_several(listed: &[Listed], json: bool) -> Result<String> {
    if json {
        let rows = listed.iter().flat_map(|Listed { file, rows }| rows.iter().map(move |row| FileRow { file, row }));
        return output::json(&rows.collect::<Vec<_>>());
    }
    let tables = listed.iter().map(|Listed { file, rows }| format!("{file}:\n{}", listing::table(rows)));
    let text = tables.collect::<Vec<_>>().join("\n");
    Ok(if text.is_empty() { listing::table(&[]) } else { text })
}

fn summary_text(listed: &[Listed], json: bool) -> Result<String> {
    let groups: Vec<Group> = summary::summarize(listed.iter().flat_map(|listed| &listed.rows));
    if json { output::json(&groups) } else { Ok(summary::table(&groups)) }
}
