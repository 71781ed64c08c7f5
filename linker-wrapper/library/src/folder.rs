//! The private folder of a link.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::Error;

/// How the names of results begin, but not those of units. They lie beside the units, because removing one more folder takes a file system
/// milliseconds.
pub const OWN: &str = ".fatlink.";

/// A folder that is removed with all that is in it.
#[derive(Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// Creates a folder in this one, for this user alone.
    pub fn new(place: &Path) -> Result<Self, Error> {
        let cannot = |source| Error::File { path: place.to_owned(), source };
        let private = Permissions::from_mode(0o700);
        let made = tempfile::Builder::new().prefix("fatlink-link-").permissions(private).tempdir_in(place);
        Ok(Folder(made.map_err(cannot)?.keep()))
    }

    /// Where it is: an absolute path.
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Writes a file, and the folders that it is in.
    pub fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Error> {
        let path = self.0.join(name);
        let folder = path.parent().unwrap_or(&self.0);
        let written = std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, bytes));
        written.map_err(|source| Error::File { path, source })
    }

    /// Reads a result.
    pub fn read(&self, name: &str) -> Result<Vec<u8>, Error> {
        let path = self.0.join(name);
        std::fs::read(&path).map_err(|source| Error::File { path, source })
    }
}

impl Drop for Folder {
    /// Removes the folder. A process that was killed may take a moment to die, and write until then.
    fn drop(&mut self) {
        for _ in 0..100 {
            let gone = std::fs::remove_dir_all(&self.0);
            if gone.is_ok() || !self.0.exists() {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_removed_with_its_files() {
        let place = tempfile::tempdir().unwrap();
        let folder = Folder::new(place.path()).unwrap();
        folder.write("a/b.o", b"x").unwrap();
        assert_eq!(folder.read("a/b.o").unwrap(), b"x");
        drop(folder);
        assert_eq!(std::fs::read_dir(place.path()).unwrap().count(), 0);
        assert!(matches!(Folder::new(&place.path().join("none")), Err(Error::File { .. })));
    }
}
