//! `offload-bundle strip`.

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use clap::{ArgGroup, Args};
use offload_bundle::coverage::gate::Requirement;
use offload_bundle::coverage::{Driver, GpuWord, Gpus};
use offload_bundle::host_object::Search;
use offload_bundle::listing::Row;
use offload_bundle::printable;
use offload_bundle::selection::Selector;
use offload_bundle::strip::{self, Choice, Replaced, Summary};
use serde::Serialize;

use crate::edit::{self, EditArguments};
use crate::error::{Error, Result};
use crate::file_change::Edited;
use crate::gate::promise::still_runs;
use crate::output::{self, CommandOutput};
use crate::{files, input};

#[derive(Args)]
#[command(group = ArgGroup::new("choice").required(true).multiple(true))]
pub struct StripArguments {
    /// An executable, shared library, object, archive, fatbin or offload binary; with --for or --equal also a wheel
    file: PathBuf,
    /// Drop these images
    #[arg(long, value_name = "IMAGES", group = "choice")]
    drop: Vec<Selector>,
    /// Drop all images but these
    #[arg(long, value_name = "IMAGES", group = "choice")]
    keep: Vec<Selector>,
    /// Drop what none of these GPUs needs, such as sm_80,H100, sm_80..sm_90, all-supported or gfx90a, as `explain` predicts it. Something must run on each. What is for GPUs of the other vendor stays
    #[arg(long = "for", id = "gpus", group = "choice", value_name = "GPU,...", value_delimiter = ',', conflicts_with_all = ["drop", "keep", "section"])]
    gpus: Vec<GpuWord>,
    /// Drop each image whose code equals that of another one, if every GPU that runs it runs the other one without it, as `check` reports (FB027)
    #[arg(long, group = "choice", conflicts_with_all = ["drop", "keep", "section", "gpus", "allow_empty"])]
    equal: bool,
    /// With --for: the drivers that must run it, such as 535,580; by default, one that is new enough
    #[arg(long, value_name = "DRIVER,...", value_delimiter = ',', requires = "gpus")]
    driver: Vec<Driver>,
    /// Drop only images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Drop even the last image of a container. With --for, one image stays of a container of which the GPUs need none, unless this is given
    #[arg(long)]
    allow_empty: bool,
    #[command(flatten)]
    edit: EditArguments,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

/// The JSON output. The field names are its keys.
#[derive(Serialize)]
struct StripReport {
    /// The path of the file that was written.
    file: String,
    #[serde(flatten)]
    summary: Summary,
}

pub fn run(arguments: &StripArguments) -> Result<CommandOutput> {
    if !arguments.gpus.is_empty() {
        return run_for_gpus(arguments);
    }
    if arguments.equal {
        return run_equal(arguments);
    }
    let StripArguments { drop, keep, section, allow_empty, .. } = arguments;
    let choice = Choice {
        drop: drop.clone(),
        keep: keep.clone(),
        sections: section.clone(),
        allow_empty: *allow_empty,
        only: None,
    };
    let (bytes, summary) = input::read(&arguments.file, Search::Sections, |data, _| {
        let stripped = strip::strip(data, &choice)?;
        // An unchanged file is not written, so its bytes need not be copied.
        let bytes = if stripped.summary.dropped.is_empty() { Vec::new() } else { stripped.bytes.into_owned() };
        Ok((bytes, stripped.summary))
    })?;
    if summary.dropped.is_empty() {
        let file = arguments.file.clone();
        return Err(match summary.kept {
            0 => Error::NoImages { file },
            count => Error::NothingDropped { file, count },
        });
    }
    // By default, FILE is replaced.
    let path = arguments.edit.output.as_ref().unwrap_or(&arguments.file);
    if !arguments.edit.dry_run {
        files::replace(path, &bytes, &arguments.file)?;
    }
    let report = StripReport { file: path.display().to_string(), summary };
    let text = if arguments.json { output::json(&report)? } else { text(&report) };
    Ok(CommandOutput::success(text))
}

/// Drops what some GPUs do not need.
fn run_for_gpus(arguments: &StripArguments) -> Result<CommandOutput> {
    let gpus = Gpus::of_words(&arguments.gpus);
    let (all, named) = (gpus.names(), GpuWord::named(&arguments.gpus));
    // What an older driver runs, a later one does, too; the others are judged below.
    let driver = arguments.driver.iter().copied().min().unwrap_or_default();
    let requirement = Requirement { gpus: gpus.clone(), drivers: arguments.driver.clone(), ..Requirement::default() };
    let kept = Cell::new(0);
    // The GPUs on which no container runs, of all files with containers that programs load.
    let unserved: RefCell<Option<Gpus>> = RefCell::new(None);
    let strip = |file: &Path, data: &[u8]| {
        let stripped = strip::strip_for(data, &gpus, driver, arguments.allow_empty)
            .map_err(|source| Error::Parse { file: file.to_owned(), source })?;
        kept.set(kept.get() + stripped.summary.kept);
        if let Some(served) = &stripped.served {
            let mut unserved = unserved.borrow_mut();
            let left = unserved.get_or_insert_with(|| gpus.clone());
            left.nvidia.retain(|gpu| !served.nvidia.contains(gpu));
            left.amd.retain(|gpu| !served.amd.contains(gpu));
        }
        if stripped.summary.dropped.is_empty() {
            return Ok(None);
        }
        still_runs(file, data, &stripped.bytes, &requirement)?;
        let zeroed = stripped.summary.zeroed;
        Ok(Some(Edited { bytes: stripped.bytes.into_owned(), zeroed, notes: Vec::new() }))
    };
    let destination = arguments.edit.destination(&arguments.file)?;
    let file = || arguments.file.clone();
    let accept = || {
        let unserved = unserved.borrow();
        let nvidia = unserved.iter().flat_map(|gpus| &gpus.nvidia).map(ToString::to_string);
        let amd = unserved.iter().flat_map(|gpus| &gpus.amd).map(ToString::to_string);
        let mut gpus: Vec<String> = nvidia.chain(amd).collect();
        // Of a range, some GPUs are enough.
        if gpus.len() < all.len() {
            gpus.retain(|gpu| named.contains(gpu));
        }
        if gpus.is_empty() { Ok(()) } else { Err(Error::Unserved { file: file(), gpus }) }
    };
    edit::run(&arguments.file, &destination, arguments.json, &strip, &accept, || match kept.get() {
        0 => Error::NoImages { file: file() },
        count => Error::AllNeeded { file: file(), count },
    })
}

/// Drops images that are there twice, for several targets.
fn run_equal(arguments: &StripArguments) -> Result<CommandOutput> {
    let count = Cell::new(0);
    let strip = |file: &Path, data: &[u8]| {
        let (stripped, replaced) =
            strip::strip_equal(data).map_err(|source| Error::Parse { file: file.to_owned(), source })?;
        count.set(count.get() + stripped.summary.kept);
        if stripped.summary.dropped.is_empty() {
            return Ok(None);
        }
        let notes = replaced.iter().map(replaced_note).collect();
        let zeroed = stripped.summary.zeroed;
        Ok(Some(Edited { bytes: stripped.bytes.into_owned(), zeroed, notes }))
    };
    let destination = arguments.edit.destination(&arguments.file)?;
    let file = || arguments.file.clone();
    edit::run(&arguments.file, &destination, arguments.json, &strip, &|| Ok(()), || match count.get() {
        0 => Error::NoImages { file: file() },
        count => Error::NothingEqual { file: file(), count },
    })
}

/// `sm_89 runs the cubin for sm_86 in place of the equal one for sm_89, in 182 fatbins`.
fn replaced_note(replaced: &Replaced) -> String {
    let Replaced { target, instead, gpu, count } = replaced;
    let plural = if *count == 1 { "" } else { "s" };
    format!("{gpu} runs the cubin for {instead} in place of the equal one for {target}, in {count} fatbin{plural}")
}

/// The fewest zeros that are reported. Up to two pages of each container are common.
const REPORTED_ZEROS: u64 = 16 * 1024;

fn text(report: &StripReport) -> String {
    let Summary { size_before, size_after, zeroed, dropped, kept } = &report.summary;
    let mut out = dropped_lines(dropped);
    let plural = if *kept == 1 { "" } else { "s" };
    out += &format!("{}: {size_before} -> {size_after} bytes, {kept} image{plural} left\n", report.file);
    if *zeroed >= REPORTED_ZEROS {
        out += &format!("{zeroed} bytes that are no longer used stay as zeros, since nothing behind them may move\n");
    }
    out
}

/// A line for each image, or if they are many, for each kind and target.
fn dropped_lines(dropped: &[Row]) -> String {
    /// What fits a screen.
    const MOST_LINES: usize = 40;
    if dropped.len() <= MOST_LINES {
        return dropped.iter().map(|row| format!("dropped {}\n", name(row))).collect();
    }
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    for row in dropped {
        *counts.entry(name(&Row { member: None, ..row.clone() })).or_default() += 1;
    }
    counts.iter().map(|(name, count)| format!("dropped {count} {name}\n")).collect()
}

/// Formats an image as `ptx sm_90 (a.o)`.
fn name(row: &Row) -> String {
    let member = row.member.as_ref().map(|member| format!(" ({member})")).unwrap_or_default();
    let target = row.target_or_triple().unwrap_or("-");
    printable::name(&format!("{} {target}{member}", row.image)).into_owned()
}
