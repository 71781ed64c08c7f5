//! Decides whose entries are used.
//!
//! Cached code becomes part of programs, so it must come from the user, from root, or from users with whom the folder is
//! shared on purpose.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::process::geteuid;

const SET_GROUP: u32 = 0o2000;
const GROUP_WRITES: u32 = 0o020;
const ALL_WRITE: u32 = 0o002;

/// Who may put entries into a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trust {
    /// The user and root.
    Own,
    /// The members of a group, too: the folder is set up so that all of its files belong to the group.
    Group(u32),
}

/// The metadata that decides.
#[derive(Debug, Clone, Copy)]
pub struct Access {
    owner: u32,
    group: u32,
    mode: u32,
}

impl Access {
    /// That of a file.
    pub fn of(metadata: &Metadata) -> Self {
        Access { owner: metadata.uid(), group: metadata.gid(), mode: metadata.mode() }
    }

    fn is_ours(&self) -> bool {
        [0, geteuid().as_raw()].contains(&self.owner)
    }
}

impl Trust {
    /// Whose entries in the folder are used.
    ///
    /// # Errors
    /// Others may write to the folder. The text follows "the cache is not used: ".
    pub fn of_folder(folder: Access) -> Result<Self, String> {
        let Access { owner, group, mode } = folder;
        if !folder.is_ours() {
            return Err(format!(
                "it belongs to another user (uid {owner}), who could put wrong code into this program; let root or you own it"
            ));
        }
        if mode & ALL_WRITE != 0 {
            return Err(
                "every user may write to it and so could put wrong code into this program; chmod o-w it".to_owned()
            );
        }
        match (mode & GROUP_WRITES != 0, mode & SET_GROUP != 0) {
            (false, _) => Ok(Trust::Own),
            (true, true) => Ok(Trust::Group(group)),
            (true, false) => Err(format!(
                "its group (gid {group}) may write to it and so could put wrong code into this program; chmod g-w it, or \
                 chmod g+s it to share it with the group"
            )),
        }
    }

    /// Whether a subfolder may hold entries.
    pub fn allows_shard(self, shard: Access) -> bool {
        let group_writes = shard.mode & GROUP_WRITES != 0;
        self.allows_owner(shard) && shard.mode & ALL_WRITE == 0 && (!group_writes || self == Trust::Group(shard.group))
    }

    /// Whether a file may be an entry.
    pub fn allows_entry(self, entry: Access) -> bool {
        self.allows_owner(entry) && entry.mode & (GROUP_WRITES | ALL_WRITE) == 0
    }

    fn allows_owner(self, access: Access) -> bool {
        access.is_ours() || self == Trust::Group(access.group)
    }
}

/// Opens an entry if it is a regular file of a trusted user. Does not follow links or block on a FIFO.
pub fn open_entry(path: &Path, trust: Trust) -> Option<File> {
    let shard = path.parent()?.symlink_metadata().ok()?;
    if !shard.is_dir() || !trust.allows_shard(Access::of(&shard)) {
        return None;
    }
    let file = open(path, File::options().read(true)).ok()?;
    let found = file.metadata().ok()?;
    (found.is_file() && trust.allows_entry(Access::of(&found))).then_some(file)
}

/// Opens a path at which there may be anything.
pub fn open(path: &Path, options: &mut std::fs::OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    options.custom_flags(i32::try_from(flags.bits()).unwrap_or_default()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Somebody else's number.
    fn other() -> u32 {
        geteuid().as_raw() + 1000
    }

    fn access(owner: u32, group: u32, mode: u32) -> Access {
        Access { owner, group, mode }
    }

    #[test]
    fn folders_that_others_may_write_to_are_refused() {
        let own = geteuid().as_raw();
        for (folder, trust) in [
            (access(own, 7, 0o40755), Ok(Trust::Own)),
            (access(0, 7, 0o40700), Ok(Trust::Own)),
            (access(own, 7, 0o42755), Ok(Trust::Own)),
            (access(own, 7, 0o42775), Ok(Trust::Group(7))),
            (access(0, 7, 0o42770), Ok(Trust::Group(7))),
            (access(own, 7, 0o40775), Err("its group (gid 7) may write to it")),
            (access(own, 7, 0o41777), Err("every user may write to it")),
            (access(own, 7, 0o42777), Err("every user may write to it")),
            (access(other(), 7, 0o40755), Err("it belongs to another user")),
            (access(other(), 7, 0o42775), Err("it belongs to another user")),
        ] {
            match (Trust::of_folder(folder), trust) {
                (Ok(found), Ok(expected)) => assert_eq!(found, expected, "{folder:?}"),
                (Err(why), Err(start)) => assert!(why.starts_with(start), "{folder:?}: {why}"),
                (found, expected) => panic!("{folder:?}: {found:?}, not {expected:?}"),
            }
        }
    }

    #[test]
    fn entries_of_others_do_not_count() {
        let own = geteuid().as_raw();
        for (trust, entry, allowed) in [
            (Trust::Own, access(own, 7, 0o100_644), true),
            (Trust::Own, access(0, 7, 0o100_644), true),
            (Trust::Own, access(other(), 7, 0o100_644), false),
            (Trust::Own, access(own, 7, 0o100_664), false),
            (Trust::Own, access(own, 7, 0o100_666), false),
            (Trust::Group(7), access(other(), 7, 0o100_644), true),
            (Trust::Group(7), access(other(), 8, 0o100_644), false),
            (Trust::Group(7), access(own, 8, 0o100_644), true),
            (Trust::Group(7), access(other(), 7, 0o100_664), false),
        ] {
            assert_eq!(trust.allows_entry(entry), allowed, "{trust:?} {entry:?}");
        }
        assert!(Trust::Own.allows_shard(access(own, 7, 0o40755)));
        assert!(!Trust::Own.allows_shard(access(own, 7, 0o40775)));
        assert!(!Trust::Own.allows_shard(access(other(), 7, 0o40755)));
        assert!(Trust::Group(7).allows_shard(access(other(), 7, 0o42775)));
        assert!(!Trust::Group(7).allows_shard(access(other(), 7, 0o42777)));
    }
}
