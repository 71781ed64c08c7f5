//! Symbols that options of the host linker name, for which it takes members out of archives. A name too many does no harm, a missing one loses
//! the member's kernels.

/// Long options whose value names symbols. GNU ld takes any beginning of a name, and one dash or two.
const NAMING: [&str; 9] = [
    "undefined",
    "undefined-glob",
    "require-defined",
    "entry",
    "init",
    "fini",
    "wrap",
    "defsym",
    "export-dynamic-symbol",
];

/// The symbols in an option with its value in the same word; none in other words.
pub fn of_word(word: &str) -> Vec<String> {
    let long = word.strip_prefix("--").or_else(|| word.strip_prefix('-')).unwrap_or(word);
    match long.split_once('=') {
        Some((stem, value)) if !stem.is_empty() && NAMING.iter().any(|name| name.starts_with(stem)) => of_value(value),
        // `-uNAME` and `-eNAME`, which other options begin like.
        _ if word.starts_with("-u") || word.starts_with("-e") => of_value(&word[2..]),
        _ => Vec::new(),
    }
}

/// The symbols in the value of such an option: a name, a pattern, or an assignment with an expression.
pub fn of_value(value: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || "_.$@*?[]".contains(c);
    let names = value.split(|c| !is_part(c)).filter(|name| !name.is_empty());
    // References to a wrapped symbol lead to another one.
    names.flat_map(|name| [name.to_owned(), format!("__wrap_{name}"), format!("__real_{name}")]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_of_options() {
        for (word, name) in [
            ("--undefined=f", Some("f")),
            ("-undefined=f", Some("f")),
            ("--undef=f", Some("f")),
            ("--undefined-glob=f*", Some("f*")),
            ("-require-defined=f", Some("f")),
            ("-uf", Some("f")),
            ("-ef", Some("f")),
            ("--entry=f", Some("f")),
            ("--wrap=f", Some("__wrap_f")),
            ("--defsym=a=f+8", Some("f")),
            ("-defsym=a=f", Some("f")),
            ("--hash-style=gnu", None),
            ("-Lf", None),
        ] {
            let found = of_word(word);
            match name {
                Some(name) => assert!(found.iter().any(|one| one == name), "{word}: {found:?}"),
                None => assert!(found.is_empty(), "{word}: {found:?}"),
            }
        }
    }
}
