//! Changes the device images of a file, or of the files in a wheel, and shows the bytes before and after.

use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use indicatif::{ProgressBar, ProgressFinish, ProgressStyle};
use offload_bundle::host_object::Search;
use offload_bundle::listing::Row;
use offload_bundle::summary::{self, GroupChange};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::file_change::{Edit, FileChange};
use crate::output::{self, CommandOutput};
use crate::{expansion, files, input, packages, wheel};

#[derive(Args)]
pub struct EditArguments {
    /// The file to write, or a folder for it
    #[arg(short, long, value_name = "PATH", conflicts_with_all = ["in_place", "dry_run"])]
    pub output: Option<PathBuf>,
    /// Replace FILE
    #[arg(long, conflicts_with = "dry_run")]
    pub in_place: bool,
    /// Write nothing, and show the bytes before and after
    #[arg(long)]
    pub dry_run: bool,
}

/// Where the result goes.
pub enum Destination {
    /// Nowhere.
    DryRun,
    File(PathBuf),
    /// A file in a folder that does not exist yet.
    InNewFolder(PathBuf),
}

impl EditArguments {
    /// Where the result of editing `file` goes.
    pub fn destination(&self, file: &Path) -> Result<Destination> {
        match &self.output {
            _ if self.dry_run => Ok(Destination::DryRun),
            _ if self.in_place => Ok(Destination::File(file.to_owned())),
            None => Err(Error::NoDestination),
            // A wheel is installed only under its own name.
            Some(folder) if folder.is_dir() => Ok(Destination::File(folder.join(file.file_name().unwrap_or_default()))),
            Some(folder) if folder.as_os_str().as_encoded_bytes().ends_with(b"/") => {
                Ok(Destination::InNewFolder(folder.join(file.file_name().unwrap_or_default())))
            }
            Some(path) => Ok(Destination::File(path.clone())),
        }
    }
}

/// The JSON output. The field names are its keys.
#[derive(Serialize)]
struct EditReport {
    /// The path of the file that was written, or of the one that would be changed.
    file: String,
    written: bool,
    size_before: u64,
    size_after: u64,
    images: Vec<GroupChange>,
    /// The files in a wheel, or the file itself.
    files: Vec<FileChange>,
}

/// Edits a file or a wheel. `accept` is called when all files are edited and none is written; `nothing` is the error if nothing is to be
/// changed.
pub fn run(
    file: &Path,
    destination: &Destination,
    json: bool,
    edit: &Edit<'_>,
    accept: &dyn Fn() -> Result<()>,
    nothing: impl FnOnce() -> Error,
) -> Result<CommandOutput> {
    let path = match destination {
        Destination::DryRun => None,
        Destination::File(path) | Destination::InNewFolder(path) => Some(path.as_path()),
    };
    // The folder of an edit that fails or changes nothing is not made.
    let accept = &|changes: bool| {
        accept()?;
        let folder = match destination {
            Destination::InNewFolder(path) if changes => path.parent().unwrap_or(path),
            _ => return Ok(()),
        };
        std::fs::create_dir_all(folder).map_err(|source| Error::CreateFolder { path: folder.to_owned(), source })
    };
    let waiting = waiting(file);
    let (files, size_before, size_after) = if packages::is_zip(file)? {
        wheel::rewrite(file, path, edit, accept)?
    } else {
        of_file(file, path, edit, accept)?
    };
    drop(waiting);
    if files.is_empty() {
        return Err(nothing());
    }
    let rows = |of: fn(&FileChange) -> &Vec<Row>| files.iter().flat_map(of).collect::<Vec<_>>();
    let images = summary::changes(rows(|change| &change.before), rows(|change| &change.after));
    let report = EditReport {
        file: path.unwrap_or(file).display().to_string(),
        written: path.is_some(),
        size_before,
        size_after,
        images,
        files,
    };
    let text = if json { output::json(&report)? } else { text(&report) };
    Ok(CommandOutput::success(text))
}

/// Says on a terminal how long the edit of a file takes, until it is dropped. To compress a gigabyte well takes minutes.
fn waiting(file: &Path) -> ProgressBar {
    const INTERVAL: Duration = Duration::from_secs(1);
    let line = ProgressBar::new_spinner()
        .with_finish(ProgressFinish::AndClear)
        .with_message(offload_bundle::printable::name(&file.display().to_string()).into_owned());
    if let Ok(style) = ProgressStyle::with_template("{wide_msg} {elapsed}") {
        line.set_style(style);
    }
    line.enable_steady_tick(INTERVAL);
    line
}

fn of_file(
    file: &Path,
    path: Option<&Path>,
    edit: &Edit<'_>,
    accept: &dyn Fn(bool) -> Result<()>,
) -> Result<(Vec<FileChange>, u64, u64)> {
    let data = input::bytes(file)?;
    expansion::check(file, &data, Search::Sections, expansion::limits(data.len() as u64))?;
    let edited = edit(file, &data)?;
    accept(edited.is_some())?;
    let Some(edited) = edited else { return Ok((Vec::new(), 0, 0)) };
    let change = FileChange::new(&file.display().to_string(), &data, &edited)?;
    if let Some(path) = path {
        files::replace(path, &edited.bytes, file)?;
    }
    let sizes = (change.size_before, change.size_after);
    Ok((vec![change], sizes.0, sizes.1))
}

/// The fewest zeros that are reported. Up to two pages of each container are common.
const REPORTED_ZEROS: u64 = 16 * 1024;

fn text(report: &EditReport) -> String {
    let name = |name: &str| offload_bundle::printable::name(name).into_owned();
    let mut out = summary::changes_table(&report.images) + "\n";
    for FileChange { file, size_before, size_after, zeroed, notes, .. } in &report.files {
        let zeros = match *zeroed >= REPORTED_ZEROS {
            true => format!(", {zeroed} of them zeros, since nothing behind them may move"),
            false => String::new(),
        };
        out += &format!("{}: {size_before} -> {size_after} bytes{zeros}\n", name(file));
        notes.iter().for_each(|note| out += &format!("  {note}\n"));
    }
    let written = if report.written { "" } else { " (nothing is written)" };
    if report.files.len() > 1 || report.files.iter().any(|change| change.file != report.file) || !report.written {
        out += &format!("{}: {} -> {} bytes{written}\n", name(&report.file), report.size_before, report.size_after);
    }
    out
}
