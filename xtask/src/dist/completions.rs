//! Completions of fatlink's options for bash, zsh and fish, from `fatlink --help-table`, which prints its table of flags.

use std::fmt::Write;

/// A documented option.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Completed<'t> {
    /// What it is about.
    pub topic: &'t str,
    /// With its dashes; ends with `=` if the value follows it in the same word.
    pub spelling: &'t str,
    /// The value's name as it follows the spelling.
    pub shown: &'t str,
    value: Value,
    /// The values that are words, not placeholders, with spaces between.
    words: &'t str,
    /// What it does.
    pub text: &'t str,
}

/// What an option takes, apart from words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    /// Nothing: a flag.
    None,
    /// The path of a file or folder.
    Path,
    /// Words, numbers, names.
    Other,
}

const NAMES: &str = "fatlink ld.fatlink clang-linker-wrapper";

/// Reads the options: one a line, in columns. Other lines are the program's overview and usage.
pub fn options(table: &str) -> Vec<Completed<'_>> {
    let option = |line| {
        let [topic, spelling, shown, takes, words, text] =
            <[&str; 6]>::try_from(str::split(line, '\t').collect::<Vec<_>>()).ok()?;
        let value = match takes {
            "nothing" => Value::None,
            "path" => Value::Path,
            _ => Value::Other,
        };
        Some(Completed { topic, spelling, shown, value, words, text })
    };
    table.lines().filter_map(option).collect()
}

