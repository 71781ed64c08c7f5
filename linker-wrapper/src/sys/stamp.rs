//! Detects files that change during a link.
//!
//! Device code is compiled from mapped files, which the host linker opens again. A file that is rewritten in between would
//! give a program of two versions, so each file that a link depends on is stamped when it is opened, and the stamps are
//! compared when the work is done.
//!
//! A hard link, `chmod` and `chown` change nothing but the time of change: builds that link their outputs into another folder do that all the
//! time. A program that writes and then sets the time of modification back leaves the same metadata, so the content has to tell, by a hash
//! that was taken before: mapped bytes are those of the file now. [`Stamp::remember`] takes it where that costs little.

use std::fs::{File, Metadata, OpenOptions};
use std::hash::Hasher;
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustc_hash::FxHasher;
use rustix::fs::OFlags;

use crate::diag::error::Errors;
use crate::sys::error::Error;
use crate::sys::file_times;

/// File systems round the time of a change to the kernel's tick, of at most 10 ms. Two changes in one tick have the same
/// time.
const TICK: Duration = Duration::from_millis(20);

/// File systems whose times have no fraction may count in seconds; FAT counts in steps of two.
const WHOLE_SECONDS: Duration = Duration::from_secs(3);

/// The state of a file when it was opened.
#[derive(Debug, Clone)]
pub struct Stamp {
    path: PathBuf,
    state: State,
    /// A hash of the content, if the file was changed just before it was opened, so that times cannot tell.
    content: Option<[u8; 32]>,
    /// A hash of the content as it was read, for a file whose time of change alone is another later, and how to compute it.
    read: Option<(u64, ContentHash)>,
    /// The symbolic links on the path, if the file is opened more than once: a link that pointed elsewhere in between has
    /// changed.
    links: Vec<(PathBuf, State)>,
}

/// Hashes what a link reads of a file's content.
pub type ContentHash = fn(&[u8]) -> u64;

/// Maximum number of links, as Linux follows.
const MOST_LINKS: usize = 40;

/// Metadata that changes with a file. Programs can set the time of modification, but not that of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        State {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
        }
    }

    /// Whether all but the time of change is the same.
    fn is_same_but_for_change(&self, other: &State) -> bool {
        *self == State { changed: self.changed, ..*other }
    }

    /// Whether a further change could leave the same times.
    fn is_recent(&self, now: SystemTime) -> bool {
        let (seconds, fraction) = self.changed;
        let (Ok(seconds), Ok(fraction)) = (u64::try_from(seconds), u32::try_from(fraction)) else { return true };
        let window = if fraction == 0 { WHOLE_SECONDS } else { TICK };
        // A time in the future is from another machine's clock.
        now.duration_since(SystemTime::UNIX_EPOCH + Duration::new(seconds, fraction)).map_or(true, |age| age < window)
    }
}

impl Stamp {
    /// Stamps an open file; `hash` is called only if the times cannot tell.
    ///
    /// # Errors
    /// Those of `hash`.
    pub fn new(path: &Path, metadata: &Metadata, hash: impl FnOnce() -> io::Result<[u8; 32]>) -> io::Result<Self> {
        let state = State::of(metadata);
        let content = state.is_recent(SystemTime::now()).then(hash).transpose()?;
        Ok(Stamp { path: path.to_owned(), state, content, read: None, links: Vec::new() })
    }

    /// The same, with what was read of the file.
    #[must_use]
    pub fn remember(self, content: &[u8], hash: ContentHash) -> Self {
        Stamp { read: Some((hash(content), hash)), ..self }
    }

    /// Stamps a file once it was changed long enough ago for its times to tell.
    #[cfg(test)]
    pub fn settled(path: &Path) -> Self {
        for _ in 0..1000 {
            let stamp = Self::of(path).unwrap();
            if stamp.content.is_none() {
                return stamp;
            }
            std::thread::sleep(TICK);
        }
        panic!("the clock of {} stands still", path.display());
    }

    /// Whether it has a hash of what was read.
    #[cfg(test)]
    pub fn knows_content(&self) -> bool {
        self.read.is_some()
    }

