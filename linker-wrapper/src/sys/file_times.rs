//! Whether the time of a file's last change can be trusted to tell whether it is the same file.
//!
//! A file system that a kernel writes to sets this time itself, and no program can set it. One that was written as a whole by a program, such as
//! squashfs, erofs or ISO 9660, has the time that this program chose, often the same for all files: two images that are mounted in turn at one
//! place may differ in nothing but the content of a file. FUSE shows what its server says, an overlay and a network file system what is behind
//! them.

use std::fs::File;
use std::io;
use std::sync::OnceLock;

use rustix::fs::{AtFlags, StatVfsMountFlags, StatxFlags, fstatfs, fstatvfs, statx};

/// Types of file systems (`f_type` of `statfs`) whose times of change are set by this machine's kernel. All others are not trusted.
const WRITTEN_BY_THE_KERNEL: [u64; 10] = [
    0xef53,      // ext2, ext3, ext4
    0x5846_5342, // XFS
    0x9123_683e, // Btrfs
    0x0102_1994, // tmpfs
    0x8584_58f6, // ramfs
    0xf2f5_2010, // F2FS
    0x2fc1_2fc1, // ZFS
    0xca45_1a4e, // bcachefs
    0x3153_464a, // JFS
    0x5265_4973, // ReiserFS
];

/// Bytes that tell the file system of an open file from others that were mounted at its place, if its times tell whether a file has changed.
///
/// Copies of one file system have the same id. Since Linux 6.8 each mount has a number that no other mount gets until the next boot.
///
/// # Errors
/// The file system cannot be queried.
pub fn trusted_file_system(file: &File) -> io::Result<Option<Vec<u8>>> {
    let (kind, mount) = (fstatfs(file)?.f_type, fstatvfs(file)?);
    let is_read_only = mount.f_flag.contains(StatVfsMountFlags::RDONLY);
    if !keeps_times(kind as u64, is_read_only) {
        return Ok(None);
    }
    let mut id = mount.f_fsid.to_le_bytes().to_vec();
    if let Some(number) = mount_number(file) {
        id.extend(number.to_le_bytes());
        id.extend(this_boot());
    }
    Ok(Some(id))
}

/// The number of the mount of an open file; `None` before Linux 6.8.
fn mount_number(file: &File) -> Option<u64> {
    /// `STATX_MNT_ID_UNIQUE` of `linux/stat.h`.
    const UNIQUE: StatxFlags = StatxFlags::from_bits_retain(0x4000);
    let found = statx(file, c"", AtFlags::EMPTY_PATH, UNIQUE).ok()?;
    StatxFlags::from_bits_retain(found.stx_mask).contains(UNIQUE).then_some(found.stx_mnt_id)
}

/// What tells the time since this machine started from others.
fn this_boot() -> &'static [u8] {
    static BOOT: OnceLock<Vec<u8>> = OnceLock::new();
    BOOT.get_or_init(|| std::fs::read("/proc/sys/kernel/random/boot_id").unwrap_or_default())
}

/// A file system that is mounted for reading only may be an image, whatever its type: its times are those with which it was made.
fn keeps_times(kind: u64, is_read_only: bool) -> bool {
    !is_read_only && WRITTEN_BY_THE_KERNEL.contains(&kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_images_and_of_what_others_serve_are_not_trusted() {
        let (squashfs, erofs, iso, fuse, overlay, nfs) =
            (0x7371_7368, 0xe0f5_e1e2, 0x9660, 0x6573_5546, 0x794c_7630, 0x6969);
        for image in [squashfs, erofs, iso, fuse, overlay, nfs, 0] {
            assert!(!keeps_times(image, false) && !keeps_times(image, true), "{image:#x}");
        }
        for kind in WRITTEN_BY_THE_KERNEL {
            assert!(keeps_times(kind, false) && !keeps_times(kind, true), "{kind:#x}");
        }
    }

    #[test]
    fn a_file_system_is_the_same_for_all_of_its_files() {
        let folder = tempfile::tempdir().unwrap();
        let of = |name: &str| trusted_file_system(&File::create(folder.path().join(name)).unwrap()).unwrap();
        assert_eq!(of("one"), of("two"));
        // procfs has files that change without a time.
        assert_eq!(trusted_file_system(&File::open("/proc/self/stat").unwrap()).unwrap(), None);
    }
}
