//! The calls of LLVM's tests that are known not to pass, and why.

/// The reasons, as the list names them and as the report does.
const REASONS: [(&str, &str); 5] = [
    // LLVM runs in fatlink's process.
    ("inner-clang", "looks for the command line of an inner clang"),
    // Other commands or texts, which fatlink replaces or words differently: docs/reference/differences.md.
    ("different", "looks for what differs on purpose"),
    ("sycl", "SYCL"),
    // Windows and macOS.
    ("other-host", "host of another format"),
    // A fault or a lack of fatlink.
    ("open", "open"),
];

const LISTED: &str = include_str!("../../../lit-tests/upstream/known.txt");

/// Why this call of a release's test does not pass, and the rest of its line in the list.
pub fn reason(release: &str, test: &str, prefix: &str) -> Option<(&'static str, &'static str)> {
    entries().find(|entry| entry.key == [release, test, prefix]).map(|entry| (entry.why, entry.remark))
}

struct Entry {
    key: [&'static str; 3],
    why: &'static str,
    remark: &'static str,
}

fn entries() -> impl Iterator<Item = Entry> {
    LISTED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.splitn(5, ' ');
        let key = [words.next()?, words.next()?, words.next()?];
        let named = words.next()?;
        let (_, why) = REASONS.into_iter().find(|(name, _)| *name == named)?;
        Some(Entry { key, why, remark: words.next().unwrap_or_default() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_of_the_list_is_read() {
        let lines = LISTED.lines().filter(|line| !line.starts_with('#') && !line.is_empty()).count();
        assert_eq!(entries().count(), lines);
        assert!(entries().all(|entry| ["22", "23"].contains(&entry.key[0])));
    }
}
