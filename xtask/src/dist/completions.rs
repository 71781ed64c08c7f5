//! Completions of fatlink's options for bash, zsh and fish, from its `--help`, which comes from its table of flags.

use std::fmt::Write;

/// An option of the help text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed {
    /// With its dashes; ends with `=` if the value is part of the same word.
    spelling: String,
    /// The values that are words, not placeholders.
    values: Vec<String>,
    /// What it does.
    text: String,
}

const NAMES: &str = "fatlink ld.fatlink clang-linker-wrapper";

/// Reads the options under `OPTIONS:`: one a line, its text behind it or in the next line.
pub fn options(help: &str) -> Vec<Completed> {
    let mut found: Vec<Completed> = Vec::new();
    for line in help.lines().skip_while(|line| !line.starts_with("OPTIONS:")).skip(1) {
        match line.strip_prefix("  ").filter(|option| option.starts_with('-')) {
            Some(option) => {
                let (spelling, text) = split(option);
                found.push(completed(spelling, text));
            }
            None => {
                if let Some(last) = found.last_mut().filter(|last| last.text.is_empty()) {
                    line.trim().clone_into(&mut last.text);
                }
            }
        }
    }
    found
}

/// Splits a line of the help text into the spelling and the text, which may be missing. Behind a spelling that is as long as its column
/// there is a single space.
pub fn split(option: &str) -> (&str, &str) {
    let is_text = |(at, _): &(usize, &str)| option[at + 1..].starts_with(|c: char| c.is_ascii_uppercase());
    let (spelling, text) = match (option.split_once("  "), option.match_indices(' ').find(is_text)) {
        (Some(parts), _) => parts,
        (None, Some((at, _))) => option.split_at(at),
        (None, None) => (option, ""),
    };
    (spelling, text.trim())
}

fn completed(spelling: &str, text: &str) -> Completed {
    let name_end = spelling.find(['=', ' ', '[']).unwrap_or(spelling.len());
    let (name, value) = spelling.split_at(name_end);
    let is_joined = value.starts_with('=');
    let is_word =
        |word: &&str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
    let values = value.trim_start_matches('=').split(['|', ',', '[']).filter(is_word);
    Completed {
        spelling: format!("{name}{}", if is_joined { "=" } else { "" }),
        values: if is_joined { values.map(str::to_owned).collect() } else { Vec::new() },
        text: text.to_owned(),
    }
}

/// For bash, in whose words `=` is one of its own.
pub fn bash(options: &[Completed]) -> String {
    let words: Vec<&str> = options.iter().map(|option| option.spelling.as_str()).collect();
    let mut script = String::from(
        "_fatlink() {\n  local cur=${COMP_WORDS[COMP_CWORD]} option=\n  if [[ $cur == = ]]; then\n    \
         option=${COMP_WORDS[COMP_CWORD-1]} cur=\n  elif [[ $COMP_CWORD -ge 2 && ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then\n    \
         option=${COMP_WORDS[COMP_CWORD-2]}\n  fi\n  case $option in\n",
    );
    for option in options.iter().filter(|option| !option.values.is_empty()) {
        let name = option.spelling.trim_end_matches('=');
        let _ = writeln!(
            script,
            "    {name}) COMPREPLY=($(compgen -W '{}' -- \"$cur\")); return;;",
            option.values.join(" ")
        );
    }
    let _ = writeln!(
        script,
        "  esac\n  [[ $cur == -* ]] || return\n  COMPREPLY=($(compgen -W '{}' -- \"$cur\"))\n  \
         [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace 2>/dev/null\n}}\ncomplete -o default -F _fatlink {NAMES}",
        words.join(" ")
    );
    script
}

/// For zsh.
pub fn zsh(options: &[Completed]) -> String {
    let mut script = format!("#compdef {NAMES}\n_arguments \\\n");
    for Completed { spelling, values, text } in options {
        let text: String = text.chars().map(|c| if "[]:'\\`$".contains(c) { ' ' } else { c }).collect();
        let value = match (spelling.ends_with('='), values.is_empty()) {
            (false, _) => String::new(),
            (true, true) => ":value:_files".to_owned(),
            (true, false) => format!(":value:({})", values.join(" ")),
        };
        // `=-`: the value is part of the same word.
        let dash = if spelling.ends_with('=') { "-" } else { "" };
        let _ = writeln!(script, "  '*{spelling}{dash}[{text}]{value}' \\");
    }
    script + "  '*:file:_files'\n"
}

/// For fish, which calls long options with one dash old ones.
pub fn fish(options: &[Completed]) -> String {
    let mut script = String::new();
    for name in NAMES.split(' ') {
        for Completed { spelling, values, text } in options {
            let text = text.replace('\\', " ").replace('\'', "\\'");
            let bare = spelling.trim_end_matches('=').trim_start_matches('-');
            let kind = match (spelling.starts_with("--"), bare.len()) {
                (true, _) => "-l",
                (false, 1) => "-s",
                (false, _) => "-o",
            };
            let value = match values.is_empty() {
                true if spelling.ends_with('=') => " -r".to_owned(),
                true => String::new(),
                false => format!(" -x -a '{}'", values.join(" ")),
            };
            let _ = writeln!(script, "complete -c {name} {kind} {bare}{value} -d '{text}'");
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const HELP: &str = "OVERVIEW: links\n\nOPTIONS:\n  --help    Say [this]\n  --ptx=all|none|<arch>,...\n            Which PTX\n  \
                        -mllvm <arg>  For LLVM\n  --cache=<dir> Keep results\n";

    #[test]
    fn options_have_their_values() {
        let found = options(HELP);
        let spellings: Vec<&str> = found.iter().map(|option| option.spelling.as_str()).collect();
        assert_eq!(spellings, ["--help", "--ptx=", "-mllvm", "--cache="]);
        assert_eq!(found[1].values, ["all", "none"]);
        assert_eq!(found[1].text, "Which PTX");
        assert!(found[3].values.is_empty());
    }

    #[test]
    fn each_shell_has_every_option() {
        let found = options(HELP);
        let script = bash(&found);
        assert!(script.contains("--ptx) COMPREPLY=($(compgen -W 'all none' -- \"$cur\")); return;;"), "{script}");
        assert!(script.contains("compgen -W '--help --ptx= -mllvm --cache='"), "{script}");
        let script = zsh(&found);
        assert!(script.contains("  '*--help[Say  this ]' \\\n"), "{script}");
        assert!(script.contains("  '*--ptx=-[Which PTX]:value:(all none)' \\\n"), "{script}");
        let script = fish(&found);
        assert!(script.contains("complete -c fatlink -l ptx -x -a 'all none' -d 'Which PTX'\n"), "{script}");
        assert!(script.contains("complete -c ld.fatlink -o mllvm -d 'For LLVM'\n"), "{script}");
        assert!(script.contains("complete -c fatlink -l cache -r -d 'Keep results'\n"), "{script}");
    }
}
