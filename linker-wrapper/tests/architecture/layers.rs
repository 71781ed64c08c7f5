//! linker-wrapper's folders import one way, no files import each other in a circle, and neither do the modules of the other crates.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::{Import, Sources, circles, imports};

/// The folders and files of linker-wrapper's `src`. Each may import from those behind it, and from itself.
const LAYERS: [&str; 18] = [
    "lib",
    "served_link",
    "nvcc_command",
    "link",
    "crash_report",
    "reproduce",
    "kinds",
    "image",
    "lto",
    "machines",
    "plan",
    "device",
    "host",
    "compilers",
    "toolchain",
    "profile",
    "sys",
    "cli",
];

/// What every layer may use: messages and errors.
const LAST: &str = "diag";

/// Imports that are still to be removed: from, to. This list only shrinks.
const EXCEPTIONS: &[(&str, &str)] = &[];

/// The `src` folders of the other crates. Files of one folder may import each other there: a folder is one module with a facade.
const OTHERS: [&str; 17] = [
    "benchmarks",
    "cubin-link",
    "distributor",
    "distributor/reapi",
    "html-report",
    "launcher",
    "linker-wrapper/capi",
    "linker-wrapper/library",
    "linker-wrapper/protocol",
    "lit-tests",
    "llvm-passes",
    "offload-bundle",
    "offload-bundle/capi",
    "offload-bundle/cli",
    "offload-bundle/driver",
    "remote-cache",
    "xtask",
];

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

/// The imports between modules, each of which is a file or a folder of `src`.
fn between_modules(sources: &Sources) -> Vec<Import> {
    let module = |path: &str| path.split('/').next().unwrap_or(path).trim_end_matches(".rs").to_owned();
    let mut first: BTreeMap<(String, String), usize> = BTreeMap::new();
    for Import { from, to, line } in imports(sources) {
        first.entry((module(&from), module(&to))).or_insert(line);
    }
    let between = first.into_iter().filter(|((from, to), _)| from != to);
    between.map(|((from, to), line)| Import { from, to, line }).collect()
}

#[test]
fn modules_of_the_other_crates_are_in_no_circle() {
    for package in OTHERS {
        let found = between_modules(&crate::sources_below(&format!("{package}/src")));
        let steps =
            |walk: &Vec<&Import>| walk.iter().map(|import| import.from.clone()).collect::<Vec<_>>().join(" -> ");
        let wrong: Vec<String> = circles(&found).iter().map(steps).collect();
        assert!(wrong.is_empty(), "{package}: modules import each other: {}", wrong.join("; "));
    }
}

#[test]
fn folders_are_modules() {
    let sources = [("a/mod.rs", "use crate::b;\n"), ("a/c.rs", ""), ("b.rs", "use crate::a::c::X;\n")];
    let sources: Sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    assert!(circles(&imports(&sources)).is_empty());
    assert_eq!(circles(&between_modules(&sources)).len(), 1);
}

#[test]
fn an_import_from_host_to_lto_is_named_with_its_line_and_the_rule() {
    let sources = [
        ("host/coff.rs", "//! Windows.\n\nuse crate::lto::worker::Work;\n"),
        ("lto/worker.rs", "use crate::host::embedded_images;\n"),
        ("host/embedded_images.rs", ""),
    ];
    let sources: Sources = sources.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
    let rule = "host/coff.rs:3 imports lto/worker.rs: host may only import from compilers, toolchain, profile, sys, cli, diag, not from lto";
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
