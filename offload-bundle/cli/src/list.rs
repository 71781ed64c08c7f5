//! `offload-bundle list`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::listing::{self, Row};
use offload_bundle::printable;
use offload_bundle::summary::{self, Group};
use serde::Serialize;

use crate::error::Result;
use crate::input::{self, search};
use crate::output::{self, CommandOutput};
use crate::packages::{self, Parts};

#[derive(Args)]
pub struct ListArguments {
    /// ELF objects, executables or libraries, archives, fatbins, cubins or offload binaries; folders and packages (.whl, .deb, .conda, .zip, .tar.*)
    /// that hold such files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// Only images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Also look for fatbins outside of the sections for device code, among the data of a program or library (as in libcufft)
    #[arg(long)]
    scan: bool,
    /// One line for all images of the same target, kind, section and compression, with their bytes; of all files together
    #[arg(long)]
    summary: bool,
    /// A line for each image, however many there are; by default, more than 40 are summed up
    #[arg(long, conflicts_with = "summary")]
    full: bool,
    /// Print a JSON array of objects instead of columns; for several files, each object has the key `file`
    #[arg(long)]
    json: bool,
}

/// The most images that have a line each unless --full says so: what fits a screen.
const MOST_LINES: usize = 40;

/// The images and kept results of one file.
struct Listed {
    file: String,
    rows: Vec<Row>,
    /// Why there are none, if there are none.
    why_none: &'static str,
}

/// One row of several files.
#[derive(Serialize)]
struct FileRow<'r> {
    file: &'r str,
    #[serde(flatten)]
    row: &'r Row,
}

pub fn run(arguments: &ListArguments) -> Result<CommandOutput> {
    let wanted = &arguments.section;
    let mut listed = Vec::new();
    let mut errors = packages::visit(&arguments.files, Parts::All, &mut |content| {
        let search = search(arguments.scan);
        let mut rows =
            input::parse(content, search, |data, read_thin| listing::list_with_results(data, read_thin, search))?;
        rows.retain(|row| wanted.is_empty() || row.section.as_ref().is_some_and(|section| wanted.contains(section)));
        if content.is_named || !rows.is_empty() {
            let why_none = if wanted.is_empty() { listing::why_none(content.data) } else { "none in these sections" };
            listed.push(Listed { file: content.name.clone(), rows, why_none });
        }
        Ok(())
    });
    let are_several = packages::are_several(&arguments.files);
    if !are_several && let Some(error) = errors.pop() {
        return Err(error);
    }
    let lines: usize = listed.iter().map(|listed| listed.rows.len()).sum();
    let text = match are_several {
        _ if arguments.summary => summary_text(&listed, arguments.json)?,
        true if arguments.json => json_of_several(&listed)?,
        false if arguments.json => output::json(&listed.first().map_or(&[][..], |listed| &listed.rows))?,
        _ if lines > MOST_LINES && !arguments.full => summed_up(&listed)?,
        true => text_of_several(&listed),
        false => listed.first().map_or(String::new(), table),
    };
    Ok(CommandOutput { errors, ..CommandOutput::success(text) })
}

/// The table of one file's images.
fn table(Listed { rows, why_none, .. }: &Listed) -> String {
    if rows.is_empty() { format!("no device images: {why_none}\n") } else { listing::table(rows) }
}

fn json_of_several(listed: &[Listed]) -> Result<String> {
    let rows = listed.iter().flat_map(|Listed { file, rows, .. }| rows.iter().map(move |row| FileRow { file, row }));
    output::json(&rows.collect::<Vec<_>>())
}

fn text_of_several(listed: &[Listed]) -> String {
    let tables = listed.iter().map(|listed| format!("{}:\n{}", printable::name(&listed.file), table(listed)));
    let text = tables.collect::<Vec<_>>().join("\n");
    if text.is_empty() { "no device images in any file\n".to_owned() } else { text }
}

/// The groups of many images.
fn summed_up(listed: &[Listed]) -> Result<String> {
    let count = listed.iter().flat_map(|listed| &listed.rows).filter(|row| row.is_image()).count();
    let files = listed.iter().filter(|listed| !listed.rows.is_empty()).count();
    let of_files = if files > 1 { format!(" in {files} files") } else { String::new() };
    Ok(format!("{}\n{count} images{of_files}; --full has a line for each\n", summary_text(listed, false)?))
}

fn summary_text(listed: &[Listed], json: bool) -> Result<String> {
    let groups: Vec<Group> = summary::summarize(listed.iter().flat_map(|listed| &listed.rows));
    if json { output::json(&groups) } else { Ok(summary::table(&groups)) }
}
