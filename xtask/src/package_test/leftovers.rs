//! What is in a system: compared before a package comes and after it is gone.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::chroot::Chroot;
use crate::failure::{Failure, Result};

/// What a system has of its own, and what dpkg and apt write about all packages.
const EXCEPT: [&str; 14] = [
    "dev",
    "proc",
    "run",
    "sys",
    "tmp",
    "var/cache",
    "var/lib/apt",
    "var/lib/dpkg/available",
    "var/lib/dpkg/lock",
    "var/lib/dpkg/lock-frontend",
    "var/lib/dpkg/status",
    "var/lib/dpkg/status-old",
    "var/lib/dpkg/triggers/Lock",
    "var/log",
];

/// Each path with its kind, and the size of a file or the target of a link.
pub type Listing = BTreeMap<PathBuf, String>;

/// Lists everything in a system.
pub fn of(chroot: &Chroot) -> Result<Listing> {
    let mut listing = Listing::new();
    list(chroot.root(), Path::new(""), &mut listing)?;
    Ok(listing)
}

fn list(root: &Path, folder: &Path, listing: &mut Listing) -> Result<()> {
    let path = root.join(folder);
    let failed = |error| Failure::file("read", &path, &error);
    for entry in std::fs::read_dir(&path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let name = folder.join(entry.file_name());
        if EXCEPT.iter().any(|except| name == Path::new(except)) {
            continue;
        }
        let metadata = entry.metadata().map_err(failed)?;
        if metadata.is_dir() {
            listing.insert(name.clone(), "folder".to_owned());
            list(root, &name, listing)?;
        } else if metadata.is_symlink() {
            let target = std::fs::read_link(entry.path()).map_err(failed)?;
            listing.insert(name, format!("link to {}", target.display()));
        } else {
            listing.insert(name, format!("{} bytes", metadata.len()));
        }
    }
    Ok(())
}

/// Fails with what came, went or changed.
pub fn compare(before: &Listing, after: &Listing) -> Result<()> {
    let describe = |mark: char, path: &Path, what: &str| format!("{mark} {} ({what})\n", path.display());
    let gone = before.iter().filter(|(path, what)| after.get(*path) != Some(what));
    let new = after.iter().filter(|(path, what)| before.get(*path) != Some(what));
    let output: String = gone
        .map(|(path, what)| describe('-', path, what))
        .chain(new.map(|(path, what)| describe('+', path, what)))
        .collect();
    if output.is_empty() {
        return Ok(());
    }
    Err(Failure { message: "the system is not what it was before the package was installed".to_owned(), output })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listing(entries: &[(&str, &str)]) -> Listing {
        entries.iter().map(|(path, what)| (PathBuf::from(path), (*what).to_owned())).collect()
    }

    #[test]
    fn what_came_went_and_changed_is_named() {
        let before = listing(&[("etc", "folder"), ("etc/a", "1 bytes"), ("etc/b", "2 bytes")]);
        assert!(compare(&before, &before).is_ok());
        let after = listing(&[("etc", "folder"), ("etc/a", "3 bytes"), ("etc/c", "link to a")]);
        let failure = compare(&before, &after).unwrap_err();
        assert_eq!(failure.output, "- etc/a (1 bytes)\n- etc/b (2 bytes)\n+ etc/a (3 bytes)\n+ etc/c (link to a)\n");
    }
}
