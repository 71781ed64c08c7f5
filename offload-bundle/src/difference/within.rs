//! Compares the cubins for two targets in one file, fatbin by fatbin.

use std::collections::BTreeSet;

use serde::Serialize;

use super::contents::{self, Names};
use super::{Function, different};
use crate::arch::GpuArch;
use crate::archive::reject_thin_members;
use crate::coverage::{self, FoundContainer, grouped, ranges};
use crate::cubin::{self, AttributeDifference, CodeDifference, Cubin};
use crate::error::{FileError, FormatError};
use crate::fatbin::{self, EntryKind, FatbinEntry};
use crate::host_object::Search;
use crate::printable;

/// How the cubins for two targets differ. What the compiler notes of itself is not compared. The field names are the keys of the JSON
/// output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct TargetDifference {
    /// The first target.
    pub left: GpuArch,
    /// The second target.
    pub right: GpuArch,
    /// The numbers of the fatbins whose cubins for both targets have equal code.
    pub equal: Vec<usize>,
    /// The numbers of the fatbins without a cubin for the second target.
    pub only_left: Vec<usize>,
    /// The numbers of the fatbins without a cubin for the first target.
    pub only_right: Vec<usize>,
    /// The other fatbins with cubins for both.
    pub different: Vec<DifferentCubins>,
}

/// How the cubins for two targets of one fatbin differ.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct DifferentCubins {
    /// The number of the fatbin.
    pub container: usize,
    /// The functions whose machine code differs.
    pub functions: Vec<Function>,
    /// The attributes that differ: `attribute 0x35 (SW2861232_WAR) only in sm_86`.
    pub attributes: Vec<String>,
    /// What else differs: names of sections, `ELF header` and the like.
    pub parts: Vec<String>,
}

impl DifferentCubins {
    /// Whether instructions, constants and symbols are equal.
    pub fn is_in_attributes_alone(&self) -> bool {
        self.functions.is_empty() && self.parts.is_empty()
    }
}

impl TargetDifference {
    /// Compares the cubins of the fatbins of a file.
    ///
    /// # Errors
    /// A damaged container or cubin, and a thin archive.
    pub fn new(data: &[u8], left: GpuArch, right: GpuArch) -> Result<Self, FileError> {
        let mut found = Self {
            left,
            right,
            equal: Vec::new(),
            only_left: Vec::new(),
            only_right: Vec::new(),
            different: Vec::new(),
        };
        for container in coverage::containers(data, reject_thin_members, Search::Sections)? {
            found.add(data, &container)?;
        }
        Ok(found)
    }

    fn add(&mut self, data: &[u8], found: &FoundContainer) -> Result<(), FileError> {
        let base = found.place.offset;
        let in_file = |error: FormatError| FileError::from(error.shifted(base));
        let entries = fatbin::read(fatbin::container_at(data, base)?).map_err(in_file)?;
        let of = |arch| entries.iter().find(|entry| entry.kind == EntryKind::Elf && entry.arch == arch);
        let container = found.place.container;
        let (left, right) = (of(self.left), of(self.right));
        let (Some(left), Some(right)) = (left, right) else {
            self.only_left.extend(left.map(|_| container));
            self.only_right.extend(right.map(|_| container));
            return Ok(());
        };
        let payload = |entry: &FatbinEntry<'_>| entry.payload().map(|bytes| (entry.payload_offset, bytes.into_owned()));
        let ((left_at, left), (right_at, right)) = (payload(left).map_err(in_file)?, payload(right).map_err(in_file)?);
        let one = cubin::parse(&left).map_err(|error| in_file(error.shifted(left_at)))?;
        let other = cubin::parse(&right).map_err(|error| in_file(error.shifted(right_at)))?;
        match self.compare(container, &one, &other) {
            Some(different) => self.different.push(different),
            None => self.equal.push(container),
        }
        Ok(())
    }

