//! The private temporary folder of a link, removed on success, failure and signals, and outputs that are written whole or not
//! at all.

use std::fs::{File, Permissions};
use std::io::{BufWriter, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use llvm_passes::crash;
use tempfile::TempDir;

use crate::diag::error::Errors;
use crate::diag::progress;
use crate::sys::error::Error;
use crate::sys::process;
use crate::sys::{jobserver, signals};

/// Prefix of temporary folders.
const PREFIX: &str = "fatlink-";

/// Prefix of unfinished outputs.
const OUTPUT_PREFIX: &str = ".fatlink-";

/// What is removed if the process ends early.
#[derive(Default)]
struct Leftovers {
    folder: Option<PathBuf>,
    /// The output that is being written, and what was there before.
    output: Option<(PathBuf, FileState)>,
}

/// Identifies a version of a file by inode, size and time of change; `None`: there is no file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileState(Option<(u64, u64, Option<SystemTime>)>);

impl FileState {
    /// The current state.
    pub fn of(path: &Path) -> Self {
        FileState(path.metadata().ok().map(|found| (found.ino(), found.len(), found.modified().ok())))
    }
}

static LEFTOVERS: Mutex<Leftovers> = Mutex::new(Leftovers { folder: None, output: None });

/// The place of intermediate files: a temporary folder that is removed when this is dropped, or files next to the output that
/// are kept (`--save-temps`).
pub enum TempFiles {
    /// The private folder.
    Private(TempDir),
    /// Files that begin with this path, the output's.
    Kept(PathBuf),
}

/// Creates the folder of `--save-temps=` and those above it.
///
/// # Errors
/// It cannot be created.
pub fn create_folder_of_kept(folder: &Path) -> Result<(), Errors> {
    let cannot = |source| Error::KeptFiles { folder: folder.to_owned(), source };
    Ok(std::fs::create_dir_all(folder).map_err(cannot)?)
}

impl TempFiles {
    /// Creates the folder under `TMPDIR` and installs the signal handlers. `kept` is the output next to which files are saved
    /// instead.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub fn new(kept: Option<&Path>) -> Result<Self, Errors> {
        signals::before_end(clean_up)?;
        if let Some(output) = kept {
            return Ok(TempFiles::Kept(output.to_owned()));
        }
        // Created and recorded under one lock, so that no signal comes in between.
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

    /// Writes a file that only `--save-temps` keeps.
    ///
    /// # Errors
    /// As [`TempFiles::write`].
    pub fn keep(&self, name: &str, bytes: impl FnOnce() -> Vec<u8>) -> Result<(), Errors> {
        self.save_file(name, |file| file.write_all(&bytes()))
    }

    /// As [`TempFiles::keep`], for contents that are written piece by piece.
    ///
    /// # Errors
    /// As [`TempFiles::write`].
    pub fn save_file(
        &self,
        name: &str,
        write: impl FnOnce(&mut dyn Write) -> std::io::Result<()>,
    ) -> Result<(), Errors> {
        let TempFiles::Kept(_) = self else { return Ok(()) };
        self.write_by(name, write).map(drop)
    }

    /// As [`TempFiles::write`], for contents that are written piece by piece.
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
    /// Those of the file system.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, Errors> {
        self.write_by(name, |file| file.write_all(bytes))
    }
}

/// The folder that a user knows a file by: that of the file or, for an intermediate file, the one that the private folder is made in.
pub fn place_of(file: &Path) -> PathBuf {
    let folder = file.parent().unwrap_or(Path::new(""));
    let is_private = folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with(PREFIX));
    let folder = if is_private { folder.parent().unwrap_or(folder) } else { folder };
    if folder.as_os_str().is_empty() { PathBuf::from(".") } else { folder.to_owned() }
}

/// Writes a file.
///
/// # Errors
/// Those of the file system.
pub fn write_file(path: &Path, bytes: &[u8]) -> Result<(), Errors> {
    std::fs::write(path, bytes).map_err(|error| cannot_write(path, error))
}

fn cannot_write(path: &Path, source: std::io::Error) -> Errors {
    Error::Write { path: path.to_owned(), source }.into()
}

/// Buffers the output of `write`, and returns the file.
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

/// Removes the folder and the unfinished output of a link that crashed.
pub fn remove_leftovers_of_crashed_link(folder: &Path, output: &Path) {
    // The paths come from the command line, so nothing else is removed.
    let begins = |path: &Path, prefix: &str| path.file_name().unwrap_or_default().to_string_lossy().starts_with(prefix);
    if begins(folder, PREFIX) && folder.parent() == Some(&std::env::temp_dir()) {
        let _ = std::fs::remove_dir_all(folder);
    }
    if begins(output, OUTPUT_PREFIX) {
        let _ = std::fs::remove_file(output);
    }
}

/// Writes an output whole or not at all, by way of a temporary file next to it. A device or pipe is written directly. As with
/// GNU ld, a symbolic link to a file with content is replaced by the output; one to an empty or missing file is followed.
///
/// # Errors
/// Those of the file system.
pub fn write_output(path: &Path, bytes: &[u8]) -> Result<(), Errors> {
    write_output_by(path, |file| file.write_all(bytes))
}

/// As [`write_output`], for contents that are written piece by piece.
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

/// The file that an output's name refers to.
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

/// The permissions of outputs before the umask; temporary files are private by default.
pub fn readable() -> Permissions {
    Permissions::from_mode(0o666)
}

/// Marks the output as incomplete from now on: if the process ends early, it is removed, unless it is unchanged.
pub fn guard_output(output: &Path) {
    lock().output = Some((output.to_owned(), FileState::of(output)));
}

/// Marks the output as complete, or removed.
pub fn release_output() {
    lock().output = None;
}

/// Removes a regular file that has changed.
pub fn remove_if_changed(path: &Path, before: &FileState) {
    if FileState::of(path) != *before && path.symlink_metadata().is_ok_and(|found| found.is_file()) {
        let _ = std::fs::remove_file(path);
    }
}

/// Removes what the process would leave behind if it ended now.
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

/// Removes a folder to which other threads and tools may still write, which makes the removal fail. Once the folder is gone
/// they cannot.
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
