//! linker-wrapper's folders import one way, and no files import each other in a circle.

use std::collections::BTreeSet;

use crate::imports::{Import, Sources, circles, imports};

/// The folders and files of linker-wrapper's `src`. Each may import from those behind it, and from itself.
const LAYERS: [&str; 15] = [
    "main",
    "link",
    "crash_report",
    "reproduce",
    "platform",
    "image",
    "lto",
    "codegen",
    "plan",
    "device",
    "host",
    "toolchain",
    "profile",
    "sys",
    "cli",
];

/// What every layer may use: messages and errors.
const LAST: &str = "diag";

/// Imports that are still to be removed: from, to. This list only shrinks.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// Everything that is wrong with the imports of these sources.
pub fn violations(sources: &Sources, exceptions: &[(&str, &str)]) -> Vec<String> {
    let all = imports(sources);
    let is_exception = |import: &Import| exceptions.contains(&(&import.from, &import.to));
    let kept: Vec<Import> = all.iter().filter(|import| !is_exception(import)).cloned().collect();
    let mut wrong: Vec<String> = kept.iter().filter_map(upward).collect();
    for walk in circles(&kept) {
        let steps: Vec<String> = walk.iter().map(|import| format!("{}:{}", import.from, import.line)).collect();
        wrong.push(format!("circle of imports: {} -> {}", steps.join(" -> "), walk[0].from));
    }
    let known: BTreeSet<(&str, &str)> = all.iter().map(|import| (&*import.from, &*import.to)).collect();
    let stale = exceptions.iter().filter(|exception| !known.contains(*exception));
    wrong.extend(stale.map(|(from, to)| format!("{from} no longer imports {to}: remove the exception")));
    wrong
}

/// What is wrong with an import that leads to a layer in front of the file's own.
fn upward(import: &Import) -> Option<String> {
    let (from, to) = (layer(&import.from)?, layer(&import.to)?);
    (to < from).then(|| {
        let name = |layer: usize| LAYERS.get(layer).copied().unwrap_or(LAST);
        let allowed = [&LAYERS[from.min(LAYERS.len() - 1) + 1..], &[LAST]].concat();
        format!(
            "{}:{} imports {}: {} may only import from {}, not from {}",
            import.from,
            import.line,
            import.to,
            name(from),
            allowed.join(", "),
            name(to)
        )
    })
}

/// The place of a file's folder in [`LAYERS`].
fn layer(path: &str) -> Option<usize> {
    let folder = path.split('/').next().unwrap_or(path).trim_end_matches(".rs");
    if folder == LAST {
        return Some(LAYERS.len());
    }
    let place = LAYERS.iter().position(|layer| *layer == folder);
    assert!(place.is_some(), "{path}: give {folder} a place in LAYERS (linker-wrapper/tests/architecture/layers.rs)");
    place
}

#[test]
fn folders_import_one_way_and_no_file_is_in_a_circle() {
    let wrong = violations(&crate::sources_below("linker-wrapper/src"), EXCEPTIONS);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn an_import_from_host_to_lto_is_named_with_its_line_and_the_rule() {
    let sources = [
        ("host/coff.rs", "//! Windows.\n\nuse crate::lto::worker::Work;\n"),
        ("lto/worker.rs", "use crate::host::embedded_images;\n"),
        ("host/embedded_images.rs", ""),
    ];
    let sources: Sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let rule = "host/coff.rs:3 imports lto/worker.rs: host may only import from toolchain, profile, sys, cli, diag, not from lto";
    assert_eq!(violations(&sources, &[]), [rule]);
    assert!(violations(&sources, &[("host/coff.rs", "lto/worker.rs")]).is_empty());
    let stale = violations(&sources, &[("host/coff.rs", "lto/worker.rs"), ("lto/worker.rs", "host/coff.rs")]);
    assert_eq!(stale, ["lto/worker.rs no longer imports host/coff.rs: remove the exception"]);
}

#[test]
fn a_circle_of_files_is_named() {
    let sources = [("host/a.rs", "use crate::host::b;\n"), ("host/b.rs", "\nuse super::a::X;\n")];
    let sources: Sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    assert_eq!(violations(&sources, &[]), ["circle of imports: host/a.rs:1 -> host/b.rs:2 -> host/a.rs"]);
}
