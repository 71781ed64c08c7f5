//! The calls of LLVM's tests that are known not to pass, and why.

/// Why a call does not pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Why {
    /// The test looks for the command line of a clang that links device code; LLVM runs in fatlink's process.
    InnerClang,
    /// The test looks for other commands or texts that fatlink replaces or words differently: docs/reference/differences.md.
    Different,
    /// Device code of OpenMP for GPUs.
    OpenMp,
    /// SYCL.
    Sycl,
    /// Hosts of Windows and of macOS.
    OtherHost,
    /// A fault or a lack of fatlink.
    Open,
}

impl Why {
    fn parse(word: &str) -> Option<Self> {
        Some(match word {
            "inner-clang" => Why::InnerClang,
            "different" => Why::Different,
            "openmp" => Why::OpenMp,
            "sycl" => Why::Sycl,
            "other-host" => Why::OtherHost,
            "open" => Why::Open,
            _ => return None,
        })
    }

    /// The reason in the report.
    pub fn words(self) -> &'static str {
        match self {
            Why::InnerClang => "looks for the command line of an inner clang",
            Why::Different => "looks for what differs on purpose",
            Why::OpenMp => "OpenMP for GPUs",
            Why::Sycl => "SYCL",
            Why::OtherHost => "host of another format",
            Why::Open => "open",
        }
    }
}

const LISTED: &str = include_str!("../../../lit-tests/upstream/known.txt");

/// Why this call of a release's test does not pass, and the rest of its line in the list.
pub fn reason(release: &str, test: &str, prefix: &str) -> Option<(Why, &'static str)> {
    entries().find(|entry| entry.key == [release, test, prefix]).map(|entry| (entry.why, entry.remark))
}

struct Entry {
    key: [&'static str; 3],
    why: Why,
    remark: &'static str,
}

fn entries() -> impl Iterator<Item = Entry> {
    LISTED.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let mut words = line.splitn(5, ' ');
        let key = [words.next()?, words.next()?, words.next()?];
        Some(Entry { key, why: Why::parse(words.next()?)?, remark: words.next().unwrap_or_default() })
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
