//! Reads which libraries a shared library needs, and where it says that they are.

use goblin::elf::Elf;

use crate::FormatError;

/// What a shared library says about itself and about others.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LibraryNeeds<'a> {
    /// The name under which programs need it.
    pub name: Option<&'a str>,
    /// The names of the libraries that it needs.
    pub needed: Vec<&'a str>,
    /// Folders to search for them, with `$ORIGIN` for its own.
    pub folders: Vec<&'a str>,
}

/// Reads the dynamic section of a shared library.
///
/// # Errors
/// A damaged file.
pub fn library_needs(elf: &[u8]) -> Result<LibraryNeeds<'_>, FormatError> {
    let file = Elf::parse(elf).map_err(|error| FormatError::parser(0, "damaged shared library", error))?;
    let paths = file.rpaths.iter().chain(&file.runpaths);
    let folders = paths.flat_map(|path| path.split(':')).filter(|folder| !folder.is_empty()).collect();
    Ok(LibraryNeeds { name: file.soname, needed: file.libraries, folders })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_very_program_needs_the_c_library() {
        let bytes = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        let needs = library_needs(&bytes).unwrap();
        assert!(needs.needed.iter().any(|name| name.starts_with("libc.so")), "{needs:?}");
        assert!(library_needs(b"text").is_err());
    }
}
