//! `cargo xtask release-notes TAG`: the text of a release, if the tag, the version of the packages and the changelog agree.

use crate::failure::{Failure, Result};
use crate::repository::{Repository, read_text};

/// The version of all packages.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Prints the changelog's section of the tag's version.
pub fn run(repository: &Repository, tag: &str) -> Result<()> {
    let changelog = read_text(&repository.root.join("CHANGELOG.md"))?;
    print!("{}", notes(&changelog, VERSION, tag)?);
    Ok(())
}

/// The section of a version: the lines below its heading, up to the next one.
fn notes<'c>(changelog: &'c str, version: &str, tag: &str) -> Result<&'c str> {
    if tag.strip_prefix('v') != Some(version) {
        let advice = "the tag of a release is v and the version in Cargo.toml ([workspace.package], and in the lines of path dependencies)";
        return Err(Failure::new(format!("the tag is {tag}, and the packages have version {version}: {advice}")));
    }
    let heading = format!("\n## {version}");
    let section = changelog.split_once(&heading).map(|(_, rest)| rest).filter(|rest| rest.starts_with([' ', '\n']));
    let section = section.and_then(|rest| rest.split_once('\n')).ok_or_else(|| {
        let advice = "name the section `## Unreleased` so, with the date";
        Failure::new(format!("CHANGELOG.md has no section `## {version}`: {advice}"))
    })?;
    Ok(section.1.split("\n## ").next().unwrap_or_default().trim_matches('\n'))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANGELOG: &str = "# Changelog\n\n## Unreleased\n\n- new\n\n## 0.2.0 - 2027-01-02\n\n- old\n\n### Fixed\n\n- a\n\n## 0.1.0\n\n- first\n";

    #[test]
    fn a_release_has_the_section_of_its_version() {
        assert_eq!(notes(CHANGELOG, "0.2.0", "v0.2.0").unwrap(), "- old\n\n### Fixed\n\n- a");
        assert_eq!(notes(CHANGELOG, "0.1.0", "v0.1.0").unwrap(), "- first");
    }

    #[test]
    fn tags_and_sections_have_to_fit() {
        for (version, tag) in [("0.2.0", "v0.1.0"), ("0.2.0", "0.2.0"), ("0.3.0", "v0.3.0"), ("0.2", "v0.2")] {
            assert!(notes(CHANGELOG, version, tag).is_err(), "{version} {tag}");
        }
    }
}
