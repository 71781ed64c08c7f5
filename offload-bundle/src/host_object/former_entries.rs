//! Offload entries in the form of clang 15 to 20: a section for each programming model, with entries of another layout than those of
//! today. Registration code for today's entries does not see them.

use super::{OFFLOAD, Section, lacks, sections};

/// The sections; linkers define symbols for their bounds, by which registration code finds them.
pub(super) const FORMER_SECTIONS: [&str; 3] =
    ["cuda_offloading_entries", "hip_offloading_entries", "omp_offloading_entries"];

/// What stands in `.comment` in front of clang's version.
const CLANG: &str = "clang version ";

/// A table of former offload entries in a host file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormerEntries {
    /// The name of its section.
    pub section: &'static str,
    /// The clang that compiled the file, such as `clang 19.1.7`, or those that may have.
    pub compiler: String,
    /// Where the section starts in the file.
    pub offset: u64,
}

/// The first table of former offload entries in an ELF file. `None` also for a file that is not a sound ELF file.
pub fn former_entries(elf: &[u8]) -> Option<FormerEntries> {
    if lacks(elf, &OFFLOAD) {
        return None;
    }
    let sections = sections(elf).ok()?;
    let name_of = |section: &Section<'_>| former_section(section.name).filter(|_| section.size != 0);
    let (section, offset) = sections.iter().find_map(|section| Some((name_of(section)?, section.offset)))?;
    let comments = sections.iter().filter(|section| section.name == b".comment");
    let comments = comments.filter_map(|section| section.data(elf).ok());
    let compiler = comments.flat_map(|data| data.split(|byte| *byte == 0)).find_map(former_compiler);
    Some(FormerEntries { section, compiler: compiler.unwrap_or_else(|| "clang 15 to 20".to_owned()), offset })
}

/// The section of former entries that has this name.
pub fn former_section(name: &[u8]) -> Option<&'static str> {
    FORMER_SECTIONS.into_iter().find(|former| former.as_bytes() == name)
}

/// `clang 19.1.7` for `Debian clang version 19.1.7 (3)`; `None` for compilers that write no former entries.
pub fn former_compiler(comment: &[u8]) -> Option<String> {
    let text = std::str::from_utf8(comment).ok()?;
    let version = text.split_once(CLANG)?.1.split_whitespace().next()?;
    let major: u32 = version.split('.').next()?.parse().ok()?;
    (major <= 20).then(|| format!("clang {version}"))
}

#[cfg(test)]
mod tests {
    use object::write::{Object, StandardSection};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};

    use super::*;

    fn object(section: &str, size: usize, comment: &[u8]) -> Vec<u8> {
        let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
        object.section_id(StandardSection::Text);
        for (name, data) in [(section, vec![0; size]), (".comment", comment.to_vec())] {
            let id = object.add_section(Vec::new(), name.as_bytes().to_vec(), SectionKind::Data);
            object.append_section_data(id, &data, 1);
        }
        object.write().unwrap()
    }

    #[test]
    fn tables_of_former_clang_and_its_version() {
        let comment = b"\0GCC: (Debian 12.2.0) 12.2.0\0clang version 22.1.8\0Debian clang version 15.0.6\0";
        for section in FORMER_SECTIONS {
            let found = former_entries(&object(section, 32, comment)).unwrap();
            assert_eq!((found.section, found.compiler.as_str()), (section, "clang 15.0.6"));
        }
        let unknown = former_entries(&object("omp_offloading_entries", 32, b"")).unwrap();
        assert_eq!(unknown.compiler, "clang 15 to 20");
    }

    #[test]
    fn other_sections_are_not_of_former_clang() {
        assert_eq!(former_entries(&object("omp_offloading_entries", 0, b"")), None);
        // The entries of a relocatable link have a name of their own and are registered.
        assert_eq!(former_entries(&object("cuda_offloading_entries_5f3a", 32, b"")), None);
        assert_eq!(former_entries(&object("llvm_offload_entries", 56, b"")), None);
        assert_eq!(former_entries(b"text"), None);
        assert_eq!(former_compiler(b"clang version 22.1.8"), None);
        assert_eq!(former_compiler(b"GCC: 12"), None);
    }
}
