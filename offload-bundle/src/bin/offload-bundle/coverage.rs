//! `offload-bundle explain` and `offload-bundle check`.

use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::GpuArch;
use offload_bundle::coverage::{self, CheckOptions, CheckReport, Driver, FoundContainer, Report, Severity, Toolkit};

use crate::output::{self, Answer};

/// Exit code if the file can be read, but what it holds will not do.
const WILL_NOT_DO: u8 = 2;

#[derive(Args)]
pub struct ExplainArguments {
    /// A fatbin, or an ELF object, executable or library with a section .nv_fatbin, or an archive of those
    file: PathBuf,
    /// Only this GPU, such as sm_86; without, all from sm_75 to sm_121
    #[arg(long)]
    gpu: Option<GpuArch>,
    /// The driver's version, such as 580 or 580.159.04; without, one that is new enough
    #[arg(long)]
    driver: Option<Driver>,
    /// Print the outcome alone: `sass 90a`, `ptx 80`, `no-binary`
    #[arg(long, requires = "gpu", conflicts_with = "json")]
    brief: bool,
    /// Print an object instead of tables
    #[arg(long)]
    json: bool,
}

#[derive(Args)]
pub struct CheckArguments {
    /// A fatbin, or an ELF object, executable or library with a section .nv_fatbin, or an archive of those
    file: PathBuf,
    /// The oldest driver that is to load it, such as 580; without, one that is new enough
    #[arg(long)]
    driver: Option<Driver>,
    /// The CUDA toolkit that it is meant to be of, such as 12.9
    #[arg(long)]
    toolkit: Option<Toolkit>,
    /// Print an object instead of text
    #[arg(long)]
    json: bool,
}

pub fn explain(arguments: &ExplainArguments) -> Result<Answer, String> {
    let containers = containers(&arguments.file)?;
    let report = Report::new(&containers, arguments.gpu, arguments.driver.unwrap_or_default());
    let text = match (arguments.json, arguments.brief) {
        (true, _) => output::json(&report)?,
        (_, true) => report.brief(),
        _ => report.text(),
    };
    Ok(Answer { text, code: if report.runs() { 0 } else { WILL_NOT_DO } })
}

pub fn check(arguments: &CheckArguments) -> Result<Answer, String> {
    let containers = containers(&arguments.file)?;
    let options = CheckOptions { driver: arguments.driver.unwrap_or_default(), toolkit: arguments.toolkit };
    let report = CheckReport::new(&containers, &options);
    let text = if arguments.json { output::json(&report)? } else { report.text() };
    Ok(Answer { text, code: if report.worst() == Some(Severity::Error) { WILL_NOT_DO } else { 0 } })
}

/// The fatbins of a file; one without any is an error, as there is nothing to answer.
fn containers(file: &Path) -> Result<Vec<FoundContainer>, String> {
    let found = output::read(file, |data, read_thin| coverage::containers(data, read_thin))?;
    if found.is_empty() {
        return Err(format!("{}: no fatbin, and no section .nv_fatbin with one", file.display()));
    }
    Ok(found)
}
