//! Finds and runs the host linker.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use rustix::process::Signal;

use crate::cli::environment::{Environment, LINKER, STARTED_LINKERS};
use crate::cli::options::Options;
use crate::cli::persona;
use crate::cli::response_file;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::host::error::Error;
use crate::sys::process::{self, Mode};
use crate::sys::temp_files::{self, FileState, TempFiles};
use crate::toolchain::llvm_tools;

/// Linkers that are searched on PATH, best first.
const LINKERS: [&str; 3] = [LLD, "mold", "ld"];

/// LLVM's linker.
const LLD: &str = "ld.lld";

/// Finds the host linker: `--linker-path`, else that of the environment, else the linker of the name that this program was started
/// by, else the first of [`LINKERS`]. Programs that have led to this link are skipped, this one included: if `--linker-path` is this program
/// under the name of a linker, as with `-B` of a folder that has both, the next linker of that name is meant.
///
/// # Errors
/// No linker was found, or the named one does not exist and this is no dry run.
pub fn find(options: &Options, program: &str) -> Result<PathBuf, Errors> {
    let started = Started::of(&options.environment);
    let named = [
        ("--linker-path", options.linker_path.clone().map(PathBuf::into_os_string)),
        (LINKER, options.environment.linker.clone()),
    ];
    let mut own_name = program.to_owned();
    for (named_by, name) in named {
        let Some(name) = name else { continue };
        match process::find_program(&name, &|_| true) {
            // clang -fuse-ld=fatlink names fatlink as the linker of its own wrapper.
            Some(path) if started.contains(&path) => own_name = persona::program_name(&[path.into_os_string()]),
            Some(path) => return Ok(path),
            // It is shown, and not started.
            None if options.dry_run => return Ok(PathBuf::from(name)),
            None => {
                let name = Path::new(&name).display().to_string();
                return Err(Error::NamedLinker { name, named_by }.into());
            }
        }
    }
    let called_as = persona::linkers_named(&own_name);
    let names = if called_as.is_empty() { &LINKERS[..] } else { &called_as };
    let first = names.iter().find_map(|name| process::find_program(OsStr::new(name), &|path| !started.contains(path)));
    // LLVM's folder is rarely on PATH, and clang finds its own linker there.
    let beside_clang = || called_as.contains(&LLD).then(|| llvm_tools::lld(&options.parts).ok()).flatten();
    first.or_else(|| beside_clang().map(|found| found.path).filter(|path| !started.contains(path))).ok_or_else(|| {
        let error = called_as.first().map_or(Error::NoLinker, |name| Error::NoLinkerOfThatName {
            program: own_name.clone(),
            linker: (*name).to_owned(),
        });
        error.into()
    })
}

/// As [`find`], together with what named the linker.
///
/// # Errors
/// As [`find`].
pub fn find_with_source(options: &Options, program: &str) -> Result<(PathBuf, &'static str), Errors> {
    let source = if options.linker_path.is_some() { "--linker-path" } else { "FATLINK_LINKER or PATH" };
    Ok((find(options, program)?, source))
}

/// The programs that have led to this link: this one, and every linker that a fatlink above this process has started. They
/// are identified by inode, so that a script or a second copy of fatlink on PATH does not start an endless loop.
struct Started(Vec<(u64, u64)>);

impl Started {
    fn of(environment: &Environment) -> Self {
        let number = |pair: &str| {
            let (device, inode) = pair.split_once(':')?;
            Some((device.parse().ok()?, inode.parse().ok()?))
        };
        let mut all: Vec<_> = environment.started_linkers.split(',').filter_map(number).collect();
        all.extend(Self::identity(&process::itself()));
        Started(all)
    }

    fn identity(path: &Path) -> Option<(u64, u64)> {
        path.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()))
    }

    fn contains(&self, path: &Path) -> bool {
        Self::identity(path).is_some_and(|identity| self.0.contains(&identity))
    }

    /// The variable's value for this linker.
    fn with(mut self, linker: &Path) -> String {
        self.0.extend(Self::identity(linker));
        self.0.iter().map(|(device, inode)| format!("{device}:{inode}")).collect::<Vec<_>>().join(",")
    }
}

