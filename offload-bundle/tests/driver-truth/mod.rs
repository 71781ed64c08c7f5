//! The fatbins of `driver-truth/`, with what a driver was seen to run of each.
#![allow(dead_code)]

use std::path::{Path, PathBuf};

/// The folder with the fatbins and the tables.
pub fn folder() -> PathBuf {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    // The command line's tests share this file.
    let library = if package.ends_with("cli") { package.join("..") } else { package.to_owned() };
    library.join("tests/driver-truth")
}

/// The bytes of one fatbin.
pub fn fatbin_bytes(name: &str) -> Vec<u8> {
    std::fs::read(folder().join(name)).expect("a fatbin")
}

/// File name and outcome of each case of both tables.
pub fn cases() -> Vec<(String, String)> {
    [table("", "truth.tsv"), table("mixes/", "mixes.tsv")].concat()
}

fn table(subfolder: &str, name: &str) -> Vec<(String, String)> {
    let text = std::fs::read_to_string(folder().join(subfolder).join(name)).expect("the table");
    let rows = text.lines().filter(|line| !line.starts_with('#'));
    rows.map(|row| {
        row.split_once('\t').map(|(file, seen)| (format!("{subfolder}{file}"), seen.to_owned())).expect("a row")
    })
    .collect()
}
