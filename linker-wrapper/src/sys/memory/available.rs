//! Reads Linux's information about memory: `/proc/meminfo`, the control groups of this process (versions 1 and 2), and the
//! peak of a process.
//!
//! Crates for control groups manage groups; only two numbers are read here.

use std::fs;
use std::path::{Path, PathBuf};

/// Bytes that are available without swapping or exceeding a limit. `None`: unknown. `root` is `/`.
pub fn bytes(root: &Path) -> Option<u64> {
    let machine = fs::read_to_string(root.join("proc/meminfo")).ok().and_then(|text| field(&text, "MemAvailable:"));
    machine.into_iter().chain(of_groups(root)).min()
}

/// Peak memory of a running process in bytes. `None`: there is no such process.
pub fn peak_of(process: &str) -> Option<u64> {
    field(&fs::read_to_string(format!("/proc/{process}/status")).ok()?, "VmHWM:")
}

/// Peak memory of this process in bytes; 0 if it is unknown.
pub fn own_peak() -> u64 {
    peak_of("self").unwrap_or_default()
}

/// Starts the peak of this process anew, from its present size. Where the system does not allow this, the old peak stays.
pub fn forget_own_peak() {
    let _ = fs::write("/proc/self/clear_refs", "5");
}

/// Parses a line such as `MemAvailable:   123 kB`, in bytes.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(name))?;
    let kib: u64 = value.trim().trim_end_matches("kB").trim_end().parse().ok()?;
    kib.checked_mul(1024)
}

