//! Limits the size of the folder by removing the least recently used entries.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use crate::sys::cache::layout::{UNFINISHED, is_entry};
use crate::sys::cache::trust;

/// Minimum time between two checks, unless a link adds much.
const INTERVAL: Duration = Duration::from_secs(20 * 60);

/// A link that adds more than this fraction of the capacity always checks.
const MUCH: u64 = 20;

/// Percentage of the capacity that trimming leaves, so that the next link need not trim again.
const TARGET_PERCENT: u64 = 90;

/// Age at which an unfinished entry has no writer any more.
const STALE_AFTER: Duration = Duration::from_secs(60 * 60);

/// A file whose time is that of the last check.
const STAMP: &str = "trimmed";

/// Marks the folder for backup programs (<https://bford.info/cachedir/>).
pub fn tag(folder: &Path) {
    const TEXT: &str =
        "Signature: 8a477f597d28d172789f06886806bc55\n# fatlink's cache: it can be removed at any time.\n";
    // The mark is not essential. An existing file, or a link, is left alone.
    let _ = File::create_new(folder.join("CACHEDIR.TAG")).and_then(|mut tag| tag.write_all(TEXT.as_bytes()));
}

/// Trims the folder if the last check was long ago or `added` bytes are much.
pub fn now_and_then(folder: &Path, capacity: u64, added: u64) {
    let stamp = folder.join(STAMP);
    let recent = fs::symlink_metadata(&stamp).and_then(|found| found.modified()).is_ok_and(|last| {
        // A time in the future means that the clock was set back.
        SystemTime::now().duration_since(last).is_ok_and(|age| age < INTERVAL)
    });
    if recent && added <= capacity / MUCH {
        return;
    }
    // Uses the clock of the file system, which may be another machine's.
    if let Ok(now) = touch(&stamp) {
        trim(folder, capacity, now);
    }
}

fn touch(stamp: &Path) -> io::Result<SystemTime> {
    let open = || trust::open(stamp, File::options().write(true).create(true).truncate(true));
    // In a shared folder the file may belong to another user, or be a link or a FIFO.
    let file = open().or_else(|_| fs::remove_file(stamp).and_then(|()| open()))?;
    // Truncating an empty file may leave its time unchanged.
    (&file).write_all(b"\n")?;
    file.metadata()?.modified()
}

/// Removes the oldest entries if the folder exceeds its capacity.
pub fn trim(folder: &Path, capacity: u64, now: SystemTime) {
    let entries = entries(folder, now);
    if total(&entries) > capacity {
        remove_oldest(entries, capacity / 100 * TARGET_PERCENT);
    }
}

/// Removes a quarter of the entries whatever the capacity, because the disk is full.
pub fn make_room(folder: &Path) {
    let entries = entries(folder, SystemTime::now());
    let rest = total(&entries) / 4 * 3;
    remove_oldest(entries, rest);
}

/// Time of last use, size, and path.
type Entry = (SystemTime, u64, PathBuf);

fn total(entries: &[Entry]) -> u64 {
    entries.iter().map(|(_, size, _)| size).sum()
}

/// Lists all entries, and removes unfinished ones that have no writer any more.
fn entries(folder: &Path, now: SystemTime) -> Vec<Entry> {
    let mut entries = Vec::new();
    for path in files(folder) {
        let Ok(found) = fs::symlink_metadata(&path) else { continue };
        let (true, Ok(modified)) = (found.is_file(), found.modified()) else { continue };
        if is_entry(&path) {
            entries.push((modified, found.len(), path));
        } else if is_unfinished(&path) && now.duration_since(modified).is_ok_and(|age| age > STALE_AFTER) {
            // Another link may remove the same file at the same time, which is fine here and below.
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

/// Lists the files in the folders of entries. Other files of the user are ignored.
fn files(folder: &Path) -> impl Iterator<Item = PathBuf> {
    // A symbolic link would lead out of the cache.
    let is_folder = |path: &PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let inside = |folder: PathBuf| fs::read_dir(folder).into_iter().flatten().flatten().map(|found| found.path());
    let folder = folder.to_owned();
    let shards = (0..=0xff_u32).map(move |shard| folder.join(format!("{shard:02x}")));
    shards.filter(is_folder).flat_map(inside)
}
