//! `offload-bundle strip`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::listing::Row;
use offload_bundle::printable;
use offload_bundle::selection::Selector;
use offload_bundle::strip::{self, Choice, Summary};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::output::{self, CommandOutput};
use crate::{files, input};

#[derive(Args)]
pub struct StripArguments {
    /// An executable, shared library, object, archive, fatbin or offload binary
    file: PathBuf,
    /// Drop these images
    #[arg(long, value_name = "IMAGES", required_unless_present = "keep")]
    drop: Vec<Selector>,
    /// Drop all images but these
    #[arg(long, value_name = "IMAGES")]
    keep: Vec<Selector>,
    /// Drop only images in this section, such as .nv_fatbin (linked ones) or __nv_relfatbin (those of nvcc's objects)
    #[arg(long, value_name = "SECTION")]
    section: Vec<String>,
    /// Drop even the last image of a container
    #[arg(long)]
    allow_empty: bool,
    /// The file to write; by default, FILE is replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
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
    let StripArguments { drop, keep, section, allow_empty, .. } = arguments;
    let choice =
        Choice { drop: drop.clone(), keep: keep.clone(), sections: section.clone(), allow_empty: *allow_empty };
    let (bytes, summary) = input::read(&arguments.file, |data, _| {
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
    let path = arguments.output.as_ref().unwrap_or(&arguments.file);
    files::replace(path, &bytes, &arguments.file)?;
    let report = StripReport { file: path.display().to_string(), summary };
    let text = if arguments.json { output::json(&report)? } else { text(&report) };
    Ok(CommandOutput::success(text))
}

/// The fewest zeros that are reported. Up to two pages of each container are common.
const REPORTED_ZEROS: u64 = 16 * 1024;

fn text(report: &StripReport) -> String {
    let Summary { size_before, size_after, zeroed, dropped, kept } = &report.summary;
    let mut out: String = dropped.iter().map(|row| format!("dropped {}\n", name(row))).collect();
    let plural = if *kept == 1 { "" } else { "s" };
    out += &format!("{}: {size_before} -> {size_after} bytes, {kept} image{plural} left\n", report.file);
    if *zeroed >= REPORTED_ZEROS {
        out += &format!("{zeroed} bytes that are no longer used stay as zeros, since nothing behind them may move\n");
    }
    out
}

/// Formats an image as `ptx sm_90 (a.o)`.
fn name(row: &Row) -> String {
    let member = row.member.as_ref().map(|member| format!(" ({member})")).unwrap_or_default();
    let target = if row.target.is_empty() { row.triple.as_deref().unwrap_or("-") } else { &row.target };
    printable::name(&format!("{} {target}{member}", row.image)).into_owned()
}
