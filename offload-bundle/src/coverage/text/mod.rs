//! Formats reports as text.

mod check;
mod explain;
mod matrix;

pub use check::check_text;
pub(super) use check::report as check;
pub use explain::explain_text;
pub(super) use explain::{brief, report as explain};

use serde::Serialize;

use super::containers::ContainerPlace;
use super::groups::{grouped, ranges};
use super::report::Platform;
use crate::printable;

/// How much a report repeats.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Detail {
    /// What is said of several containers is said once.
    Grouped,
    /// Each container by itself.
    Full,
}

/// The report on one of several files. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OfFile<R> {
    /// The name of the file.
    pub file: String,
    /// The report.
    #[serde(flatten)]
    pub report: R,
}

/// A container of one of several files.
struct InFile<'r, C> {
    /// The name of the file, if there are several.
    file: Option<&'r str>,
    container: &'r C,
}

/// All containers of reports.
fn in_files<'r, R, C>(
    reports: &[(Option<&'r str>, &'r R)],
    containers: impl Fn(&'r R) -> &'r [C],
) -> Vec<InFile<'r, C>> {
    let of_report = |(file, report): &(Option<&'r str>, &'r R)| {
        let file = *file;
        containers(report).iter().map(move |container| InFile { file, container })
    };
    reports.iter().flat_map(of_report).collect()
}

/// The lines of a screen. What would take more is said in fewer words, unless all of it is to be printed.
const SCREEN: usize = 44;

/// What the predictions rest on, for each runtime.
fn basis(driver: &str, has: impl Fn(Platform) -> bool) -> String {
    let mut out = String::new();
    if has(Platform::Cuda) || !has(Platform::Hip) {
        out += &format!("driver: {driver}\n");
    }
    if has(Platform::Hip) {
        out += "HIP's runtime: as LLVM and ROCm document it, not seen on a GPU\n";
    }
    out
}

/// `fatbin 2 (member a.o, section .nv_fatbin, offset 0x40)`.
fn heading(file: Option<&str>, platform: Platform, place: &ContainerPlace) -> String {
    let file = named("", file, ", ");
    let member = named("member ", place.member.as_deref(), ", ");
    let section = named("section ", place.section.as_deref(), ", ");
    format!("{} {} ({file}{member}{section}offset {:#x})", word(platform), place.container, place.offset)
}

/// `54 fatbins (1-54, section .nv_fatbin, first at offset 0x40`, which the caller closes.
fn places(file: Option<&str>, platform: Platform, first: &ContainerPlace, numbers: &[usize]) -> String {
    let (count, ranges) = (count(numbers.len(), word(platform)), ranges(numbers));
    let file = named("", file, ", ");
    let section = named(", section ", first.section.as_deref(), "");
    let member = named("in member ", first.member.as_deref(), " ");
    format!("{count} ({file}{ranges}{section}, first {member}at offset {:#x}", first.offset)
}

fn word(platform: Platform) -> &'static str {
    match platform {
        Platform::Cuda => "fatbin",
        Platform::Hip => "bundle",
    }
}

/// A name from a file between two texts, if there is one.
fn named(before: &str, name: Option<&str>, behind: &str) -> String {
    name.map(|name| format!("{before}{}{behind}", printable::name(name))).unwrap_or_default()
}

/// The line that names the package or folder that all files are in, and the names without it.
pub(super) fn without_common_folder<R>(reports: &[OfFile<R>]) -> (String, Vec<(Option<&str>, &R)>) {
    let mut common = reports.first().map_or("", |of| of.file.as_str());
    for of in reports {
        let same = common.char_indices().zip(of.file.chars()).take_while(|((_, one), other)| one == other);
        let end = same.last().map_or(0, |((at, one), _)| at + one.len_utf8());
        common = common.get(..end).unwrap_or_default();
    }
    let end = common.rfind([':', '/']).map_or(0, |at| at + 1);
    let common = common.get(..end).unwrap_or_default();
    let heading = if common.is_empty() { String::new() } else { format!("in {}\n", printable::name(common)) };
    let named = reports.iter().map(|of| (of.file.get(end..), &of.report)).collect();
    (heading, named)
}

/// Where the containers of a group are: `a.so: 1-54; b.so: 1; and 2 files more`. Each comes with the file and its number.
pub fn places_by_file<'r>(found: impl IntoIterator<Item = (Option<&'r str>, usize)>) -> String {
    /// More are counted.
    const MOST_FILES: usize = 3;
    let found: Vec<(Option<&str>, usize)> = found.into_iter().collect();
    let files = grouped(&found, |(file, _)| file.unwrap_or_default().to_owned());
    let place = |group: &Vec<&(Option<&str>, usize)>| {
        let numbers: Vec<usize> = group.iter().map(|(_, number)| *number).collect();
        let file = group.first().and_then(|(file, _)| *file);
        named("", file, ": ") + &ranges(&numbers)
    };
    let mut shown: Vec<String> = files.iter().take(MOST_FILES).map(place).collect();
    let others = files.len().saturating_sub(MOST_FILES);
    shown.extend((others > 0).then(|| format!("and {} more", count(others, "file"))));
    shown.join("; ")
}

/// `1 fatbin`, `2 fatbins`.
fn count(number: usize, word: &str) -> String {
    format!("{number} {word}{}", if number == 1 { "" } else { "s" })
}
