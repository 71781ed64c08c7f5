//! How much memory a process and its descendants take now.

use std::fs;

use super::available;

/// Bytes that this process and its descendants have in memory now. Pages that they share count once, where the kernel divides them
/// (`smaps_rollup`, from Linux 4.14), as workers share most of theirs. Where the system does not list children
/// (`CONFIG_PROC_CHILDREN`), they are left out.
pub fn resident_with_children() -> u64 {
    of_family("self", 0)
}

/// A tool of a tool of a worker is as deep as it gets.
const DEEPEST: u32 = 8;

fn of_family(process: &str, depth: u32) -> u64 {
    let own = resident(process).unwrap_or(0);
    if depth == DEEPEST {
        return own;
    }
    let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let lists = threads.filter_map(|thread| fs::read_to_string(thread.path().join("children")).ok());
    let sum = |list: String| list.split_whitespace().map(|child| of_family(child, depth + 1)).sum::<u64>();
    own + lists.map(sum).sum::<u64>()
}

/// The resident size of a process in bytes, with its part of the pages that it shares; `None` if it has ended.
fn resident(process: &str) -> Option<u64> {
    let divided = fs::read_to_string(format!("/proc/{process}/smaps_rollup")).ok();
    divided.and_then(|text| available::field(&text, "Pss:")).or_else(|| undivided(process))
}

/// The resident size of a process in bytes, with all pages that it shares.
fn undivided(process: &str) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{process}/statm")).ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    pages.checked_mul(rustix::param::page_size() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn children_count() {
        let alone = resident("self").unwrap();
        assert!(alone > 0);
        let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
        let of_child = resident(&child.id().to_string()).unwrap();
        let together = resident_with_children();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(of_child > 0 && together >= of_child, "{alone} {of_child} {together}");
        assert!(alone <= undivided("self").unwrap(), "its part of shared pages is smaller than all of them");
        assert_eq!(resident("0"), None);
    }
}
