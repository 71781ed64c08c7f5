//! Man pages and shell completions: `dist/share`, which a package copies to `/usr/share`.
//!
//! offload-bundle generates its own. fatlink's are generated from its table of flags, which `--help-table` prints, those of the distributors
//! from their `--help`.

use super::completions::{self, Completed};
use crate::failure::Result;
use crate::repository::{Repository, create_folder, write_file};
use crate::step::Progress;

/// The sections of fatlink's page behind its options.
const END: &str = include_str!("fatlink-end.roff");

/// The programs that run jobs on other machines, each with what it does in a few words.
const DISTRIBUTORS: [(&str, &str); 2] = [
    ("fatlink-slurm", "run jobs of fatlink on machines of Slurm"),
    ("fatlink-reapi", "run jobs of fatlink on a server of the Remote Execution API"),
];

/// Writes all of them.
pub fn write(repository: &Repository, progress: &Progress) -> Result<()> {
    let (programs, share) = (repository.dist().join("bin"), repository.dist().join("share"));
    create_folder(&share)?;
    progress.run(repository.program(&programs.join("offload-bundle")).arg("generate-pages").arg(&share))?;
    let table = progress.run(repository.program(&programs.join("fatlink")).arg("--help-table"))?;
    let options = completions::options(&table);
    let pages = [
        ("man/man1/fatlink.1", man_page(&table, &options)),
        ("bash-completion/completions/fatlink", completions::bash(&options)),
        ("zsh/site-functions/_fatlink", completions::zsh(&options)),
        ("fish/vendor_completions.d/fatlink.fish", completions::fish(&options)),
    ];
    pages.into_iter().try_for_each(|(name, text)| write_file(&share.join(name), text))
}

/// Writes the pages of the distributors, from their `--help`.
pub fn write_of_distributors(repository: &Repository, progress: &Progress) -> Result<()> {
    DISTRIBUTORS.into_iter().try_for_each(|(program, summary)| {
        let help = progress.run(repository.program(&repository.dist().join("bin").join(program)).arg("--help"))?;
        let path = repository.dist().join(format!("share/man/man1/{program}.1"));
        write_file(&path, page_of_help(program, summary, &help))
    })
}

/// The help text as a page: the description, `Usage: …`, and sections with an option or argument a line, its text two blanks behind it.
fn page_of_help(program: &str, summary: &str, help: &str) -> String {
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

/// The page of the lines `OVERVIEW: …` and `USAGE: …` and the options behind them, a section for each topic.
fn man_page(table: &str, options: &[Completed<'_>]) -> String {
    let line = |start| escaped(table.lines().find_map(|line| line.strip_prefix(start)).unwrap_or_default());
    let mut page = format!(
        ".TH fatlink 1\n.SH NAME\nfatlink, clang-linker-wrapper, ld.fatlink \\- link device code\n\
         .SH DESCRIPTION\n{}\n.SH SYNOPSIS\n{}\n.SH OPTIONS\n",
        line("OVERVIEW: "),
        line("USAGE: ")
    );
    for topic in options.chunk_by(|one, next| one.topic == next.topic) {
        page += &format!(".SS {}\n", escaped(topic[0].topic));
        for Completed { spelling, shown, text, .. } in topic {
            page += &format!(".TP\n\\fB{}\\fR\n{}", escaped(&format!("{spelling}{shown}")), paragraph(text));
        }
    }
    page + END
}

fn paragraph(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!("{}\n", escaped(text)) }
}

/// Escapes text for roff.
fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_paragraphs() {
        let table = "OVERVIEW: links\n\nUSAGE: fatlink [options]\nHelp\t--help\t\tnothing\t\tSay this\nHelp\t--long=\t<value>\tother\t\t.Dots\n";
        let page = man_page(table, &completions::options(table));
        assert!(page.contains(".SH SYNOPSIS\nfatlink [options]\n"), "{page}");
        assert!(page.contains(".SH OPTIONS\n.SS Help\n.TP\n\\fB\\-\\-help\\fR\nSay this\n"), "{page}");
        for heading in ["EXIT STATUS", "ENVIRONMENT", "EXAMPLES"] {
            assert!(page.contains(&format!(".SH {heading}\n.TP\n\\fB")), "{heading}: {page}");
        }
        assert!(page.contains(".TP\n\\fB\\-\\-long=<value>\\fR\n\\&.Dots\n"), "{page}");
    }

    #[test]
    fn sections_and_options_are_kept() {
        let help = "x 0.1\nRuns jobs\n\nUsage: x [OPTIONS] <JOBS>\n\nArguments:\n  <JOBS>  The list\n\nOptions:\n      --srun <PROGRAM>  The srun\n";
        let page = page_of_help("x", "runs", help);
        assert!(page.contains(".SH SYNOPSIS\nx [OPTIONS] <JOBS>\n"), "{page}");
        assert!(page.contains(".SH ARGUMENTS\n.TP\n\\fB<JOBS>\\fR\nThe list\n"), "{page}");
        assert!(page.contains(".SH OPTIONS\n.TP\n\\fB\\-\\-srun <PROGRAM>\\fR\nThe srun\n"), "{page}");
    }
}
