//! `offload-bundle diff`.

use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::difference::{self, ComparedImage, Difference};
use serde::Serialize;

use crate::error::{Error, Result};
use crate::input;
use crate::output::{self, CommandOutput};

#[derive(Args)]
pub struct DiffArguments {
    /// A file with device images
    left: PathBuf,
    /// The file to compare it with
    right: PathBuf,
    /// Compare the contents of the images, not how they are compressed, named and labelled
    #[arg(long)]
    contents: bool,
    /// Print a JSON object instead of lines
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

pub fn run(arguments: &DiffArguments) -> Result<CommandOutput> {
    let (left, right) = match (images(&arguments.left), images(&arguments.right)) {
        (Ok(left), Ok(right)) => (left, right),
        (left, right) => return Err(Error::Several([left.err(), right.err()].into_iter().flatten().collect())),
    };
    let difference = Difference::new(&left, &right, arguments.contents);
    let exit_code = u8::from(!difference.equal);
    let path = |path: &Path| path.display().to_string();
    let report = DiffReport { left: path(&arguments.left), right: path(&arguments.right), difference };
    let text = if arguments.json { output::json(&report)? } else { text(&report) };
    Ok(CommandOutput { text, exit_code, errors: Vec::new() })
}

fn images(file: &Path) -> Result<Vec<ComparedImage>> {
    input::read(file, |data, read_thin| difference::images(data, read_thin))
}

fn text(report: &DiffReport) -> String {
    if report.difference.equal {
        return String::new();
    }
    format!("--- {}\n+++ {}\n{}", report.left, report.right, report.difference.text())
}