    fn compare(&self, container: usize, left: &Cubin<'_>, right: &Cubin<'_>) -> Option<DifferentCubins> {
        let difference = cubin::code_difference(left, right);
        if difference == CodeDifference::default() {
            return None;
        }
        let mut names = Names::new();
        let [ours, theirs] = [left, right].map(|cubin| contents::functions(cubin, &mut names));
        let functions = different(&ours, &theirs);
        let attributes: BTreeSet<String> = difference.attributes.iter().map(|one| self.attribute(one)).collect();
        let is_code = |part: &String| functions.iter().any(|function| is_code_of(part, &function.name));
        let parts = difference.parts.into_iter().filter(|part| !is_code(part)).collect();
        let attributes = attributes.into_iter().collect();
        Some(DifferentCubins { container, functions, attributes, parts })
    }

    fn attribute(&self, difference: &AttributeDifference) -> String {
        match (difference.left.is_empty(), difference.right.is_empty()) {
            (true, _) => format!("{difference} only in {}", self.right),
            (_, true) => format!("{difference} only in {}", self.left),
            _ => difference.to_string(),
        }
    }

    /// Whether there is a cubin for each of the targets; else the one that there is none for.
    pub fn missing(&self) -> Option<GpuArch> {
        let both = !self.equal.is_empty() || !self.different.is_empty();
        let has = |only: &Vec<usize>| both || !only.is_empty();
        (!has(&self.only_left)).then_some(self.left).or((!has(&self.only_right)).then_some(self.right))
    }

    /// Whether the cubins of all fatbins have equal code, with the same attributes.
    pub fn is_equal(&self) -> bool {
        self.different.is_empty() && self.only_left.is_empty() && self.only_right.is_empty()
    }

    /// Formats a line for each group of fatbins with the same differences: `!` different, `-` and `+` only for one of the targets. If they are
    /// many, a line is for all with other instructions, unless all is to be printed. `shown` turns the name of a function into what is printed.
    pub fn text(&self, is_full: bool, shown: &dyn Fn(&str) -> String) -> String {
        /// What fits a screen.
        const MOST_LINES: usize = 40;
        let only = |sign: char, numbers: &[usize], target: GpuArch| match numbers.is_empty() {
            true => String::new(),
            false => format!("{sign} {}: a cubin for {target} alone\n", fatbins(numbers)),
        };
        let groups = grouped(&self.different, |one| one.text(is_full, shown));
        let mut out = match is_full || groups.len() <= MOST_LINES {
            true => groups.iter().map(|group| line(group, is_full, shown)).collect(),
            false => self.summary(),
        };
        out += &only('-', &self.only_left, self.left);
        out += &only('+', &self.only_right, self.right);
        if !out.is_empty() && !self.equal.is_empty() {
            out += &format!("= {}: equal code\n", fatbins(&self.equal));
        }
        out
    }

    /// A line for the fatbins with other instructions, and one for each group of the others.
    fn summary(&self) -> String {
        let (alike, others): (Vec<_>, Vec<_>) = self.different.iter().partition(|one| one.is_in_attributes_alone());
        let groups = grouped(&alike, |one| one.text(false, &str::to_owned));
        let attributes = |group: &Vec<&&DifferentCubins>| {
            let group: Vec<&DifferentCubins> = group.iter().map(|one| **one).collect();
            line(&group, false, &str::to_owned)
        };
        let mut out: String = groups.iter().map(attributes).collect();
        let numbers: Vec<usize> = others.iter().map(|one| one.container).collect();
        let functions: usize = others.iter().map(|one| one.functions.len()).sum();
        out += &format!("! {}: other code, in {functions} functions; --full has a line for each\n", fatbins(&numbers));
        out
    }
}

