//! The public items of the crate are those of `api.txt`: what disappears from it, or changes in it, breaks programs.

use std::path::Path;

fn sources() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The modules whose items `lib.rs` exports.
fn modules(lib: &str) -> Vec<&str> {
    lib.lines().filter_map(|line| line.strip_prefix("pub use ")?.split_once("::")).map(|(module, _)| module).collect()
}

/// The declarations of public items, fields and variants in a module, as rustfmt writes them.
fn declarations(module: &str, text: &str) -> Vec<String> {
    let code = text.split("#[cfg(test)]").next().unwrap_or_default();
    let mut found = Vec::new();
    let (mut owner, mut in_enum) = (String::new(), false);
    let mut lines = code.lines();
    while let Some(line) = lines.next() {
        let start = line.trim_start();
        if let Some(of) = line.strip_prefix("impl") {
            owner = String::from(of.trim_end_matches(" {").rsplit(' ').next().unwrap_or_default());
        }
        in_enum = (in_enum || line.starts_with("pub enum ")) && line != "}";
        let is_variant = in_enum && line.starts_with("    ") && start.starts_with(|c: char| c.is_ascii_uppercase());
        if !start.starts_with("pub ") && !is_variant {
            continue;
        }
        let mut whole = start.to_owned();
        while !whole.ends_with(['{', ';', ',']) {
            whole.push(' ');
            whole.push_str(lines.next().unwrap_or("{").trim());
        }
        let whole = whole.trim_end_matches(['{', ';', ',']).trim_end();
        let within = if line.starts_with(' ') { owner.as_str() } else { "" };
        found.push(format!("{module} {within}: {whole}"));
        if let Some(name) = line.strip_prefix("pub struct ").or_else(|| line.strip_prefix("pub enum ")) {
            owner = String::from(name.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default());
        }
    }
    found
}

#[test]
fn the_public_items_are_those_of_the_list() {
    let read = |name: &str| std::fs::read_to_string(sources().join("src").join(name)).unwrap();
    let lib = read("lib.rs");
    let exports = lib.lines().filter(|line| line.starts_with("pub use ")).map(str::to_owned);
    let items = modules(&lib).into_iter().flat_map(|module| declarations(module, &read(&format!("{module}.rs"))));
    let now: String = exports.chain(items).map(|line| line + "\n").collect();
    let place = sources().join("api.txt");
    if std::env::var_os("FATLINK_UPDATE_API").is_some() {
        std::fs::write(&place, &now).unwrap();
    }
    let kept = std::fs::read_to_string(&place).unwrap();
    assert!(kept == now, "run FATLINK_UPDATE_API=1 cargo test -p fatlink --test api, and look at what has changed");
}
