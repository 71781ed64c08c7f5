//! The file `copyright` of the Debian package. The licenses of what is linked in stay files of their own, as in the archive.

use crate::failure::{Failure, Result};
use crate::repository::{Repository, read_text};

/// Where the exception begins in LICENSE.
const EXCEPTION: &str = "--- LLVM Exceptions to the Apache 2.0 License ----";

/// Its text. Debian's systems have Apache's license at a place of its own; the exception is not there.
pub fn text(repository: &Repository) -> Result<String> {
    let path = repository.root.join("LICENSE");
    let license = read_text(&path)?;
    let exception = license.split_once(EXCEPTION).map(|(_, exception)| exception.trim());
    let exception = exception
        .ok_or_else(|| Failure::new(format!("{} has no line `{EXCEPTION}`: it has changed", path.display())))?;
    Ok(format!(
        "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
         Upstream-Name: fatlink\n\
         Comment:\n \
         What is linked into the programs is listed in /usr/share/doc/fatlink/licenses/README.md,\n \
         and the folders beside that file have the licenses and the copyright notices.\n\
         \n\
         Files: *\n\
         Copyright: 2026 the contributors of fatlink\n\
         License: Apache-2.0 with LLVM exception\n\
         \n\
         License: Apache-2.0 with LLVM exception\n \
         On Debian systems, the text of the Apache License 2.0 is in\n \
         /usr/share/common-licenses/Apache-2.0. It applies with these exceptions:\n \
         .\n{}",
        indented(exception)
    ))
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.trim().is_empty() { " .\n".to_owned() } else { format!(" {line}\n") }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn empty_lines_have_a_dot() {
        assert_eq!(indented("one\n\ntwo"), " one\n .\n two\n");
    }
}
