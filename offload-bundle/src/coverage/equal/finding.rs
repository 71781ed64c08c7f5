//! Reports images that a fatbin could do without.

use super::super::check::named;
use super::super::code::Code;
use super::super::containers::FoundContainer;
use super::super::findings::{Finding, FindingCode, Severity};
use super::droppable::{Droppable, droppable, versions};
use super::images::equal_images;
use crate::arch::{GpuArch, TargetTable};
use crate::fatbin::FatbinEntry;

/// A finding for each of the images of a fatbin that can be dropped, but for those that are stored twice, which
/// [`FindingCode::Duplicates`] is about.
pub(in crate::coverage) fn findings(found: &FoundContainer, droppable: &[Droppable]) -> Vec<Finding> {
    let own = droppable.iter().filter(|image| image.container == found.place.container);
    own.filter_map(|image| finding(found, image)).collect()
}

/// The same for a fatbin of these entries that is all of a program.
pub fn check_equal(entries: &[FatbinEntry<'_>], codes: &[Code], targets: TargetTable<'_>) -> Vec<Finding> {
    let mut found = FoundContainer::whole(codes.to_vec());
    found.equal = equal_images(entries, codes);
    let found = std::slice::from_ref(&found);
    let droppable = droppable(found, targets);
    found.iter().flat_map(|found| findings(found, &droppable)).collect()
}

fn finding(found: &FoundContainer, image: &Droppable) -> Option<Finding> {
    let code = |number: usize| found.codes.iter().find(|code| code.number == number);
    let gone = code(image.entry)?;
    let mut others: Vec<usize> = image.instead.iter().map(|instead| instead.entry).collect();
    others.dedup();
    let others: Vec<&Code> = others.into_iter().filter_map(code).collect();
    if others.iter().all(|other| other.arch == gone.arch && other.digest == gone.digest) {
        return None;
    }
    let names: Vec<String> = others.iter().map(|other| named(other)).collect();
    let details: String = others.iter().map(|other| differences(found, gone, other)).collect();
    let message =
        format!("{} has the code of {}, which would run in its place{details}", named(gone), names.join(" and "));
    let entries = std::iter::once(gone).chain(others).map(|code| code.number).collect();
    let gpus: Vec<GpuArch> = image.instead.iter().map(|instead| instead.gpu).collect();
    let finding = Finding::new(FindingCode::EqualImages, Severity::Warning, entries, message).on(&gpus);
    Some(Finding { bytes: Some(image.stored_size), ..finding })
}

/// `; they differ in attribute 0x35 (SW2861232_WAR); cudaFuncAttributes has binaryVersion 86 and ptxVersion 86`.
fn differences(found: &FoundContainer, gone: &Code, other: &Code) -> String {
    let is_pair = |(replaced, instead): (usize, usize)| (replaced, instead) == (gone.number, other.number);
    let equal = found.equal.iter().find(|equal| is_pair((equal.replaced, equal.instead)));
    let mut attributes: Vec<String> =
        equal.iter().flat_map(|equal| &equal.differing).map(ToString::to_string).collect();
    attributes.dedup();
    let mut out = String::new();
    if !attributes.is_empty() {
        out += &format!("; they differ in {}", attributes.join(" and "));
    }
    if let (Some((binary, ptx)), Some((other_binary, other_ptx))) = (versions(gone), versions(other)) {
        let binary = (binary != other_binary).then(|| format!("binaryVersion {other_binary}"));
        let ptx = other_ptx.filter(|_| ptx != other_ptx).map(|number| format!("ptxVersion {number}"));
        let seen: Vec<String> = binary.into_iter().chain(ptx).collect();
        if !seen.is_empty() {
            out += &format!("; cudaFuncAttributes has {} then", seen.join(" and "));
        }
    }
    out
}
