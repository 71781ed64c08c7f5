//! `offload-bundle diff`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::difference::{self, ComparedImage, Difference, TargetDifference};
use offload_bundle::host_object::Search;
use offload_bundle::{GpuArch, printable};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::input;
use crate::names;
use crate::output::{self, CommandOutput};
use crate::packages::{self, Parts};

#[derive(Args)]
pub struct DiffArguments {
    /// A file with device images, or a folder or package (.whl, .deb, .conda, .zip, .tar.*) of such files; with --within, a target
    left: PathBuf,
    /// What to compare it with: the files in two folders or packages are compared by their names in there; with --within, another target
    right: PathBuf,
    /// Compare the cubins for two targets in the fatbins of this file: `--within lib.so sm_89 sm_86`
    #[arg(long, value_name = "FILE", conflicts_with = "contents")]
    within: Option<PathBuf>,
    /// Compare the contents of the images, not how they are compressed, named and labelled
    #[arg(long)]
    contents: bool,
    /// A line for each image that differs, however many there are, with all functions that do
    #[arg(long)]
    full: bool,
    /// Print the names of functions as the compiler mangled them
    #[arg(long)]
    no_demangle: bool,
    /// Print a JSON object instead of lines; for folders and packages an array of them
    #[arg(long)]
    json: bool,
}

/// The JSON output. The field names are its keys.
#[derive(Serialize)]
struct DiffReport {
    left: String,
    right: String,
    #[serde(flatten)]
    difference: Difference,
}

/// The JSON output for the targets in one file. The field names are its keys.
#[derive(Serialize)]
struct WithinReport {
    file: String,
    #[serde(flatten)]
    difference: TargetDifference,
}

pub fn run(arguments: &DiffArguments) -> Result<CommandOutput> {
    if let Some(file) = &arguments.within {
        return run_within(file, arguments);
    }
    let (left, right) = match (images(&arguments.left), images(&arguments.right)) {
        (Ok(left), Ok(right)) => (left, right),
        (left, right) => return Err(Error::Several([left.err(), right.err()].into_iter().flatten().collect())),
    };
    let are_several =
        [&arguments.left, &arguments.right].iter().any(|path| packages::are_several(std::slice::from_ref(*path)));
    let reports = match are_several {
        true => by_name(&left, &right, arguments),
        false => Vec::from_iter(left.values().zip(right.values()).map(|(left, right)| report(left, right, arguments))),
    };
    let is_equal = reports.iter().all(|report| report.difference.equal);
    let text = match (arguments.json, reports.first()) {
        (true, Some(report)) if !are_several => output::json(report)?,
        (true, _) => output::json(&reports)?,
        _ => reports.iter().map(|report| text(report, arguments)).collect(),
    };
    Ok(CommandOutput { text, exit_code: u8::from(!is_equal), errors: Vec::new() })
}

/// Compares the cubins for two targets.
fn run_within(file: &Path, arguments: &DiffArguments) -> Result<CommandOutput> {
    let target = |text: &Path| -> Result<GpuArch> {
        let text = text.display().to_string();
        text.parse().map_err(|_| Error::NoTarget { text })
    };
    let (left, right) = (target(&arguments.left)?, target(&arguments.right)?);
    let mut reports = Vec::new();
    let errors = packages::visit(&[file.to_path_buf()], Parts::All, &mut |content| {
        let difference = input::parse(content, Search::Sections, |data, _| TargetDifference::new(data, left, right))?;
        match difference.missing() {
            Some(target) if content.is_named => {
                return Err(Error::NoCubinFor { file: content.name.clone().into(), target });
            }
            Some(_) => {}
            None => reports.push(WithinReport { file: content.name.clone(), difference }),
        }
        Ok(())
    });
    Error::all(errors)?;
    if reports.is_empty() {
        return Err(Error::NoCubinFor { file: file.to_owned(), target: left });
    }
    let is_equal = reports.iter().all(|report| report.difference.is_equal());
    let text = match (arguments.json, &reports[..]) {
        (true, [report]) if !packages::are_several(&[file.to_path_buf()]) => output::json(report)?,
        (true, _) => output::json(&reports)?,
        _ => reports.iter().map(|report| text_within(report, arguments)).collect(),
    };
    Ok(CommandOutput { text, exit_code: u8::from(!is_equal), errors: Vec::new() })
}