    /// Stamps a file that other programs will open by its path, together with the links on the path.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(path: &Path) -> io::Result<Self> {
        let mut links = Vec::new();
        links_on(&std::path::absolute(path)?, &mut links);
        let file = open(path)?;
        Ok(Stamp { links, ..Stamp::new(path, &file.metadata()?, || hash(&file))? })
    }

    /// Bytes that are the same for the same file only as long as it has not changed. They are its state, or, where the file system's times
    /// tell nothing, a hash of its content. `None` if the file was changed just before it was opened, or cannot be read any more.
    pub fn settled_state(&self) -> Option<Vec<u8>> {
        if self.content.is_some() {
            return None;
        }
        let file = open(&self.path).ok()?;
        if State::of(&file.metadata().ok()?) != self.state {
            return None;
        }
        let Some(file_system) = file_times::trusted_file_system(&file).ok()? else {
            return hash(&file).ok().map(Vec::from);
        };
        let State { device, inode, size, modified, changed } = self.state;
        let numbers = [device, inode, size].map(u64::to_le_bytes);
        let times = [modified.0, modified.1, changed.0, changed.1].map(i64::to_le_bytes);
        Some(numbers.iter().chain(&times).flatten().chain(&file_system).copied().collect())
    }

    /// Whether the path still leads to the same file with the same content.
    pub fn is_current(&self) -> bool {
        let state_of = |metadata: io::Result<Metadata>| metadata.ok().map(|metadata| State::of(&metadata));
        // There may be many files, so this takes one system call each. On a network file system the host linker has just
        // opened the file, which updated its metadata.
        let Some(now) = state_of(self.path.metadata()) else { return false };
        let is_same = match now == self.state {
            true => self.content.is_none() || self.has_same_content(),
            false => now.is_same_but_for_change(&self.state) && self.has_same_content(),
        };
        is_same && self.links.iter().all(|(path, state)| state_of(path.symlink_metadata()) == Some(*state))
    }

    /// Whether the file has the content that it had when it was opened, as far as that is known.
    fn has_same_content(&self) -> bool {
        let same = || {
            let mut file = open(&self.path)?;
            Ok::<_, io::Error>(match (self.content, self.read) {
                (Some(content), _) => hash(&file)? == content,
                (None, Some((read, hash))) => {
                    let mut bytes = Vec::new();
                    file.read_to_end(&mut bytes)?;
                    hash(&bytes) == read
                }
                (None, None) => false,
            })
        };
        same().unwrap_or(false)
    }

    /// Whether this is the stamp of the file with this metadata, under whatever path.
    pub fn is_of(&self, file: &Metadata) -> bool {
        (file.dev(), file.ino()) == (self.state.device, self.state.inode)
    }
}

/// Records every symbolic link on an absolute path, and on the paths that these links point to.
fn links_on(path: &Path, links: &mut Vec<(PathBuf, State)>) {
    let mut place = PathBuf::new();
    for part in path.components() {
        place.push(part);
        let Ok(metadata) = place.symlink_metadata() else { return };
        if !metadata.is_symlink() || links.iter().any(|(known, _)| *known == place) || links.len() == MOST_LINKS {
            continue;
        }
        links.push((place.clone(), State::of(&metadata)));
        if let (Some(folder), Ok(target)) = (place.parent(), place.read_link()) {
            links_on(&folder.join(target), links);
        }
    }
}

/// Opens a regular file, and nothing else: a thin archive may name a FIFO, on which opening would block.
///
/// # Errors
/// Those of opening it; anything but a regular file is `InvalidInput`.
pub fn open(path: &Path) -> io::Result<File> {
    let flags = i32::try_from(OFlags::NONBLOCK.bits()).unwrap_or(0);
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path)?;
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    Ok(file)
}

/// A fast hash of all bytes. It finds mistakes, no forgeries.
pub fn quick_hash(bytes: &[u8]) -> u64 {
    quick_hash_of([bytes])
}

/// The same for parts of a file.
pub fn quick_hash_of<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u64 {
    let mut hasher = FxHasher::default();
    parts.into_iter().for_each(|part| hasher.write(part));
    hasher.finish()
}

fn hash(file: &File) -> io::Result<[u8; 32]> {
    Ok(*blake3::Hasher::new().update_reader(file)?.finalize().as_bytes())
}

/// Finds the file that this name refers to. A hard link under another name does not count: replacing the file leaves it as it
/// is.
pub fn named<'s>(stamps: &'s [Stamp], name: &Path) -> Option<&'s Path> {
    let (file, place) = (name.metadata().ok()?, name.canonicalize().ok()?);
    let is_named = |stamp: &&Stamp| stamp.is_of(&file) && stamp.path.canonicalize().is_ok_and(|path| path == place);
    stamps.iter().find(is_named).map(|stamp| &*stamp.path)
}