/// For bash, in whose words `=` is one of its own.
pub fn bash(options: &[Completed<'_>]) -> String {
    let spellings: Vec<&str> = options.iter().map(|option| option.spelling).collect();
    let mut script = String::from(
        "_fatlink() {\n  local cur=${COMP_WORDS[COMP_CWORD]} option=\n  if [[ $cur == = ]]; then\n    \
         option=${COMP_WORDS[COMP_CWORD-1]} cur=\n  elif [[ $COMP_CWORD -ge 2 && ${COMP_WORDS[COMP_CWORD-1]} == = ]]; then\n    \
         option=${COMP_WORDS[COMP_CWORD-2]}\n  fi\n  case $option in\n",
    );
    for option in options.iter().filter(|option| !option.words.is_empty()) {
        let name = option.spelling.trim_end_matches('=');
        let files = if option.value == Value::Path { "-f " } else { "" };
        let words = option.words;
        let _ =
            writeln!(script, "    {name}) mapfile -t COMPREPLY < <(compgen {files}-W '{words}' -- \"$cur\"); return;;");
    }
    let _ = writeln!(
        script,
        "  esac\n  [[ $cur == -* ]] || return\n  mapfile -t COMPREPLY < <(compgen -W '{}' -- \"$cur\")\n  \
         [[ ${{COMPREPLY[0]}} != *= ]] || compopt -o nospace 2>/dev/null\n}}\ncomplete -o default -F _fatlink {NAMES}",
        spellings.join(" ")
    );
    script
}

/// For zsh.
pub fn zsh(options: &[Completed<'_>]) -> String {
    let mut script = format!("#compdef {NAMES}\n_arguments \\\n");
    for Completed { spelling, value, words, text, .. } in options {
        let text: String = text.chars().map(|c| if "[]:'\\`$".contains(c) { ' ' } else { c }).collect();
        let action = match (value, *words) {
            (Value::None, _) => String::new(),
            (Value::Path, "") => ":value:_files".to_owned(),
            (Value::Path, _) => format!(r#":value: _alternative "words\:value\:({words})" "files\:file\:_files""#),
            (Value::Other, "") => ":value: ".to_owned(),
            (Value::Other, _) => format!(":value:({words})"),
        };
        // `=-` and `-`: the value is part of the same word.
        let dash = if spelling.ends_with('=') || is_joined_letter(spelling, *value) { "-" } else { "" };
        let _ = writeln!(script, "  '*{spelling}{dash}[{text}]{action}' \\");
    }
    script + "  '*:file:_files'\n"
}

/// Whether an option is one letter with a value behind it, as in `-Lfolder`.
fn is_joined_letter(spelling: &str, value: Value) -> bool {
    spelling.len() == 2 && value != Value::None
}

/// For fish, which calls long options with one dash old ones.
///
/// fish puts a space behind a long option, and these options take values behind `=` alone. So the word with `=` is completed
/// first, and the option is known to fish only in a word that has it.
pub fn fish(options: &[Completed<'_>]) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "\\'"));
    let mut script = String::new();
    for name in NAMES.split(' ') {
        for Completed { spelling, value, words, text, .. } in options {
            let bare = spelling.trim_end_matches('=').trim_start_matches('-');
            let kind = match (spelling.starts_with("--"), bare.len()) {
                (true, _) => "-l",
                (false, 1) => "-s",
                (false, _) => "-o",
            };
            let takes = match value {
                Value::None => "",
                Value::Path => " -r",
                Value::Other => " -x",
            };
            let mut condition = String::new();
            if spelling.ends_with('=') {
                let in_word = |pattern: &str| format!(" -n \"string match -q -- '{pattern}' (commandline -ct)\"");
                let _ =
                    writeln!(script, "complete -c {name}{} -a {} -d {}", in_word("-*"), quoted(spelling), quoted(text));
                condition = in_word(&format!("{spelling}*"));
            }
            let words = if words.is_empty() { String::new() } else { format!(" -a {}", quoted(words)) };
            let _ = writeln!(
                script,
                "complete -c {name}{condition} {kind} {}{takes}{words} -d {}",
                quoted(bare),
                quoted(text)
            );
        }
    }
    script
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "OVERVIEW: links\n\nHelp\t--help\t\tnothing\t\tSay [this]\nPTX\t--ptx=\tall|none|<arch>\tother\tall none\tWhich PTX\n\
                         Help\t-mllvm\t <arg>\tother\t\tFor LLVM\nHelp\t--cache=\t<dir>|on|off\tpath\ton off\tKeep results\n\
                         Help\t-o\t<path>\tpath\t\tIt's the output\n";

    #[test]
    fn options_have_their_values() {
        let found = options(TABLE);
        let spellings: Vec<&str> = found.iter().map(|option| option.spelling).collect();
        assert_eq!(spellings, ["--help", "--ptx=", "-mllvm", "--cache=", "-o"]);
        assert_eq!(found.iter().map(|option| option.value).collect::<Vec<_>>(), {
            use Value::{None, Other, Path};
            [None, Other, Other, Path, Path]
        });
        assert_eq!(found[1].words, "all none");
        assert_eq!(found[1].text, "Which PTX");
        assert_eq!(found[3].words, "on off");
    }

    #[test]
    fn each_shell_has_every_option() {
        let found = options(TABLE);
        let script = bash(&found);
        assert!(
            script.contains("--ptx) mapfile -t COMPREPLY < <(compgen -W 'all none' -- \"$cur\"); return;;"),
            "{script}"
        );
        assert!(script.contains("compgen -f -W 'on off' --"), "{script}");
        assert!(script.contains("compgen -W '--help --ptx= -mllvm --cache= -o'"), "{script}");
        let script = zsh(&found);
        assert!(script.contains("  '*--help[Say  this ]' \\\n"), "{script}");
        assert!(script.contains("  '*--ptx=-[Which PTX]:value:(all none)' \\\n"), "{script}");
        assert!(script.contains("  '*-o-[It s the output]:value:_files' \\\n"), "{script}");
        let script = fish(&found);
        assert!(script.contains(" -l 'ptx' -x -a 'all none' -d 'Which PTX'\n"), "{script}");
        assert!(script.contains("complete -c ld.fatlink -o 'mllvm' -x -d 'For LLVM'\n"), "{script}");
        assert!(script.contains(" -l 'cache' -r -a 'on off' -d 'Keep results'\n"), "{script}");
        assert!(script.contains("complete -c fatlink -s 'o' -r -d 'It\\'s the output'\n"), "{script}");
    }
}
