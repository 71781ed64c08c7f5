//! The documentation names files of the working tree that exist.

use std::path::{Path, PathBuf};

/// Folders whose files the documentation names by their paths from the root.
const FOLDERS: [&str; 9] = [
    "benchmarks",
    "docs",
    "linker-wrapper",
    "lit-tests",
    "llvm-passes",
    "offload-bundle",
    "remote-cache",
    "samples",
    "xtask",
];

#[test]
fn files_that_the_documentation_names_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut missing = Vec::new();
    for page in pages(root) {
        let text = std::fs::read_to_string(&page).unwrap();
        let folder = page.parent().unwrap();
        let named = paths_in_code(&text).map(|path| root.join(path));
        let linked = links(&text).map(|link| folder.join(link));
        let gone = named.chain(linked).filter(|path| !path.exists());
        missing.extend(gone.map(|path| format!("{}: {}", page.display(), path.display())));
    }
    assert!(missing.is_empty(), "these are gone or have moved:\n{}", missing.join("\n"));
}

fn pages(root: &Path) -> Vec<PathBuf> {
    let folders = [root.to_owned(), root.join("docs")];
    let entries = folders.iter().flat_map(|folder| std::fs::read_dir(folder).unwrap());
    entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
}

/// Paths between backquotes; a command line has spaces, and a pattern has other characters.
fn paths_in_code(text: &str) -> impl Iterator<Item = &str> {
    let is_path = |word: &&str| {
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "/._-".contains(c));
        plain && word.split_once('/').is_some_and(|(first, _)| FOLDERS.contains(&first))
    };
    text.lines()
        .filter(|line| !line.starts_with("    "))
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .filter(is_path)
}

/// Targets of links to other pages, without the place in the page.
fn links(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets
        .filter(|target| !target.contains(':') && !target.starts_with('#'))
        .filter_map(|target| target.split('#').next())
}

#[test]
fn paths_and_links_are_found() {
    let text =
        "See `docs/a.md` and `cargo run docs/b.md`, `a/b`, [c](c.md#d), [e](https://e.example).\n    `docs/f.md`\n";
    assert_eq!(paths_in_code(text).collect::<Vec<_>>(), ["docs/a.md"]);
    assert_eq!(links(text).collect::<Vec<_>>(), ["c.md"]);
}
