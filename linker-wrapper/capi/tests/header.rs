//! `include/fatlink.h` is what cbindgen makes of the source, and the list of exported functions is that of the library.

use std::path::Path;

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The header as cbindgen writes it now.
fn generated() -> String {
    let config = cbindgen::Config::from_file(sources().join("cbindgen.toml")).unwrap();
    let builder = cbindgen::Builder::new().with_config(config).with_src(sources().join("src/lib.rs"));
    let mut text = Vec::new();
    builder.generate().unwrap().write(&mut text);
    // Rust's name for what the caller of an unsafe function promises.
    String::from_utf8(text).unwrap().replace("// # Safety\n", "// Requirements:\n")
}

#[test]
fn the_header_is_that_of_the_source() {
    let place = sources().join("include/fatlink.h");
    let generated = generated();
    if std::env::var_os("FATLINK_UPDATE_HEADER").is_some() {
        std::fs::write(&place, &generated).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap();
    assert!(kept == generated, "run FATLINK_UPDATE_HEADER=1 cargo test -p fatlink-capi --test header");
}

/// A function that is no longer there breaks programs that use it: `abi/functions.txt` may only grow within a version of the symbols.
#[test]
fn the_functions_are_those_of_the_list() {
    let kept = std::fs::read_to_string(sources().join("abi/functions.txt")).unwrap();
    let header = generated();
    let mut declared: Vec<&str> = header
        .lines()
        .filter(|line| !line.starts_with("//") && !line.starts_with("typedef"))
        .filter_map(|line| line.split_once('(')?.0.rsplit([' ', '*']).next())
        .filter(|name| name.starts_with("fatlink_"))
        .collect();
    declared.sort_unstable();
    let listed: Vec<&str> = kept.lines().map(|line| line.strip_suffix("@@FATLINK_1.0").unwrap()).collect();
    assert_eq!(declared, listed);
}
