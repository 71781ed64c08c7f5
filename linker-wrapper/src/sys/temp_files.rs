//! The one private temporary folder of a link: gone on success, failure and signal.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use llvm_passes::crash;
use tempfile::TempDir;

use crate::diag::error::Errors;
use crate::diag::progress;
use crate::sys::error::Error;
use crate::sys::process;
use crate::sys::{jobserver, threads};

/// How the names of temporary folders begin.
const PREFIX: &str = "fatlink-";

/// How the names of unfinished outputs begin.
const OUTPUT_PREFIX: &str = ".fatlink-";

/// What must be removed if the process ends early.
#[derive(Default)]
struct Leftovers {
    folder: Option<PathBuf>,
    /// The output that is being written, and what was there before.
    output: Option<(PathBuf, FileState)>,
}

/// What tells one version of a file from another: inode, size and time of change; none: there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState(Option<(u64, u64, Option<SystemTime>)>);

impl FileState {
    /// As it is now.
    pub fn of(path: &Path) -> Self {
        FileState(path.metadata().ok().map(|found| (found.ino(), found.len(), found.modified().ok())))
    }
}

static LEFTOVERS: Mutex<Leftovers> = Mutex::new(Leftovers { folder: None, output: None });

/// Where intermediate files go: a temporary folder that is removed when this is dropped, or, with
/// `--save-temps`, files beside the output that stay.
pub enum TempFiles {
    /// The private folder.
    Private(TempDir),
    /// Files that begin with this path, the output's.
    Kept(PathBuf),
}

impl TempFiles {
    /// Makes the folder under `TMPDIR` and watches for signals. `kept` names the output beside which
    /// everything is to be kept instead.
    ///
    /// # Errors
    /// The folder cannot be made.
    pub fn new(kept: Option<&Path>) -> Result<Self, Errors> {
        watch_signals()?;
        if let Some(output) = kept {
            return Ok(TempFiles::Kept(output.to_owned()));
        }
        // Made and noted in one step, so that no signal comes between.
        let mut leftovers = lock();
        let private = Permissions::from_mode(0o700);
        let folder = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(private)
            .tempdir()
            .map_err(|source| Error::TemporaryFolder { place: std::env::temp_dir(), source })?;
        leftovers.folder = Some(folder.path().to_owned());
        Ok(TempFiles::Private(folder))
    }

    /// Path of an intermediate file. Names are unique in a link, so that none overwrites another.
    pub fn file(&self, name: &str) -> PathBuf {
        match self {
            TempFiles::Private(folder) => folder.path().join(name),
            TempFiles::Kept(output) => {
                let mut path = output.clone().into_os_string();
                path.push(".");
                path.push(name);
                path.into()
            }
        }
    }

    /// Writes what nobody needs but a user who asked to keep everything.
    ///
    /// # Errors
    /// As [`TempFiles::write`].
    pub fn keep(&self, name: &str, bytes: impl FnOnce() -> Vec<u8>) -> Result<(), Errors> {
        match self {
            TempFiles::Private(_) => Ok(()),
            TempFiles::Kept(_) => self.write(name, &bytes()).map(drop),
        }
    }

    /// As [`TempFiles::keep`], of what is better written piece by piece.
    ///
    /// # Errors
    /// As [`TempFiles::write`].
    pub fn keep_file(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), Errors> {
        let TempFiles::Kept(_) = self else { return Ok(()) };
        self.write_by(name, write).map(drop)
    }

    /// As [`TempFiles::write`], of what is better written piece by piece.
    ///
    /// # Errors
    /// As [`TempFiles::write`].
    pub fn write_by(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<PathBuf, Errors> {
        let path = self.file(name);
        let written = File::create(&path).and_then(|file| buffered(file, write));
        written.map_err(|error| cannot_write(&path, error))?;
        Ok(path)
    }

    /// The temporary folder, if there is one.
    pub fn folder(&self) -> Option<&Path> {
        match self {
            TempFiles::Private(folder) => Some(folder.path()),
            TempFiles::Kept(_) => None,
        }
    }

    /// Writes an intermediate file.
    ///
    /// # Errors
    /// The disk is full, say.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Errors> {
        let path = self.file(name);
        write_file(&path, bytes)?;
        Ok(path)
    }
}

/// Writes a file, or says which and why not.
///
/// # Errors
/// Those of the file system.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Errors> {
    std::fs::write(path, bytes).map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, source: std::io::Error) -> Errors {
    Error::Write { path: path.to_owned(), source }.into()
}

