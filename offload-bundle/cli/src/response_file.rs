//! Words of a command line that stand in a file: `@FILE`.

use std::ffi::OsString;
use std::path::Path;

use crate::error::{Error, Result};

/// Replaces the words `@FILE` by those of the file, which are separated by white space and quoted as for a shell.
///
/// # Errors
/// A file that cannot be read, or with a quote that does not end.
pub fn expand(words: impl Iterator<Item = OsString>) -> Result<Vec<OsString>> {
    let mut all = Vec::new();
    for word in words {
        match word.to_str().and_then(|word| word.strip_prefix('@')) {
            Some(path) => all.extend(words_of(Path::new(path))?.into_iter().map(OsString::from)),
            None => all.push(word),
        }
    }
    Ok(all)
}

fn words_of(path: &Path) -> Result<Vec<String>> {
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    shlex::split(&text).ok_or_else(|| Error::UnendedQuote { path: path.to_owned() })
}
