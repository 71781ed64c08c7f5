//! The kernels that a link left out on purpose, as the program records them: an ELF note in a section of its own.
//!
//! Its name is `fatlink`, its type 1. Its description holds for each kernel its name and that of the kernel that is launched in its
//! place, which is empty for a kernel that nothing launches; each name ends with NUL.

use std::collections::BTreeMap;

use crate::bytes::{slice, u32_at};
use crate::elf_sections::Section;

/// The section of the note.
pub const SECTION: &str = ".note.fatlink.absent";

const OWNER: &[u8; 8] = b"fatlink\0";
const TYPE: u32 = 1;

/// The kernels that a program registers and that its images lack on purpose.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct AbsentKernels {
    /// The kernel that stands for each; empty if none does.
    stand_ins: BTreeMap<String, String>,
}

/// The contents of the section for these kernels, each with the kernel that stands for it; empty if none does.
pub fn write<'a>(kernels: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<u8> {
    let names: Vec<u8> =
        kernels.flat_map(|(name, stand_in)| [name, "\0", stand_in, "\0"].concat().into_bytes()).collect();
    let mut note = Vec::new();
    let size = u32::try_from(names.len()).unwrap_or(u32::MAX);
    for word in [OWNER.len() as u32, size, TYPE] {
        note.extend_from_slice(&word.to_le_bytes());
    }
    note.extend_from_slice(OWNER);
    note.extend_from_slice(&names);
    note.resize(note.len().next_multiple_of(4), 0);
    note
}

impl AbsentKernels {
    /// What an ELF file records; nothing where a note is damaged.
    pub(super) fn of_program(elf: &[u8], sections: &[Section<'_>]) -> Self {
        let mut absent = Self::default();
        let notes = sections.iter().filter(|section| section.name == SECTION.as_bytes());
        notes.filter_map(|section| section.data(elf).ok()).for_each(|section| absent.read(section));
        absent
    }

    /// Reads the notes of a section, one after the other.
    fn read(&mut self, section: &[u8]) {
        const HEADER: u64 = 12;
        let mut at = 0;
        while let Ok(header) = slice(section, at, HEADER, "note") {
            let number = |offset| u32_at(header, offset, "note").map_or(0, u64::from);
            let (owner_size, size, kind) = (number(0), number(4), number(8));
            let start = at + HEADER + owner_size.next_multiple_of(4);
            let owner = slice(section, at + HEADER, owner_size, "note");
            let Ok(names) = slice(section, start, size, "note") else { return };
            if owner == Ok(OWNER) && kind == u64::from(TYPE) {
                self.read_names(names);
            }
            at = start + size.next_multiple_of(4);
        }
    }

    fn read_names(&mut self, names: &[u8]) {
        let mut words = names.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned());
        while let (Some(name), Some(stand_in)) = (words.next(), words.next()) {
            if !name.is_empty() {
                self.stand_ins.insert(name, stand_in);
            }
        }
    }

    /// The name under which the code of a registered kernel is in the images; `None` if it has none on purpose.
    pub(super) fn compiled_name<'a>(&'a self, name: &'a str) -> Option<&'a str> {
        match self.stand_ins.get(name) {
            Some(stand_in) if stand_in.is_empty() => None,
            Some(stand_in) => Some(stand_in),
            None => Some(name),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn notes_are_read_one_after_the_other() {
        let mut section = write([("dead", ""), ("b", "a")].into_iter());
        section.extend(write([("other", "")].into_iter()));
        let mut absent = AbsentKernels::default();
        absent.read(&section);
        let names = ["dead", "b", "other", "a"].map(|name| absent.compiled_name(name));
        assert_eq!(names, [None, Some("a"), None, Some("a")]);
    }

    proptest! {
        #[test]
        fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            AbsentKernels::default().read(&bytes);
        }
    }
}