/// Lets `write` fill a file in large pieces; the file comes back.
fn buffered<W: Write>(file: W, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> std::io::Result<W> {
    let mut file = BufWriter::new(file);
    write(&mut file)?;
    file.into_inner().map_err(std::io::IntoInnerError::into_error)
}

/// Reads an intermediate file.
///
/// # Errors
/// Those of the file system.
pub fn read_file(path: &Path) -> Result<Vec<u8>, Errors> {
    std::fs::read(path).map_err(|source| Error::Read { path: path.to_owned(), source }.into())
}

/// Removes the folder and the unfinished output that a link which crashed has left, by their paths as that link noted them.
pub fn remove_leftovers_of_crashed_link(folder: &Path, output: &Path) {
    // Whatever the command line says: nothing but such a folder and such a file is removed.
    let begins = |path: &Path, prefix: &str| path.file_name().unwrap_or_default().to_string_lossy().starts_with(prefix);
    if begins(folder, PREFIX) && folder.parent() == Some(&std::env::temp_dir()) {
        let _ = std::fs::remove_dir_all(folder);
    }
    if begins(output, OUTPUT_PREFIX) {
        let _ = std::fs::remove_file(output);
    }
}

/// Writes an output whole or not at all: beside its place, then moved there. What is no regular file
/// (a device, a pipe) is written to directly. As by GNU ld, a symbolic link to a file with any content is replaced by
/// the output, and one to an empty file or to none stays: the output goes where it points to.
///
/// # Errors
/// Those of the file system.
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<(), Errors> {
    write_output_by(path, |file| file.write_all(bytes))
}

/// As [`write_output`], of what is better written piece by piece.
///
/// # Errors
/// Those of the file system.
pub fn write_output_by(path: &Path, write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>) -> Result<(), Errors> {
    if path.metadata().is_ok_and(|found| !found.is_file()) {
        let written = File::options().write(true).open(path).and_then(|file| buffered(file, write));
        return written.map(drop).map_err(|error| cannot_write(path, error));
    }
    let place = destination(path);
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let written =
        tempfile::Builder::new().prefix(OUTPUT_PREFIX).permissions(readable()).tempfile_in(folder).and_then(|file| {
            lock().output = Some((file.path().to_owned(), FileState(None)));
            crash::note_output(&file.path().to_string_lossy());
            buffered(file, write)?.persist(&place).map_err(|error| error.error)
        });
    release_output();
    written.map(drop).map_err(|error| cannot_write(path, error))
}

/// The file that an output's name means.
fn destination(path: &Path) -> PathBuf {
    /// More links than Linux follows.
    const LONGEST_CHAIN: usize = 40;
    let mut place = path.to_owned();
    for _ in 0..LONGEST_CHAIN {
        match place.read_link() {
            Ok(target) if place.metadata().map_or(0, |found| found.len()) == 0 => {
                place = place.parent().unwrap_or(Path::new("")).join(target);
            }
            _ => break,
        }
    }
    place
}

/// What a file gets under the usual umask; temporary files are private otherwise.
pub fn readable() -> Permissions {
    Permissions::from_mode(0o666)
}

/// From now on `output` may be half written: should we be ended, it goes, unless it is still as it was.
pub fn guard_output(output: &Path) {
    lock().output = Some((output.to_owned(), FileState::of(output)));
}

/// The output is whole, or gone.
pub fn release_output() {
    lock().output = None;
}

/// Removes a regular file that is not as it was.
pub fn remove_if_changed(path: &Path, before: &FileState) {
    if FileState::of(path) != *before && path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes what a process that ends now would leave behind.
pub fn clean_up() {
    progress::end();
    process::end_children();
    jobserver::give_all_back();
    let leftovers = std::mem::take(&mut *lock());
    if let Some(folder) = leftovers.folder {
        remove_busy_folder(&folder);
    }
    if let Some((output, before)) = leftovers.output {
        remove_if_changed(&output, &before);
    }
}

/// Other threads and tools that were just told to end may still put files into the folder while it is being
/// removed, which then fails. Once it is gone they cannot.
fn remove_busy_folder(folder: &Path) {
    const TRIES: usize = 200;
    for _ in 0..TRIES {
        let _ = std::fs::remove_dir_all(folder);
        if !folder.exists() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn lock() -> std::sync::MutexGuard<'static, Leftovers> {
    LEFTOVERS.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A thread waits for the signals that end a process, cleans up, and lets the signal do its work.
fn watch_signals() -> Result<(), Errors> {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
    let cannot = |source| Error::Signals { source };
    let ending = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU];
    let mut signals = signal_hook::iterator::Signals::new(ending).map_err(cannot)?;
    // With a handler, whatever it does, a file that grows beyond the limit of its size (ulimit -f) is an error of the write.
    signal_hook::flag::register(SIGXFSZ, Arc::default()).map_err(cannot)?;
    let watch = move || {
        if let Some(signal) = signals.forever().next() {
            clean_up();
            let _ = signal_hook::low_level::emulate_default_handler(signal);
        }
    };
    std::thread::Builder::new().spawn(watch).map_err(|error| threads::cannot_start(&error))?;
    Ok(())
}
