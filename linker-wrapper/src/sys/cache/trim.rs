//! Keeping the folder below its size: what was not used for longest goes first.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::sys::cache::layout::{UNFINISHED, is_entry};
use crate::sys::cache::trust;

/// The folder is looked through at most this often, unless a link adds much to it.
const INTERVAL: Duration = Duration::from_secs(20 * 60);

/// A link that adds more than this part of the capacity looks in any case.
const MUCH: u64 = 20;

/// Trimming goes down to this many hundredths of the capacity, so that the next link does not trim again.
const TARGET_PERCENT: u64 = 90;

/// No link needs this long to write one entry: its writer is gone.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// Its time is that of the last look.
const STAMP: &str = "trimmed";

/// Marks the folder for programs that make backups (<https://bford.info/cachedir/>).
pub fn tag(folder: &Path) {
    const TEXT: &str =
        "Signature: 8a477f597d28d172789f06886806bc55\n# fatlink's cache: it can be removed at any time.\n";
    // Without it everything works as well. What is there already is left alone, links too.
    let _ = File::create_new(folder.join("CACHEDIR.TAG")).and_then(|mut tag| tag.write_all(TEXT.as_bytes()));
}

/// Trims if the last look is long ago or `added` bytes are much.
pub fn now_and_then(folder: &Path, capacity: u64, added: u64) {
    let stamp = folder.join(STAMP);
    let recent = fs::symlink_metadata(&stamp).and_then(|found| found.modified()).is_ok_and(|last| {
        // A time in the future is a clock that was set: look.
        SystemTime::now().duration_since(last).is_ok_and(|age| age < INTERVAL)
    });
    if recent && added <= capacity / MUCH {
        return;
    }
    // The stamp's new time is now by the clock of the file system, which may be another machine's.
    if let Ok(now) = touch(&stamp) {
        trim(folder, capacity, now);
    }
}

fn touch(stamp: &Path) -> io::Result<SystemTime> {
    let open = || trust::open(stamp, File::options().write(true).create(true).truncate(true));
    // In a shared folder it may be another user's, and it may be a link or a FIFO.
    let file = open().or_else(|_| fs::remove_file(stamp).and_then(|()| open()))?;
    // Truncating an empty file may leave its time as it was.
    (&file).write_all(b"\n")?;
    file.metadata()?.modified()
}

/// Removes the oldest entries if there is too much.
pub fn trim(folder: &Path, capacity: u64, now: SystemTime) {
    let entries = entries(folder, now);
    if total(&entries) > capacity {
        remove_oldest(entries, capacity / 100 * TARGET_PERCENT);
    }
}

/// The disk is full: a part of it goes, whatever the capacity, so that the next links find room.
pub fn make_room(folder: &Path) {
    let entries = entries(folder, SystemTime::now());
    let rest = total(&entries) / 4 * 3;
    remove_oldest(entries, rest);
}

/// An entry: when it was used, its size, and its path.
type Entry = (SystemTime, u64, PathBuf);

fn total(entries: &[Entry]) -> u64 {
    entries.iter().map(|(_, size, _)| size).sum()
}

/// All entries. Unfinished ones that nobody writes any more are removed.
fn entries(folder: &Path, now: SystemTime) -> Vec<Entry> {
    let mut entries = Vec::new();
    for path in files(folder) {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let (true, Ok(modified)) = (found.is_file(), found.modified()) else { continue };
        if is_entry(&path) {
            entries.push((modified, found.len(), path));
        } else if is_unfinished(&path) && now.duration_since(modified).is_ok_and(|age| age > STALE_AFTER) {
            // Another link may trim at the same time and be first: here and below that is fine.
            let _ = fs::remove_file(path);
        }
    }
    entries
}

fn remove_oldest(mut entries: Vec<Entry>, target: u64) {
    let mut left = total(&entries);
    entries.sort();
    for (_, size, path) in entries {
        if left <= target {
            break;
        }
        let _ = fs::remove_file(path);
        left -= size;
    }
}

fn is_unfinished(path: &Path) -> bool {
    path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(UNFINISHED.as_bytes()))
}

/// What lies in the folders that entries are in, and nothing else that a user may have there.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    // A link would lead out of the cache.
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|found| found.path());
    let folder = folder.to_owned();
    let shards = (0..=0xff_u32).map(move |shard| folder.join(format!("{shard:02x}")));
    shards.filter(is_folder).flat_map(inside)
}
