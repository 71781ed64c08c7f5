//! Man pages of the distributors, generated from their `--help`.

use std::process::Command;

use super::pages::escaped;
use crate::failure::Result;
use crate::repository::{Repository, create_folder, write_file};
use crate::step::Progress;

/// Each with what it does in a few words.
const PROGRAMS: [(&str, &str); 2] = [
    ("fatlink-slurm", "run jobs of fatlink on machines of Slurm"),
    ("fatlink-reapi", "run jobs of fatlink on a server of the Remote Execution API"),
];

/// Writes both.
pub fn write(repository: &Repository, progress: &Progress) -> Result<()> {
    let folder = repository.dist().join("share/man/man1");
    create_folder(&folder)?;
    PROGRAMS.into_iter().try_for_each(|(program, summary)| {
        let help = progress.run(Command::new(repository.dist().join("bin").join(program)).arg("--help"))?;
        write_file(&folder.join(format!("{program}.1")), page(program, summary, &help))
    })
}

/// The help text as a page: the description, `Usage: …`, and sections with an option or argument a line, its text two blanks behind it.
fn page(program: &str, summary: &str, help: &str) -> String {
    let mut page = format!(".TH {program} 1\n.SH NAME\n{} \\- {summary}\n", escaped(program));
    let usage = help.lines().find_map(|line| line.strip_prefix("Usage: ")).unwrap_or(program);
    page += &format!(".SH SYNOPSIS\n{}\n.SH DESCRIPTION\n", escaped(usage));
    for line in help.lines().filter(|line| !line.starts_with("Usage: ")) {
        if let Some(option) = line.strip_prefix("  ") {
            let (spelling, text) = option.trim().split_once("  ").unwrap_or((option.trim(), ""));
            page += &format!(".TP\n\\fB{}\\fR\n{}\n", escaped(spelling), escaped(text.trim()));
        } else if let Some(title) = line.strip_suffix(':') {
            page += &format!(".SH {}\n", title.to_uppercase());
        } else if !line.is_empty() {
            page += &format!("{}\n", escaped(line));
        }
    }
    page + ".SH SEE ALSO\n.BR fatlink (1)\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sections_and_options_are_kept() {
        let help = "x 0.1\nRuns jobs\n\nUsage: x [OPTIONS] <JOBS>\n\nArguments:\n  <JOBS>  The list\n\nOptions:\n      --srun <PROGRAM>  The srun\n";
        let page = page("x", "runs", help);
        assert!(page.contains(".SH SYNOPSIS\nx [OPTIONS] <JOBS>\n"), "{page}");
        assert!(page.contains(".SH ARGUMENTS\n.TP\n\\fB<JOBS>\\fR\nThe list\n"), "{page}");
        assert!(page.contains(".SH OPTIONS\n.TP\n\\fB\\-\\-srun <PROGRAM>\\fR\nThe srun\n"), "{page}");
    }
}