impl DifferentCubins {
    fn text(&self, is_full: bool, shown: &dyn Fn(&str) -> String) -> String {
        /// More functions are counted.
        const MOST_FUNCTIONS: usize = 8;
        let name = |function: &Function| format!("{} {}", printable::name(&shown(&function.name)), function.change);
        let most = if is_full { usize::MAX } else { MOST_FUNCTIONS };
        let mut words: Vec<String> = self.functions.iter().take(most).map(name).collect();
        let others = self.functions.len().saturating_sub(most);
        words.extend((others > 0).then(|| format!("and {others} functions more (--full)")));
        if self.is_in_attributes_alone() {
            words.push("equal code".to_owned());
        }
        words.extend(self.attributes.iter().cloned());
        // Each function has sections of its own.
        let parts: BTreeSet<&str> =
            self.parts.iter().map(|part| if is_full { part } else { cubin::section_kind(part) }).collect();
        words.extend(parts.into_iter().map(|part| printable::name(part).into_owned()));
        words.join(", ")
    }
}

/// Whether a section has the code of a function, or says where addresses go in there.
fn is_code_of(section: &str, function: &str) -> bool {
    let section = [".rela", ".rel"].iter().find_map(|prefix| section.strip_prefix(prefix)).unwrap_or(section);
    section.strip_prefix(".text.") == Some(function)
}

fn line(group: &[&DifferentCubins], is_full: bool, shown: &dyn Fn(&str) -> String) -> String {
    let numbers: Vec<usize> = group.iter().map(|one| one.container).collect();
    let text = group.first().map(|one| one.text(is_full, shown)).unwrap_or_default();
    format!("! {}: {text}\n", fatbins(&numbers))
}

/// `fatbin 3`, `182 fatbins (1-182)`.
fn fatbins(numbers: &[usize]) -> String {
    match numbers {
        [one] => format!("fatbin {one}"),
        _ => format!("{} fatbins ({})", numbers.len(), ranges(numbers)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{compiled_cubin as cubin, fatbin_of};

    fn compared(data: &[u8], left: &str, right: &str) -> TargetDifference {
        let arch = |name: &str| name.parse().expect("a target");
        TargetDifference::new(data, arch(left), arch(right)).expect("a sound file")
    }

    fn text(data: &[u8], left: &str, right: &str) -> String {
        compared(data, left, right).text(false, &str::to_owned)
    }

    #[test]
    fn each_fatbin_by_its_number() {
        let fatbins = [
            fatbin_of(&[cubin("sm_86", 1, true), cubin("sm_89", 1, false)]),
            fatbin_of(&[cubin("sm_86", 1, true), cubin("sm_89", 2, true)]),
            fatbin_of(&[cubin("sm_86", 1, true), cubin("sm_89", 1, true)]),
            fatbin_of(&[cubin("sm_89", 1, true)]),
        ];
        let expected = "! fatbin 1: equal code, attribute 0x35 (SW2861232_WAR) only in sm_86\n\
                        ! fatbin 2: first changed\n\
                        - fatbin 4: a cubin for sm_89 alone\n\
                        = fatbin 3: equal code\n";
        assert_eq!(text(&fatbins.concat(), "sm_89", "sm_86"), expected);
        assert_eq!(text(&fatbins[2], "sm_89", "sm_86"), "");
        assert!(compared(&fatbins[2], "sm_89", "sm_86").is_equal());
        let missing = compared(&fatbins[2], "sm_89", "sm_90").missing();
        assert_eq!(missing.map(|arch| arch.to_string()).as_deref(), Some("sm_90"));
    }

    #[test]
    fn many_are_counted() {
        // Each fatbin has other attributes, or its kernel other code.
        let with = |number: u8, info: &[u8]| {
            let arch = GpuArch::plain(number.into());
            (arch, crate::samples::finished_cubin(arch, &[info[4]; 8], info, &[]))
        };
        let fatbin = |place: u8| fatbin_of(&[with(86, &[4, place, 1, 0, 1]), with(89, &[4, place, 1, 0, 2])]);
        let many: Vec<u8> = (0..50).flat_map(fatbin).collect();
        assert_eq!(
            text(&many, "sm_86", "sm_89"),
            "! 50 fatbins (1-50): other code, in 50 functions; --full has a line for each\n"
        );
        assert_eq!(compared(&many, "sm_86", "sm_89").text(true, &str::to_owned).lines().count(), 50);
    }
}