fn text_within(report: &WithinReport, arguments: &DiffArguments) -> String {
    if report.difference.is_equal() {
        return String::new();
    }
    let changes = report.difference.text(arguments.full, &|name| shown(name, arguments));
    let (file, TargetDifference { left, right, .. }) = (printable::name(&report.file), &report.difference);
    format!("--- {file} {left}\n+++ {file} {right}\n{changes}")
}

/// What is printed of a function's name.
fn shown(name: &str, arguments: &DiffArguments) -> String {
    /// Several names share a line.
    const ROOM: usize = 60;
    let room = names::terminal_width().filter(|_| !arguments.full).map(|_| ROOM);
    if arguments.no_demangle { name.to_owned() } else { names::demangled(name, room) }
}

/// The images of a file, which is called so.
struct Images {
    file: String,
    images: Vec<ComparedImage>,
}

/// The images of the files that a path names or holds, by the names that the files have in there, without hashes. Those without images are left out of
/// folders and packages.
fn images(path: &Path) -> Result<BTreeMap<String, Images>> {
    let mut found = BTreeMap::new();
    let errors = packages::visit(&[path.to_path_buf()], Parts::All, &mut |content| {
        let images = input::parse(content, Search::Sections, |data, read_thin| difference::images(data, read_thin))?;
        if content.is_named || !images.is_empty() {
            let file = content.name.clone();
            let inside = file.strip_prefix(&path.display().to_string()).unwrap_or(&file).trim_start_matches([':', '/']);
            found.insert(packages::without_hash(inside, &found), Images { file, images });
        }
        Ok(())
    });
    Error::all(errors)?;
    Ok(found)
}

/// Compares files of the same name, and each other one with nothing. Files that are equal have no report, nor have those that have another name
/// on the other side.
fn by_name(
    left: &BTreeMap<String, Images>,
    right: &BTreeMap<String, Images>,
    arguments: &DiffArguments,
) -> Vec<DiffReport> {
    let alone = |own: &'_ BTreeMap<String, Images>, other: &BTreeMap<String, Images>| -> Vec<String> {
        own.keys().filter(|name| !other.contains_key(*name)).cloned().collect()
    };
    let mut renamed = BTreeSet::new();
    let mut others = alone(right, left);
    for name in alone(left, right) {
        let is_same = |other: &String| {
            let (left, right) = (left.get(&name), right.get(other));
            left.zip(right).is_some_and(|(left, right)| report(left, right, arguments).difference.equal)
        };
        if let Some(place) = others.iter().position(is_same) {
            renamed.extend([name, others.swap_remove(place)]);
        }
    }
    let names: BTreeSet<&String> = left.keys().chain(right.keys()).filter(|name| !renamed.contains(*name)).collect();
    let none = || Images { file: "nothing".to_owned(), images: Vec::new() };
    let compared = names.into_iter().map(|name| match (left.get(name), right.get(name)) {
        (Some(left), Some(right)) => report(left, right, arguments),
        (Some(left), None) => report(left, &none(), arguments),
        (None, right) => {
            right.map_or_else(|| report(&none(), &none(), arguments), |right| report(&none(), right, arguments))
        }
    });
    compared.filter(|report| !report.difference.equal).collect()
}

fn report(left: &Images, right: &Images, arguments: &DiffArguments) -> DiffReport {
    let difference = Difference::new(&left.images, &right.images, arguments.contents);
    DiffReport { left: left.file.clone(), right: right.file.clone(), difference }
}

fn text(report: &DiffReport, arguments: &DiffArguments) -> String {
    if report.difference.equal {
        return String::new();
    }
    let name = |name: &str| printable::name(name).into_owned();
    let changes = report.difference.text(arguments.full, &|name| shown(name, arguments));
    format!("--- {}\n+++ {}\n{changes}", name(&report.left), name(&report.right))
}