/// The memory files of a version of control groups.
struct Version {
    limit: &'static str,
    used: &'static str,
    /// Key in `memory.stat` of the pages that the kernel can reclaim.
    files: [&'static str; 2],
}

const FIRST: Version = Version {
    limit: "memory.limit_in_bytes",
    used: "memory.usage_in_bytes",
    files: ["total_inactive_file", "total_active_file"],
};

const SECOND: Version =
    Version { limit: "memory.max", used: "memory.current", files: ["inactive_file", "active_file"] };

/// What is left in each group of this process that has a limit.
fn of_groups(root: &Path) -> Vec<u64> {
    let Ok(groups) = fs::read_to_string(root.join("proc/self/cgroup")) else { return Vec::new() };
    let mounts = fs::read_to_string(root.join("proc/self/mountinfo")).unwrap_or_default();
    let mut left = Vec::new();
    for line in groups.lines() {
        // hierarchy:controllers:path
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else { continue };
        let version = match controllers {
            "" => SECOND,
            _ if controllers.split(',').any(|controller| controller == "memory") => FIRST,
            _ => continue,
        };
        for (mount, folder) in folders(&mounts, controllers, path) {
            // The limits of all parent groups apply.
            let inside = folder.ancestors().take_while(|group| group.starts_with(&mount));
            left.extend(inside.filter_map(|group| left_in(&root.join(group.strip_prefix("/").ok()?), &version)));
        }
    }
    left
}

/// Mount points of a hierarchy, with the group's folder in each. In a container only a part of it may be mounted, as if that
/// were all.
fn folders(mounts: &str, controllers: &str, group: &str) -> Vec<(PathBuf, PathBuf)> {
    let of_mount = |line: &str| {
        let (left, right) = line.split_once(" - ")?;
        let mut left = left.split(' ').skip(3);
        let (mounted, point) = (left.next()?, PathBuf::from(left.next()?));
        let mut right = right.split(' ');
        let (kind, options) = (right.next()?, right.nth(1).unwrap_or_default());
        let ours = match controllers {
            "" => kind == "cgroup2",
            _ => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        };
        let inside = Path::new(group).strip_prefix(mounted).unwrap_or(Path::new(""));
        let clean = !inside.components().any(|part| part == std::path::Component::ParentDir);
        let folder = if clean { point.join(inside) } else { point.clone() };
        ours.then_some((point, folder))
    };
    mounts.lines().filter_map(of_mount).collect()
}

/// The limit of one group, less the memory used that cannot be reclaimed.
fn left_in(group: &Path, version: &Version) -> Option<u64> {
    let number = |name: &str| fs::read_to_string(group.join(name)).ok()?.trim().parse::<u64>().ok();
    // "max" is not a number and means no limit.
    let limit = number(version.limit)?;
    let used = number(version.used).unwrap_or_default();
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let pages = stat.lines().filter_map(|line| line.split_once(' '));
    let files: u64 =
        pages.filter(|(name, _)| version.files.contains(name)).filter_map(|(_, n)| n.parse::<u64>().ok()).sum();
    Some(limit.saturating_sub(used.saturating_sub(files)))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A file system with these files.
    fn system(files: &[(&str, &str)]) -> tempfile::TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const MEMINFO: (&str, &str) = ("proc/meminfo", "MemTotal:   9000 kB\nMemAvailable:    8000 kB\n");
    const MOUNTS: &str = "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n\
        35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n\
        41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

    #[test]
    fn the_machine_alone() {
        assert_eq!(bytes(system(&[MEMINFO]).path()), Some(8000 << 10));
        assert_eq!(bytes(system(&[]).path()), None);
        assert_eq!(bytes(system(&[("proc/meminfo", "MemAvailable: many\n")]).path()), None);
    }

    #[test]
    fn groups_of_version_2() {
        let group = |limit, outer| {
            system(&[
                MEMINFO,
                ("proc/self/cgroup", "0::/user.slice/job\n"),
                ("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
                ("sys/fs/cgroup/user.slice/job/memory.max", limit),
                ("sys/fs/cgroup/user.slice/job/memory.current", "3000000\n"),
                ("sys/fs/cgroup/user.slice/job/memory.stat", "anon 1\ninactive_file 600000\nactive_file 400000\n"),
                ("sys/fs/cgroup/user.slice/memory.max", outer),
                ("sys/fs/cgroup/user.slice/memory.current", "0\n"),
            ])
        };
        assert_eq!(bytes(group("5000000\n", "max\n").path()), Some(3_000_000));
        assert_eq!(bytes(group("max\n", "max\n").path()), Some(8000 << 10));
        assert_eq!(bytes(group("5000000\n", "1000\n").path()), Some(1000));
        assert_eq!(bytes(group("1000000\n", "max\n").path()), Some(0));
    }

    #[test]
    fn groups_of_version_1_and_in_a_container() {
        let at = |group, folder: &str, mounts| {
            let name = |file| format!("sys/fs/cgroup/memory/{folder}memory.{file}");
            system(&[
                MEMINFO,
                ("proc/self/cgroup", group),
                ("proc/self/mountinfo", mounts),
                (&name("limit_in_bytes"), "4000000\n"),
                (&name("usage_in_bytes"), "3000000\n"),
                (&name("stat"), "total_inactive_file 500000\n"),
            ])
        };
        let groups = "9:name=systemd:/\n4:cpu,memory:/docker/abc\n0::/\n";
        assert_eq!(bytes(at(groups, "docker/abc/", MOUNTS).path()), Some(1_500_000));
        let inside = MOUNTS.replace("0:32 / ", "0:32 /docker/abc ");
        assert_eq!(bytes(at(groups, "", &inside).path()), Some(1_500_000));
        assert_eq!(bytes(at("4:memory:/../outside\n", "", MOUNTS).path()), Some(1_500_000));
        let none = "9223372036854771712";
        let free = at(groups, "docker/abc/", MOUNTS);
        fs::write(free.path().join("sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes"), none).unwrap();
        assert_eq!(bytes(free.path()), Some(8000 << 10));
    }

    #[test]
    fn peaks_of_processes() {
        assert!(peak_of("self").unwrap() > 1 << 20);
        assert_eq!(peak_of("0"), None);
    }
}
