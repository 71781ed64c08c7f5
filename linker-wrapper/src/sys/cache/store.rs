//! Finds, adds and refreshes entries in the cache's folder.

use std::fs::{self, DirBuilder, File, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use crate::diag::error::reason;
use crate::sys::cache::key::Key;
use crate::sys::cache::layout::{UNFINISHED, path_of};
use crate::sys::cache::trust::{Access, Trust};
use crate::sys::cache::{entry, trim, trust};

/// Default limit of the total size of all entries, in bytes.
pub const DEFAULT_CAPACITY: u64 = 10 << 30;

/// The time of an entry is updated only if it is older than this: trimming needs no better order, and a link that finds
/// everything should write nothing.
const REFRESH_AFTER: Duration = Duration::from_secs(24 * 60 * 60);

/// The cache. Its folder is created with the first entry.
#[derive(Debug)]
pub struct Cache {
    folder: PathBuf,
    capacity: u64,
    hits: AtomicU64,
    misses: AtomicU64,
    /// Bytes that this link has added.
    added: AtomicU64,
    /// Whose entries are used, once the folder exists; `None`: the folder must not be used.
    trust: OnceLock<Option<Trust>>,
    /// Why the folder cannot be used or written. After a failure nothing is tried.
    failure: OnceLock<Failure>,
}

#[derive(Debug)]
struct Failure {
    text: String,
    /// The disk is full.
    full: bool,
}

impl Cache {
    /// Opens the cache in `folder`, without reading or writing anything yet.
    pub fn open(folder: impl Into<PathBuf>) -> Self {
        Cache {
            folder: folder.into(),
            capacity: DEFAULT_CAPACITY,
            hits: AtomicU64::default(),
            misses: AtomicU64::default(),
            added: AtomicU64::default(),
            trust: OnceLock::new(),
            failure: OnceLock::new(),
        }
    }

    /// Sets the limit of the total size in bytes, if one is given.
    #[must_use]
    pub fn with_capacity(self, bytes: Option<u64>) -> Self {
        Cache { capacity: bytes.unwrap_or(self.capacity), ..self }
    }

    /// Returns the folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the content of an entry, and what `accept` makes of it. A damaged entry is removed and treated as a miss. So is one that
    /// `accept` makes nothing of, but for its removal: the result that is made in its place replaces it.
    pub fn get_if<T>(&self, key: &Key, accept: impl Fn(&[u8]) -> Option<T>) -> Option<(T, Vec<u8>)> {
        let found = self.read(key).and_then(|content| Some((accept(&content)?, content)));
        let counter = if found.is_some() { &self.hits } else { &self.misses };
        counter.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// As [`Cache::get_if`], for what is no result: counts as neither a hit nor a miss.
    pub fn get_uncounted(&self, key: &Key) -> Option<Vec<u8>> {
        self.read(key)
    }

    /// Counts hits for an entry that stands for several results.
    pub fn count_hits(&self, results: usize) {
        self.hits.fetch_add(results as u64, Ordering::Relaxed);
    }

    /// Whether there is a file for an entry. Counts as neither a hit nor a miss.
    pub fn contains(&self, key: &Key) -> bool {
        self.path(key).is_file()
    }

    fn read(&self, key: &Key) -> Option<Vec<u8>> {
        let path = self.path(key);
        // Another user's file is left alone: that user may be able to read it.
        let mut file = trust::open_entry(&path, self.trust()?)?;
        let content = entry::read(&mut file, key);
        match content {
            Some(_) => refresh(&file),
            // Another link may just have replaced it by a good one, which is then removed and made again.
            None => drop(fs::remove_file(&path)),
        }
        content
    }

    /// Whose entries are used. `None`: the folder does not exist, or must not be used.
    fn trust(&self) -> Option<Trust> {
        if let Some(known) = self.trust.get() {
            return *known;
        }
        let found = fs::metadata(&self.folder).ok()?;
        let trust = Trust::of_folder(Access::of(&found)).map_err(|why| {
            let folder = self.folder.display();
            let text =
                format!("the cache in {folder} is not used: {why}, or name another folder with --offload-cache=<dir>");
            let _ = self.failure.set(Failure { text, full: false });
        });
        *self.trust.get_or_init(|| trust.ok())
    }

    /// Stores `content` under `key`. If that fails, [`Cache::warning`] has the reason.
    pub fn put(&self, key: &Key, content: &[u8]) {
        if self.failure.get().is_some() {
            return;
        }
        match self.write(key, content) {
            Ok(()) if self.failure.get().is_some() => {}
            Ok(()) => drop(self.added.fetch_add(content.len() as u64, Ordering::Relaxed)),
            Err(error) => {
                let (folder, reason) = (self.folder.display(), reason(&error));
                let text = format!(
                    "the cache in {folder} cannot be written, so this link's results are not kept: {reason}; \
                     make room there, or name another folder with --offload-cache=<dir>"
                );
                let full = matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded);
                // Only the first reason is reported.
                let _ = self.failure.set(Failure { text, full });
            }
        }
    }

    /// Removes an entry.
    pub fn remove(&self, key: &Key) {
        if self.trust().is_some() {
            let _ = fs::remove_file(self.path(key));
        }
    }

    fn write(&self, key: &Key, content: &[u8]) -> io::Result<()> {
        let path = self.path(key);
        DirBuilder::new().recursive(true).mode(0o755).create(&self.folder)?;
        // The reason is in the failure recorded above.
        let Some(trust) = self.trust() else { return Ok(()) };
        let shard = path.parent().unwrap_or(&self.folder);
        self.make_shard(shard, trust)?;
        let mut builder = tempfile::Builder::new();
        let mut file = builder.prefix(UNFINISHED).permissions(Permissions::from_mode(0o644)).tempfile_in(shard)?;
        if let Trust::Group(_) = trust {
            // Independently of the umask, whoever may read the folder must be able to read its entries.
            let readers = fs::metadata(&self.folder)?.permissions().mode() & 0o044;
            file.as_file().set_permissions(Permissions::from_mode(0o600 | readers))?;
        }
        entry::write(file.as_file_mut(), key, content)?;
        file.persist(&path).map(drop).map_err(|error| error.error)
    }

    fn make_shard(&self, shard: &Path, trust: Trust) -> io::Result<()> {
        match DirBuilder::new().mode(0o755).create(shard) {
            Ok(()) => {
                trim::tag(&self.folder);
                if let Trust::Group(_) = trust {
                    // Independently of the umask, other members of the group must be able to add entries.
                    fs::set_permissions(shard, fs::metadata(&self.folder)?.permissions())?;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        let found = shard.symlink_metadata()?;
        if found.is_dir() && trust.allows_shard(Access::of(&found)) {
            return Ok(());
        }
        let why = format!("{} is no folder that only its owner may write to", shard.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, why))
    }

    /// Removes the least recently used entries if the folder is too large or its disk is full. Checks only now and then.
    pub fn trim(&self) {
        match self.failure.get() {
            None if self.trust().is_some() => {
                trim::now_and_then(&self.folder, self.capacity, self.added.load(Ordering::Relaxed));
            }
            Some(Failure { full: true, .. }) => trim::make_room(&self.folder),
            None | Some(_) => {}
        }
    }

    /// Why results could not be stored, to be shown once at the end of the link.
    pub fn warning(&self) -> Option<&str> {
        self.failure.get().map(|failure| &*failure.text)
    }

    /// Number of entries found and not found so far.
    pub fn hits_and_misses(&self) -> (u64, u64) {
        (self.hits.load(Ordering::Relaxed), self.misses.load(Ordering::Relaxed))
    }

    fn path(&self, key: &Key) -> PathBuf {
        path_of(&self.folder, key)
    }
}

/// Records that an entry was used, if its owner allows it.
fn refresh(file: &File) {
    let Ok(modified) = file.metadata().and_then(|found| found.modified()) else { return };
    let now = SystemTime::now();
    if now.duration_since(modified).is_ok_and(|age| age > REFRESH_AFTER) {
        let _ = file.set_modified(now);
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
