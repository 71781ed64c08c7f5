//! `offload-bundle report`.

use std::path::{Path, PathBuf};

use clap::Args;
use html_report::difference::{self, Side};
use html_report::{FileContents, Page, contents, files};
use offload_bundle::difference::images;
use offload_bundle::host_object::Search;

use crate::error::{Error, Result};
use crate::input::{self, search};
use crate::names;
use crate::output::CommandOutput;
use crate::packages::{self, Content, Parts};

/// What writes the reports.
const PRODUCER: &str = concat!("offload-bundle ", env!("CARGO_PKG_VERSION"));

#[derive(Args)]
pub struct ReportArguments {
    /// ELF objects, executables or libraries, archives, fatbins, cubins or offload binaries; folders and packages (.whl, .deb, .conda, .zip,
    /// .tar.*) that hold such files
    #[arg(required = true)]
    files: Vec<PathBuf>,
    /// The HTML file to write; - for standard output
    #[arg(short, long)]
    output: PathBuf,
    /// Show what differs: FILES are two, the old one and the new one; the files of folders and packages are compared by their names in there
    #[arg(long)]
    diff: bool,
    /// Also look for fatbins outside of the sections for device code, among the data of a program or library (as in libcufft)
    #[arg(long)]
    scan: bool,
    /// Show names as the compiler mangled them
    #[arg(long)]
    no_demangle: bool,
}

pub fn run(arguments: &ReportArguments) -> Result<CommandOutput> {
    let demangle = |name: &str| match arguments.no_demangle {
        true => name.to_owned(),
        false => names::demangled(name, None),
    };
    let page = match (arguments.diff, arguments.files.as_slice()) {
        (false, paths) => of_files(paths, arguments.scan, &demangle)?,
        (true, [old, new]) => match (side(old, arguments.scan), side(new, arguments.scan)) {
            (Ok(old), Ok(new)) => difference::page(&old, &new, PRODUCER, &demangle),
            (old, new) => return Err(Error::Several([old.err(), new.err()].into_iter().flatten().collect())),
        },
        (true, paths) => return Err(Error::NotTwoFiles { count: paths.len() }),
    };
    let html = page.html()?;
    if arguments.output == Path::new("-") {
        return Ok(CommandOutput::success(html));
    }
    crate::files::write(&arguments.output, html.as_bytes())?;
    Ok(CommandOutput::success(String::new()))
}

/// A page of all files with device images. A file that cannot be read fails the command: a report that lacks it would mislead.
fn of_files(paths: &[PathBuf], is_scan: bool, demangle: &dyn Fn(&str) -> String) -> Result<Page> {
    let mut found = Vec::new();
    let errors = packages::visit(paths, Parts::All, &mut |content| {
        found.extend(read(content, content.name.clone(), is_scan)?);
        Ok(())
    });
    Error::all(errors)?;
    if found.is_empty() {
        let file = paths.first().cloned().unwrap_or_default();
        return Err(Error::NothingInside { file, others: paths.len().saturating_sub(1), nothing: "no device images" });
    }
    contents::leave_out_common_folder(&mut found);
    let page = files::page(&found, PRODUCER, demangle);
    // A package or a folder has a name of its own.
    let name = match paths {
        [path] if packages::are_several(paths) => path.file_name().map(|name| name.to_string_lossy().into_owned()),
        _ => None,
    };
    Ok(match name {
        Some(name) => page.titled(&name),
        None => page,
    })
}

/// Reads a file; `None` if it has no images and need not have any.
fn read(content: &Content<'_>, name: String, is_scan: bool) -> Result<Option<FileContents>> {
    let search = search(is_scan);
    let read = input::parse(content, search, |data, read_thin| FileContents::read(&name, data, read_thin, search))?;
    match (read.images.is_empty(), content.is_named) {
        (false, _) => Ok(Some(read)),
        (true, false) => Ok(None),
        (true, true) => Err(Error::NoImages { file: content.name.clone().into() }),
    }
}

/// Reads one side of a comparison. Files are named as they are in there.
fn side(path: &Path, is_scan: bool) -> Result<Side> {
    let mut side = Side { name: path.display().to_string(), ..Side::default() };
    let errors = packages::visit(&[path.to_path_buf()], Parts::All, &mut |content| {
        let inside = content.name.strip_prefix(&side.name).unwrap_or(&content.name);
        let inside = packages::without_hash(inside.trim_start_matches([':', '/']), &side.compared);
        let name = if inside.is_empty() { "the file".to_owned() } else { inside };
        if let Some(file) = read(content, name.clone(), is_scan)? {
            side.compared
                .insert(name, input::parse(content, Search::Sections, |data, read_thin| images(data, read_thin))?);
            side.files.push(file);
        }
        Ok(())
    });
    Error::all(errors)?;
    if side.files.is_empty() {
        return Err(Error::NothingInside { file: path.to_owned(), others: 0, nothing: "no device images" });
    }
    Ok(side)
}
