//! The documentation names files of the working tree that exist, links to headings that exist, and is one book.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders whose files the documentation names by their paths from the root.
const FOLDERS: [&str; 10] = [
    "benchmarks",
    "cubin-link",
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
    let root = root();
    let mut missing = Vec::new();
    for page in pages(&root) {
        let text = read(&page);
        let named = paths_in_code(&text).map(|path| root.join(path));
        let linked = links(&text).map(|(path, _)| target(&page, path));
        let gone = named.chain(linked).filter(|path| !path.exists());
        missing.extend(gone.map(|path| format!("{}: {}", page.display(), path.display())));
    }
    assert!(missing.is_empty(), "these are gone or have moved:\n{}", missing.join("\n"));
}

#[test]
fn headings_that_the_documentation_links_to_exist() {
    let mut missing = Vec::new();
    for page in pages(&root()) {
        let text = read(&page);
        let to_headings = links(&text).filter_map(|(path, anchor)| Some((target(&page, path), anchor?)));
        let gone = to_headings.filter(|(path, anchor)| !anchors(&read(path)).contains(&(*anchor).to_owned()));
        missing.extend(gone.map(|(path, anchor)| format!("{}: {}#{anchor}", page.display(), path.display())));
    }
    assert!(missing.is_empty(), "no such headings:\n{}", missing.join("\n"));
}

#[test]
fn the_summary_lists_every_page_of_the_book() {
    let docs = root().join("docs");
    let summary = docs.join("SUMMARY.md");
    let mut pages = BTreeSet::new();
    find_pages(&docs, &mut |page| pages.extend((page != summary).then_some(page)));
    let text = read(&summary);
    let listed: BTreeSet<PathBuf> = links(&text).map(|(path, _)| docs.join(path)).collect();
    let on_one_side: Vec<_> = pages.symmetric_difference(&listed).collect();
    assert!(on_one_side.is_empty(), "in docs/ or in its SUMMARY.md, but not in both: {on_one_side:?}");
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The pages in the root, and all below docs/.
fn pages(root: &Path) -> Vec<PathBuf> {
    let in_root = std::fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut pages: Vec<PathBuf> = in_root.filter(|path| is_page(path)).collect();
    find_pages(&root.join("docs"), &mut |page| pages.push(page));
    pages
}

fn find_pages(folder: &Path, found: &mut dyn FnMut(PathBuf)) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            find_pages(&path, found);
        } else if is_page(&path) {
            found(path);
        }
    }
}

fn is_page(path: &Path) -> bool {
    path.extension().is_some_and(|end| end == "md")
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

/// Links to files: the path, which is empty for the page itself, and the heading.
fn links(text: &str) -> impl Iterator<Item = (&str, Option<&str>)> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.filter(|target| !target.contains(':')).map(|target| match target.split_once('#') {
        Some((path, anchor)) => (path, Some(anchor)),
        None => (target, None),
    })
}

/// The file that a link of a page leads to.
fn target(page: &Path, path: &str) -> PathBuf {
    if path.is_empty() { page.to_owned() } else { page.parent().unwrap().join(path) }
}

/// The names that mdbook and GitHub give the headings of a page.
fn anchors(text: &str) -> Vec<String> {
    let mut anchors: Vec<String> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if in_code || !line.starts_with('#') {
            continue;
        }
        let heading = line.trim_start_matches('#').trim().to_lowercase();
        let kept = heading.chars().filter(|c| c.is_alphanumeric() || " _-".contains(*c));
        let slug: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let earlier = anchors.iter().filter(|anchor| **anchor == slug).count();
        anchors.push(if earlier == 0 { slug } else { format!("{slug}-{earlier}") });
    }
    anchors
}

#[test]
fn paths_links_and_headings_are_found() {
    let text = "See `docs/a.md` and `cargo run docs/b.md`, `a/b`, [c](c.md#d), [e](https://e.example), [f](#f).\n    \
                `docs/f.md`\n";
    assert_eq!(paths_in_code(text).collect::<Vec<_>>(), ["docs/a.md"]);
    assert_eq!(links(text).collect::<Vec<_>>(), [("c.md", Some("d")), ("", Some("f"))]);
    let text = "# How `safe` works: a.b -c\n```sh\n# no heading\n```\n## A_b\n## A_b\n";
    assert_eq!(anchors(text), ["how-safe-works-ab--c", "a_b", "a_b-1"]);
}