/// The output of the host linker's `--version`, if it succeeds.
pub fn version(options: &Options, program: &str) -> Option<String> {
    let answer = process::capture(&find(options, program).ok()?, &["--version".into()]).ok()?;
    answer.status.success().then(|| String::from_utf8_lossy(&answer.stdout).into_owned())
}

/// The command that starts the host linker.
fn command_of(linker: &Path, line: &[OsString], environment: &Environment) -> Command {
    let mut command = Command::new(linker);
    command.args(line).env(STARTED_LINKERS, Started::of(environment).with(linker));
    command
}

/// Replaces this process by the host linker. Returns only for a dry run, a command line that needs a response file, or an
/// error.
///
/// # Errors
/// The program cannot be started.
pub fn become_linker(linker: &Path, options: &Options, mode: Mode) -> Result<u8, Errors> {
    let Options { host_line: line, environment, .. } = options;
    process::show(mode, linker, line);
    if mode.dry {
        return Ok(0);
    }
    if response_file::too_long(line) {
        // This process has to remove the response file afterwards.
        return run_line(linker, options);
    }
    let error = command_of(linker, line, environment).exec();
    Err(cannot_run(linker, error))
}

/// Replaces this process by the next program `lld`, with the arguments of this one. Returns only if that fails.
///
/// # Errors
/// There is none, or it cannot be started.
pub fn become_other_lld(arguments: &[OsString]) -> Result<u8, Errors> {
    let environment = Environment::read();
    let started = Started::of(&environment);
    let on_path = process::find_program(OsStr::new("lld"), &|path| !started.contains(path));
    let other = on_path.or_else(|| llvm_tools::other_lld().filter(|path| !started.contains(path)));
    let other = other.ok_or(Error::NoOtherLld)?;
    let error = command_of(&other, arguments.get(1..).unwrap_or_default(), &environment).exec();
    Err(cannot_run(&other, error))
}

/// Runs the host linker with its line as it is, and returns its exit code.
///
/// # Errors
/// The program cannot be started, or it was killed.
pub fn run_unchanged(linker: &Path, options: &Options, mode: Mode) -> Result<u8, Errors> {
    process::show(mode, linker, &options.host_line);
    if mode.dry { Ok(0) } else { run_line(linker, options) }
}

fn run_line(linker: &Path, options: &Options) -> Result<u8, Errors> {
    let line = &options.host_line;
    // A link without device code needs no temporary folder, and must not fail for want of one.
    let temp_files = response_file::too_long(line).then(|| TempFiles::new(None)).transpose()?;
    let short = temp_files.as_ref().map(|temp_files| shortened(line, "host", temp_files)).transpose()?;
    let ended = process::run(&mut command_of(linker, short.as_ref().unwrap_or(line), &options.environment));
    exit_code(linker, ended.map_err(|error| cannot_run(linker, error))?)
}

/// Returns the arguments, or the name of a response file with them if they are too long.
///
/// # Errors
/// The file cannot be written.
pub fn shortened(line: &[OsString], name: &str, temp_files: &TempFiles) -> Result<Vec<OsString>, Errors> {
    if !response_file::too_long(line) {
        return Ok(line.to_vec());
    }
    let file = temp_files.write(&format!("{name}.rsp"), &response_file::join(line))?;
    let mut word = OsString::from("@");
    word.push(file);
    Ok(vec![word])
}

fn cannot_run(linker: &Path, source: std::io::Error) -> Errors {
    Error::LinkerStart { linker: linker.to_owned(), source }.into()
}

fn exit_code(linker: &Path, status: ExitStatus) -> Result<u8, Errors> {
    match status.code().and_then(|code| u8::try_from(code).ok()) {
        Some(code) => Ok(code),
        None => Err(Error::LinkerKilled { linker: linker.to_owned(), status }.into()),
    }
}

/// The host linker's command line with the registration objects behind the output, and with another output if one is given.
pub fn line_with(options: &Options, objects: &[PathBuf], output: Option<&Path>) -> Vec<OsString> {
    let (before, behind) = options.host_line.split_at(options.insertion);
    let mut line = before.to_vec();
    if let Some(output) = output {
        line.truncate(before.len() - options.output_words);
        line.extend(["-o".into(), output.into()]);
    }
    line.extend(objects.iter().map(|path| path.clone().into_os_string()));
    line.extend_from_slice(behind);
    line
}

