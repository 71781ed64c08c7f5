//! Linker scripts that stand for libraries, as `libc.so` does on most systems. Only the commands that name files are read.

/// The files in a script's `INPUT` and `GROUP` commands, in order: paths, file names and `-l` options.
pub fn inputs(text: &str) -> Vec<String> {
    let mut names = Vec::new();
    let mut depth = 0_usize;
    let mut expects_list = false;
    for token in tokens(text) {
        match token.as_str() {
            "INPUT" | "GROUP" | "AS_NEEDED" if depth == 0 || token == "AS_NEEDED" => expects_list = true,
            "(" if expects_list || depth > 0 => {
                depth += 1;
                expects_list = false;
            }
            ")" => depth = depth.saturating_sub(1),
            name if depth > 0 => names.push(name.to_owned()),
            _ => expects_list = false,
        }
    }
    names
}

/// Whether a script has no other commands than those that name files or the format of the output.
pub fn only_names_inputs(text: &str) -> bool {
    const KNOWN: [&str; 4] = ["INPUT", "GROUP", "OUTPUT_FORMAT", "SEARCH_DIR"];
    let mut depth = 0_usize;
    let mut is_known = true;
    for token in tokens(text) {
        match token.as_str() {
            "(" => depth += 1,
            ")" => depth = depth.saturating_sub(1),
            ";" => {}
            word => is_known &= depth > 0 || KNOWN.contains(&word),
        }
    }
    is_known
}

/// The words of a script that may be symbols, as in `EXTERN(f)`, `ENTRY(f)` and `a = f + 8;`.
pub fn symbols(text: &str) -> Vec<String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
    let words = tokens(text);
    let names = words.iter().flat_map(|word| word.split(|c| !is_part(c)));
    names.filter(|name| name.contains(|c: char| c.is_alphabetic() || c == '_')).map(str::to_owned).collect()
}

/// The script with other names of files: those for which `new` has one. What else there is stays as it is, comments included.
pub fn with_names(text: &str, new: impl Fn(&str) -> Option<String>) -> String {
    let is_gap = |c: char| c.is_whitespace() || "(),\"".contains(c);
    let mut changed = String::with_capacity(text.len());
    let mut rest = text;
    while !rest.is_empty() {
        let word = &rest[..rest.find(is_gap).unwrap_or(rest.len())];
        changed.push_str(&new(word).filter(|_| !word.is_empty()).unwrap_or_else(|| word.to_owned()));
        rest = &rest[word.len()..];
        let gap = &rest[..rest.find(|c| !is_gap(c)).unwrap_or(rest.len())];
        changed.push_str(gap);
        rest = &rest[gap.len()..];
    }
    changed
}

/// Splits a script into words and parentheses, without comments.
fn tokens(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once("/*") {
        plain.push_str(before);
        plain.push(' ');
        rest = behind.split_once("*/").map_or("", |(_, behind)| behind);
    }
    plain.push_str(rest);
    let spaced = plain.replace('(', " ( ").replace(')', " ) ").replace([',', '"'], " ");
    spaced.split_whitespace().map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::{inputs, only_names_inputs, symbols, with_names};

    #[test]
    fn scripts_reference_symbols() {
        let found = symbols("EXTERN(launch_a launch_b) ENTRY(begin) PROVIDE(other = launch_c+8); /* no */");
        for name in ["launch_a", "launch_b", "begin", "other", "launch_c"] {
            assert!(found.iter().any(|one| one == name), "{name}: {found:?}");
        }
        assert!(!found.iter().any(|one| one == "no" || one == "8"));
    }

    #[test]
    fn scripts_with_other_commands_are_told_apart() {
        assert!(only_names_inputs(
            "/* x = 1; */ OUTPUT_FORMAT(elf64-x86-64) GROUP ( /lib/libc.so.6 AS_NEEDED ( a.so ) )"
        ));
        assert!(only_names_inputs("INPUT(-lfoo)"));
        for other in ["SECTIONS { .text : { *(.text) } }", "a = b;", "EXTERN(f)", "INPUT(a.o) PROVIDE(a = b)", "text"] {
            assert!(!only_names_inputs(other), "{other}");
        }
    }

    #[test]
    fn names_are_replaced_as_whole_words() {
        let new = |name: &str| name.strip_prefix("/lib/").map(|rest| format!("new/{rest}"));
        assert_eq!(
            with_names("GROUP ( /lib/a.so,\"/lib/a.so.6\" AS_NEEDED(/usr/lib/b) ) /* ende */", new),
            "GROUP ( new/a.so,\"new/a.so.6\" AS_NEEDED(/usr/lib/b) ) /* ende */"
        );
        assert_eq!(with_names("", new), "");
    }

    #[test]
    fn scripts_name_their_inputs() {
        let libc = "/* GNU ld script */\nOUTPUT_FORMAT(elf64-x86-64)\n\
                    GROUP ( /lib/libc.so.6 /usr/lib/libc_nonshared.a  AS_NEEDED ( /lib64/ld.so.2 ) )";
        assert_eq!(inputs(libc), ["/lib/libc.so.6", "/usr/lib/libc_nonshared.a", "/lib64/ld.so.2"]);
        assert_eq!(inputs("INPUT(-lfoo, libbar.a)"), ["-lfoo", "libbar.a"]);
        assert!(inputs("SECTIONS { .text : { *(.text) } }").is_empty());
        assert!(inputs("int main() {}").is_empty());
    }
}
