//! The distributor program and its list of jobs, in the format of LLVM's distributed ThinLTO: common arguments and inputs, and for each
//! job its own arguments, inputs and outputs. The format has no other keys, and distributors reject them.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::lto::error::Error;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files;

/// How much of a distributor's output an error shows, in characters.
const SHOWN: usize = 2000;

/// How much of each of its outputs is kept, in bytes: it may print without end.
const KEPT: usize = 64 << 10;

/// A distributor with the user's arguments.
#[derive(Debug)]
pub struct Distributor {
    /// The program.
    pub program: PathBuf,
    arguments: Vec<OsString>,
}

/// One command of the list.
#[derive(Debug)]
pub struct Command {
    /// A unit's bitcode, the manifest, and the bitcode of further units.
    pub inputs: Vec<PathBuf>,
    /// The file of the result.
    pub output: PathBuf,
}

impl Command {
    fn manifest(&self) -> &Path {
        self.inputs.get(1).map_or(Path::new(""), PathBuf::as_path)
    }
}

#[derive(Serialize)]
struct List<'l> {
    common: Common<'l>,
    jobs: Vec<Job<'l>>,
}

#[derive(Serialize)]
struct Common<'l> {
    linker_output: &'l Path,
    args: Vec<&'l Path>,
    inputs: &'l [PathBuf],
}

#[derive(Serialize)]
struct Job<'l> {
    args: Vec<&'l Path>,
    inputs: &'l [PathBuf],
    outputs: Vec<&'l Path>,
}

/// The program that runs a job: this one, where it is.
///
/// # Errors
/// It is gone.
pub fn job_program() -> Result<PathBuf, Errors> {
    let itself = process::itself();
    Ok(std::fs::canonicalize(&itself).map_err(|source| Error::Read { file: itself, source })?)
}

/// Writes the list of jobs. `program` runs them, and `common` are inputs of all.
///
/// # Errors
/// The file cannot be written.
pub fn write_list(
    file: &Path,
    program: &Path,
    output: &Path,
    common: &[PathBuf],
    commands: &[Command],
) -> Result<(), Errors> {
    let list = List {
        common: Common {
            linker_output: output,
            args: vec![program, Path::new(super::run_action::FLAG)],
            inputs: common,
        },
        jobs: commands
            .iter()
            .map(|command| Job {
                args: vec![command.manifest(), Path::new("-o"), &command.output],
                inputs: &command.inputs,
                outputs: vec![&command.output],
            })
            .collect(),
    };
    let text = serde_json::to_vec_pretty(&list)
        .map_err(|source| Error::Describe { what: "the jobs for the distributor".to_owned(), source })?;
    temp_files::write_file(file, &text)
}

impl Distributor {
    /// Finds the distributor that the user names, if one is named: a path, or a program next to this one or on `PATH`.
    ///
    /// # Errors
    /// There is no such program.
    pub fn of(options: &Options) -> Result<Option<Self>, Errors> {
        let Some(name) = &options.distributor else { return Ok(None) };
        let beside = std::fs::canonicalize(process::itself()).ok().and_then(|own| Some(own.parent()?.join(name)));
        let beside = beside.filter(|path| Path::new(name).components().count() == 1 && process::is_program(path));
        let program = beside.or_else(|| process::find_program(name, &|_| true));
        let program = program.ok_or_else(|| Error::NoDistributor { name: name.into() })?;
        Ok(Some(Distributor { program, arguments: options.distributor_arguments.clone() }))
    }

    /// Runs the distributor on a list of jobs, and returns how it failed, if it did.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn run(&self, list: &Path, mode: Mode) -> Result<Option<String>, Errors> {
        let mut arguments = self.arguments.clone();
        arguments.push(list.into());
        // They may be what proves to a server who asks.
        let shown = self.arguments.iter().map(|argument| without_value(argument)).chain([list.into()]);
        process::show(mode, &self.program, &shown.collect::<Vec<_>>());
        let ended = process::capture_end(&self.program, &arguments, KEPT)
            .map_err(|source| Error::DistributorStart { program: self.program.clone(), source })?;
        let said = [ended.stdout.as_slice(), ended.stderr.as_slice()].concat();
        let said = String::from_utf8_lossy(&said).trim().to_owned();
        if ended.status.success() {
            if mode.show && !said.is_empty() {
                crate::diag::messages::show(&said);
            }
            return Ok(None);
        }
        let separator = if said.is_empty() { "" } else { ": " };
        let program = self.program.display();
        Ok(Some(format!(
            "the distributor {program} failed ({}){separator}{}",
            process::ending(ended.status),
            last_part(&said)
        )))
    }
}

/// The end of a text, where tools print their last error.
fn last_part(text: &str) -> String {
    let skipped = text.chars().count().saturating_sub(SHOWN);
    if skipped == 0 { text.to_owned() } else { format!("…{}", text.chars().skip(skipped).collect::<String>()) }
}
/// An argument of the user without what may be a secret: `--header=...` of `--header=KEY=VALUE`. A file's name is none.
fn without_value(argument: &OsStr) -> OsString {
    let text = argument.to_string_lossy();
    match text.split_once('=').filter(|(name, _)| name.starts_with('-')) {
        Some((name, _)) => format!("{name}=...").into(),
        None if Path::new(argument).exists() => argument.to_owned(),
        None => "...".into(),
    }
}