/// Arguments with which this linker keeps the table of offload entries. lld's `--gc-sections` drops a section that only its
/// `__start_` symbol references, unless it is told to behave as GNU ld does.
pub fn keeping_entries(linker: &Path, line: &[OsString]) -> Vec<OsString> {
    let collects = line.iter().any(|word| word == "--gc-sections" || word == "-gc-sections");
    if is_lld(linker) && collects { vec!["-z".into(), "nostart-stop-gc".into()] } else { Vec::new() }
}

fn is_lld(linker: &Path) -> bool {
    linker.file_name().is_some_and(|name| name.to_string_lossy().contains("lld"))
}

/// Whether the disk may be too small for the output of lld, which maps it into memory: a full disk then kills lld with SIGBUS. `inputs` is
/// the size of all inputs.
fn may_fill_disk(linker: &Path, output: &Path, inputs: u64) -> bool {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let free = || rustix::fs::statvfs(folder).ok().map(|space| space.f_bavail.saturating_mul(space.f_frsize));
    is_lld(linker) && free().is_some_and(|free| free < inputs)
}

/// The files beside the output that lld writes it to before it renames them: `<output>.tmp` and seven digits. When two of its threads get
/// SIGBUS at once, lld does not remove its own.
fn partial_outputs(output: &Path) -> BTreeSet<PathBuf> {
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let is_partial = |path: &PathBuf| {
        let names = path.file_name().zip(output.file_name());
        let rest =
            names.and_then(|(name, output)| name.as_bytes().strip_prefix(output.as_bytes())?.strip_prefix(b".tmp"));
        rest.is_some_and(|digits| digits.len() == 7 && digits.iter().all(u8::is_ascii_hexdigit))
    };
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(is_partial).collect()
}

/// Runs the host linker and returns its exit code. `inputs` is the size of all inputs.
///
/// # Errors
/// The program cannot be started, or it was killed.
pub fn run(
    linker: &Path,
    line: &[OsString],
    output: &Path,
    inputs: u64,
    temp_files: &TempFiles,
    environment: &Environment,
    mode: Mode,
) -> Result<u8, Errors> {
    process::show(mode, linker, line);
    if mode.dry {
        return Ok(0);
    }
    let before = FileState::of(output);
    let partial_before = may_fill_disk(linker, output, inputs).then(|| partial_outputs(output));
    temp_files::guard_output(output);
    let line = shortened(line, "host", temp_files)?;
    let mut command = command_of(linker, &line, environment);
    let ended = if partial_before.is_some() {
        // The error says more than the stack trace that lld prints.
        process::run_with_stderr(&mut command).map(|(status, text)| (status, Some(text)))
    } else {
        process::run(&mut command).map(|status| (status, None))
    };
    let (status, text) = ended.map_err(|error| cannot_run(linker, error))?;
    temp_files::release_output();
    if let Some(text) = text.filter(|text| !text.is_empty() && status.signal() != Some(Signal::BUS.as_raw())) {
        messages::show(String::from_utf8_lossy(&text).trim_end());
    }
    if status.success() {
        return Ok(0);
    }
    // Linkers remove an incomplete output, unless they are killed.
    temp_files::remove_if_changed(output, &before);
    if status.signal() == Some(Signal::BUS.as_raw()) {
        partial_before.iter().flat_map(|before| &partial_outputs(output) - before).for_each(|path| {
            let _ = std::fs::remove_file(path);
        });
        return Err(Error::LinkerBus { linker: linker.to_owned(), output: output.to_owned() }.into());
    }
    exit_code(linker, status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_outputs_of_lld_are_told_by_their_names() {
        let folder = tempfile::tempdir().unwrap();
        let output = folder.path().join("a.so");
        for name in
            ["a.so", "a.so.tmp12345ef", "a.so.tmp12345", "a.so.tmpbackup1", "b.so.tmp1234567", "xa.so.tmp1234567"]
        {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert_eq!(partial_outputs(&output), BTreeSet::from([folder.path().join("a.so.tmp12345ef")]));
        assert!(partial_outputs(&folder.path().join("none/a.so")).is_empty());
    }
}
