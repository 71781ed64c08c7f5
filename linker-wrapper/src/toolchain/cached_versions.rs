//! Keeps in the cache what a tool prints for `--version`, by the state of its file: a link that compiles nothing starts no tool.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::sys::cache::{Cache, Key};
use crate::sys::stamp::Stamp;

/// Where the cache keeps the output of a tool for `--version`.
pub struct CachedVersion<'c> {
    folder: &'c Cache,
    stamp: Stamp,
    key: Key,
}

impl<'c> CachedVersion<'c> {
    /// Prepares to look up the output of a tool. `None`: there is no cache, or the state of the file does not tell whether it changes.
    pub fn of(tool: &Path, folder: Option<&'c Cache>) -> Option<Self> {
        let (folder, stamp) = (folder?, Stamp::of(tool).ok()?);
        let key = Key::of_state("version", &stamp)?;
        Some(CachedVersion { folder, stamp, key })
    }

    /// Looks up the output.
    pub fn text(&self) -> Option<String> {
        String::from_utf8(self.folder.get_uncounted(&self.key)?).ok()
    }

    /// Keeps the output, unless the file has changed since the lookup.
    pub fn keep(&self, tool: &Path, text: &str) {
        if is_program(tool) && self.stamp.is_current() {
            self.folder.put(&self.key, text.as_bytes());
        }
    }
}

/// Whether a file is a program itself: what a script runs may change without the script.
fn is_program(tool: &Path) -> bool {
    let mut magic = [0; 4];
    File::open(tool).and_then(|mut file| file.read_exact(&mut magic)).is_ok() && &magic == b"\x7fELF"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_tool_is_known_until_its_file_has_another_state() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::open(folder.path().join("cache"));
        let tool = folder.path().join("ptxas");
        let write = |text: &str| {
            std::fs::write(&tool, text).unwrap();
            // Only files that have not been changed for a moment have a state that tells.
            Stamp::settled(&tool);
        };
        let kept = || CachedVersion::of(&tool, Some(&cache)).unwrap();
        write("\x7fELF one");
        assert_eq!(kept().text(), None);
        kept().keep(&tool, "13.0");
        assert_eq!(kept().text().as_deref(), Some("13.0"));
        let before = kept();
        write("\x7fELF two");
        assert_eq!(kept().text(), None);
        before.keep(&tool, "13.0");
        assert_eq!(before.text().as_deref(), Some("13.0"));
        assert_eq!(kept().text(), None);
        // What a script runs may change without it.
        write("#!/bin/sh\nexec ptxas \"$@\"\n");
        kept().keep(&tool, "13.0");
        assert_eq!(kept().text(), None);
        assert!(CachedVersion::of(&tool, None).is_none());
        assert_eq!(cache.hits_and_misses(), (0, 0));
    }
}
