//! Linker scripts that stand for libraries, as `libc.so` does on most systems. Only the commands that name files are read.

use std::ffi::OsString;

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
        if let Some((quoted, behind)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            changed.push('"');
            changed.push_str(&new(quoted).unwrap_or_else(|| quoted.to_owned()));
            changed.push('"');
            rest = behind;
            continue;
        }
        let gap = rest.chars().next().map_or(0, char::len_utf8);
        changed.push_str(&rest[..gap]);
        rest = &rest[gap..];
    }
    changed
}

/// The files that a script reads as a part of itself, in order.
pub fn included(text: &str) -> Vec<String> {
    let tokens = tokens(text);
    let pairs = tokens.windows(2).filter(|pair| pair[0] == "INCLUDE");
    pairs.map(|pair| pair[1].clone()).collect()
}

/// The scripts that options of the host linker name: `-T`, not `-Ttext`.
pub fn of_line(line: &[OsString]) -> Vec<OsString> {
    let mut scripts = Vec::new();
    let mut words = line.iter();
    while let Some(word) = words.next() {
        match value_of(&word.to_string_lossy()) {
            Some("") => scripts.extend(words.next().cloned()),
            Some(file) => scripts.push(file.into()),
            None => {}
        }
    }
    scripts
}

/// The script in one word of the line; empty if the next word is it.
fn value_of(word: &str) -> Option<&str> {
    const PLACES: [&str; 6] = ["text", "data", "bss", "text-segment=", "rodata-segment=", "ldata-segment="];
    if let Some(value) = word.strip_prefix("-T") {
        return (!PLACES.iter().any(|place| value.starts_with(place))).then_some(value);
    }
    if word == "-dT" {
        return Some("");
    }
    let long = word.strip_prefix("--").or_else(|| word.strip_prefix('-'))?;
    let value = ["default-script", "script"].iter().find_map(|name| long.strip_prefix(name))?;
    if value.is_empty() { Some("") } else { value.strip_prefix('=') }
}

/// Splits a script into words, quoted names and parentheses, without comments.
fn tokens(text: &str) -> Vec<String> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let (token, behind) = if let Some(comment) = rest.strip_prefix("/*") {
            ("", comment.split_once("*/").map_or("", |(_, behind)| behind))
        } else if let Some((quoted, behind)) = rest.strip_prefix('"').and_then(|rest| rest.split_once('"')) {
            (quoted, behind)
        } else if first == '(' || first == ')' {
            rest.split_at(1)
        } else if first == '"' || first == ',' || first.is_whitespace() {
            ("", &rest[first.len_utf8()..])
        } else {
            let ends = |c: char| c.is_whitespace() || "(),\"".contains(c);
            let end = rest.find(ends).unwrap_or(rest.len()).min(rest.find("/*").unwrap_or(rest.len()));
            rest.split_at(end)
        };
        if !token.is_empty() {
            tokens.push(token.to_owned());
        }
        rest = behind;
    }
    tokens
}

#[cfg(test)]
mod tests {
    use super::{included, inputs, of_line, only_names_inputs, symbols, with_names};

    #[test]
    fn scripts_are_told_from_places() {
        let scripts = |line: &[&str]| of_line(&line.iter().map(Into::into).collect::<Vec<_>>());
        let all = scripts(&[
            "-T",
            "a.ld",
            "-Tb.ld",
            "--script=c.ld",
            "-script",
            "d.ld",
            "-dT",
            "e.ld",
            "--default-script=f.ld",
        ]);
        assert_eq!(all, ["a.ld", "b.ld", "c.ld", "d.ld", "e.ld", "f.ld"]);
        assert!(scripts(&["-Ttext", "0", "-Ttext-segment=0x1000", "--strip-all", "script.o", "--scripted"]).is_empty());
    }

    #[test]
    fn names_may_be_quoted_and_scripts_included() {
        assert_eq!(inputs("INPUT(\"my lib.a\"/* ( */b.a)"), ["my lib.a", "b.a"]);
        assert_eq!(included("INCLUDE more.ld\nINCLUDE \"my more.ld\""), ["more.ld", "my more.ld"]);
        let new = |name: &str| name.ends_with(".a").then(|| format!("new/{name}"));
        assert_eq!(with_names("INPUT(\"my lib.a\" b.a c.o)", new), "INPUT(\"new/my lib.a\" new/b.a c.o)");
        assert!(!only_names_inputs("INPUT(a.o) INCLUDE more.ld"));
    }

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