/// Checks that none of the files has changed.
///
/// # Errors
/// One for each that has.
pub fn check<'s>(stamps: impl IntoIterator<Item = &'s Stamp>) -> Result<(), Errors> {
    let changed = stamps.into_iter().filter(|stamp| !stamp.is_current());
    changed.map(|stamp| Error::Changed { path: stamp.path.clone() }).collect::<Errors>().or(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    fn overwrite(path: &Path, text: &str) {
        OpenOptions::new().write(true).open(path).unwrap().write_all(text.as_bytes()).unwrap();
    }

    #[test]
    fn every_way_to_change_a_file_shows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        let other = folder.path().join("b.o");
        let changes: [(&str, &dyn Fn()); 5] = [
            ("rewritten in place with its old time", &|| {
                let before = path.metadata().unwrap().modified().unwrap();
                overwrite(&path, "two");
                File::open(&path).unwrap().set_modified(before).unwrap();
            }),
            ("truncated", &|| drop(File::create(&path).unwrap())),
            ("replaced", &|| {
                std::fs::write(&other, "two").unwrap();
                std::fs::rename(&other, &path).unwrap();
            }),
            ("removed", &|| std::fs::remove_file(&path).unwrap()),
            ("a FIFO", &|| {
                std::fs::remove_file(&path).unwrap();
                rustix::fs::mknodat(
                    rustix::fs::CWD,
                    &path,
                    rustix::fs::FileType::Fifo,
                    rustix::fs::Mode::from_raw_mode(0o600),
                    0,
                )
                .unwrap();
            }),
        ];
        for (how, change) in changes {
            let _ = std::fs::remove_file(&path);
            std::fs::write(&path, "one").unwrap();
            let stamp = Stamp::settled(&path);
            let stamps = [stamp.clone(), stamp.remember(b"one", quick_hash)];
            check(&stamps).unwrap();
            change();
            for stamp in &stamps {
                let errors = check([stamp]).expect_err(how);
                assert!(errors.to_string().contains("a.o changed during the link"), "{how}: {errors}");
            }
        }
    }

    #[test]
    fn a_file_changed_just_now_is_compared_by_content() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        std::fs::write(&path, "one").unwrap();
        let now = path.metadata().unwrap();
        // As if the second change had come in the same tick: the times are those of the new state.
        let stamp = |text: &str| Stamp {
            path: path.clone(),
            state: State::of(&now),
            content: Some(*blake3::hash(text.as_bytes()).as_bytes()),
            read: None,
            links: Vec::new(),
        };
        assert!(stamp("one").is_current());
        assert!(!stamp("two").is_current());
    }

    #[test]
    fn a_change_of_metadata_alone_is_none_if_the_content_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        let other = folder.path().join("b.o");
        let changes: [(&str, &dyn Fn()); 3] = [
            ("linked", &|| std::fs::hard_link(&path, &other).unwrap()),
            ("unlinked", &|| std::fs::remove_file(&other).unwrap()),
            ("made read-only", &|| {
                let mut permissions = path.metadata().unwrap().permissions();
                permissions.set_readonly(true);
                std::fs::set_permissions(&path, permissions).unwrap();
            }),
        ];
        std::fs::write(&path, "one").unwrap();
        for (how, change) in changes {
            let unknown = Stamp::settled(&path);
            let known = unknown.clone().remember(b"one", quick_hash);
            let recent = Stamp { content: Some(*blake3::hash(b"one").as_bytes()), ..unknown.clone() };
            change();
            assert!(known.is_current() && recent.is_current(), "{how}");
            // Nothing tells that no other bytes were there when it was read.
            assert!(!unknown.is_current(), "{how}");
            assert!(!unknown.clone().remember(b"two", quick_hash).is_current(), "{how}");
        }
    }

    #[test]
    fn a_link_that_led_elsewhere_for_a_while_shows() {
        let folder = tempfile::tempdir().unwrap();
        let place = |name: &str| folder.path().join(name);
        std::fs::create_dir(place("cuda-13")).unwrap();
        std::fs::write(place("cuda-13/ptxas"), "one").unwrap();
        let lead = |name: &str, target: &str| {
            std::os::unix::fs::symlink(target, place("new")).unwrap();
            std::fs::rename(place("new"), place(name)).unwrap();
        };
        lead("cuda", "latest");
        lead("latest", "cuda-13");
        for link in ["cuda", "latest"] {
            let stamp = Stamp::settled(&place("cuda/ptxas"));
            assert!(stamp.is_current());
            // Kept, so that the new link cannot have its inode.
            std::fs::rename(place(link), place(&format!("old {link}"))).unwrap();
            lead(link, "/nowhere");
            lead(link, if link == "cuda" { "latest" } else { "cuda-13" });
            assert!(place("cuda/ptxas").exists() && !stamp.is_current(), "{link}");
        }
    }

    #[test]
    fn times_tell_only_after_a_tick() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.o");
        std::fs::write(&path, "").unwrap();
        let state = |changed| State { changed, ..State::of(&path.metadata().unwrap()) };
        let at = |milliseconds| SystemTime::UNIX_EPOCH + Duration::from_millis(milliseconds);
        for (changed, now, recent) in [
            ((100, 500_000_000), 100_501, true),
            ((100, 500_000_000), 100_700, false),
            ((100, 0), 100_700, true),
            ((100, 0), 104_000, false),
            ((100, 500_000_000), 99_000, true),
            ((-1, 0), 99_000, true),
        ] {
            assert_eq!(state(changed).is_recent(at(now)), recent, "{changed:?} {now}");
        }
    }
}
