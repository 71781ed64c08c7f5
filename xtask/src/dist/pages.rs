//! Man pages and shell completions: `dist/share`, which a package copies to `/usr/share`.
//!
//! offload-bundle generates its own. fatlink's man page is generated from its `--help`, which comes from its table of flags.

use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::step::Progress;

/// Writes all of them.
pub fn write(repository: &Repository, progress: &Progress) -> Result<()> {
    let (programs, share) = (repository.dist().join("bin"), repository.dist().join("share"));
    create_folder(&share)?;
    progress.run(Command::new(programs.join("offload-bundle")).arg("generate-pages").arg(&share))?;
    let help = progress.run(Command::new(programs.join("fatlink")).arg("--help"))?;
    let path = share.join("man/man1/fatlink.1");
    std::fs::write(&path, man_page(&help)).map_err(|error| Failure::file("write", &path, &error))
}

/// The help text as a page: `OVERVIEW: …`, `USAGE: …`, then under `OPTIONS:` an option a line, or its text in a line of its own.
fn man_page(help: &str) -> String {
    let mut page =
        String::from(".TH fatlink 1\n.SH NAME\nfatlink, clang-linker-wrapper, ld.fatlink \\- link device code\n");
    for line in help.lines() {
        if let Some(text) = line.strip_prefix("OVERVIEW: ") {
            page += &format!(".SH DESCRIPTION\n{}\n", escaped(text));
        } else if let Some(text) = line.strip_prefix("USAGE: ") {
            page += &format!(".SH SYNOPSIS\n{}\n", escaped(text));
        } else if line.starts_with("OPTIONS:") {
            page += ".SH OPTIONS\n";
        } else if let Some(option) = line.strip_prefix("  ").filter(|option| !option.starts_with(' ')) {
            let (spelling, text) = option.split_once("  ").unwrap_or((option, ""));
            page += &format!(".TP\n\\fB{}\\fR\n{}", escaped(spelling), paragraph(text));
        } else {
            page += &paragraph(line);
        }
    }
    page + ".SH SEE ALSO\n.BR offload-bundle (1)\n"
}

fn paragraph(text: &str) -> String {
    let text = text.trim();
    if text.is_empty() { String::new() } else { format!("{}\n", escaped(text)) }
}

/// Escapes text for roff.
pub fn escaped(text: &str) -> String {
    let text = text.replace('\\', "\\e").replace('-', "\\-");
    if text.starts_with(['.', '\'']) { format!("\\&{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_become_paragraphs() {
        let help = "OVERVIEW: links\n\nUSAGE: fatlink [options]\n\nOPTIONS:\n  --help    Say this\n  --long=<value>\n            .Dots\n";
        let page = man_page(help);
        assert!(page.contains(".SH SYNOPSIS\nfatlink [options]\n"), "{page}");
        assert!(page.contains(".TP\n\\fB\\-\\-help\\fR\nSay this\n"), "{page}");
        assert!(page.contains(".TP\n\\fB\\-\\-long=<value>\\fR\n\\&.Dots\n"), "{page}");
    }
}
