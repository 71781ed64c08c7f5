//! The texts of help, generated from the table of options.

use crate::cli::flags::{self, Flag, Form, Shape, TOPICS, Topic};
use crate::cli::options::Help;

/// The options of the brief text.
const USEFUL: [&str; 5] = ["--offload-ptx=", "--offload-plan=", "--offload-report=", "--offload-cache=", "--help"];

const OVERVIEW: &str = "OVERVIEW: fatlink links the device code inside host objects, puts it into the program, and runs the host linker.\n\n";

impl Help {
    /// Generates the text for the name that the program was started by.
    pub fn text(self, program: &str) -> String {
        let usage = format!("{OVERVIEW}USAGE: {program} [options] -- <options to the host linker>\n");
        let sections = match self {
            Help::Brief => return usage + &brief(),
            Help::Options => TOPICS.each_ref().map(|topic| section(topic, false)),
            Help::Hidden => TOPICS.each_ref().map(|topic| section(topic, true)),
            Help::Table => return usage + &TOPICS.iter().map(table).collect::<String>(),
        };
        format!("{usage}\nOPTIONS:\n{}", sections.join("\n"))
    }
}

fn brief() -> String {
    let find = |useful: &str| flags::all().find(|flag| flag.spellings().any(|(_, spelling)| spelling == useful));
    let useful: String = USEFUL.iter().filter_map(|useful| find(useful)).map(documented).collect();
    format!(
        "\nCompilers run it in place of their linker, by the folders of its other names:\n  \
           clang++ -B <dist>/bin --offload-link <objects> -o <program>\n  \
           g++ -B <dist>/gcc <objects> -o <program>\n\nOPTIONS:\n{useful}"
    )
}

fn section(topic: &Topic, hidden: bool) -> String {
    let lines: String = match hidden {
        false => topic.flags.iter().filter(|flag| !flag.help.is_empty()).map(documented).collect(),
        true => topic.flags.iter().filter(|flag| flag.listed).map(all_forms).collect(),
    };
    format!("{}:\n{lines}", topic.title)
}

fn documented(flag: &Flag) -> String {
    line(flag, &flag.form, flag.help)
}

fn all_forms(flag: &Flag) -> String {
    documented(flag) + &flag.also.iter().map(|form| line(flag, form, "")).collect::<String>()
}

fn line(flag: &Flag, form: &Form, describe: &str) -> String {
    let left = format!("  {}{}", form.1[0], shown_value(flag, form));
    let gap = if left.len() > 30 { format!("\n{:31}", "") } else { " ".repeat(31 - left.len()) };
    format!("{}\n", format!("{left}{gap}{describe}").trim_end())
}

/// The value's name as it follows the spelling.
fn shown_value(flag: &Flag, form: &Form) -> String {
    format!("{}{}", if form.0 == Shape::Separate { " " } else { "" }, flag.value)
}

/// A line for each documented option, with tabs between: topic, spelling, value, what that is, words that it can be, and text.
fn table(topic: &Topic) -> String {
    let line = |flag: &Flag| {
        let takes = match flag.form.0 {
            Shape::Switch => "nothing",
            _ if flag.takes_path() => "path",
            _ => "other",
        };
        let words =
            if flag.form.0 == Shape::Joined { flag.words().collect::<Vec<_>>().join(" ") } else { String::new() };
        let value = shown_value(flag, &flag.form);
        format!("{}\t{}\t{value}\t{takes}\t{words}\t{}\n", topic.title, flag.form.1[0], flag.help)
    };
    topic.flags.iter().filter(|flag| !flag.help.is_empty()).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_option_is_there_once() {
        let text = Help::Options.text("fatlink");
        assert!(text.contains("\nUSAGE: fatlink [options] -- <options to the host linker>\n"), "{text}");
        for flag in flags::all().filter(|flag| !flag.help.is_empty()) {
            assert_eq!(text.matches(&documented(flag)).count(), 1, "{}", flag.form.1[0]);
        }
        assert!(TOPICS.iter().all(|topic| text.contains(&format!("\n{}:\n  -", topic.title))), "{text}");
    }

    #[test]
    fn the_brief_text_fits_a_screen() {
        let text = Help::Brief.text("fatlink");
        assert!(
            text.lines().count() < 24 && USEFUL.iter().all(|useful| text.contains(&format!("  {useful}"))),
            "{text}"
        );
    }
}
