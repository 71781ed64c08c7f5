//! Compares the device images of two builds of fatlink byte for byte.

use std::path::Path;

use offload_bundle::host_object::carriers;

use crate::arguments::ImageComparison;
use crate::bench::Bench;
use crate::cases::{self, Case};
use crate::link::{Host, Link, Side};
use crate::measure::Memory;
use xtask::failure::{Failure, Result};
use xtask::repository::{create_folder, write_file};
use xtask::step::{Progress, noted_step};

/// A section of a program with device images.
#[derive(Clone, Debug, PartialEq)]
struct Images {
    section: String,
    bytes: Vec<u8>,
}

/// Links with both builds at each number of jobs, and prints whether the images are equal.
pub fn compare(bench: &mut Bench, comparison: &ImageComparison) -> Result<()> {
    bench.linkers.set_baseline(&comparison.against, &bench.folder.join("baseline"))?;
    let mut different = Vec::new();
    for case in cases::chosen(&comparison.cases) {
        let mut first = None;
        for jobs in &comparison.jobs {
            let title = format!("{} --wrapper-jobs={jobs}", case.name);
            let compare = |progress: &Progress| {
                let link = link(bench, progress, case, jobs.get())?;
                let new = linked(bench, Side::Ours, &link, &title, comparison.keep.as_deref())?;
                let old = linked(bench, Side::Baseline, &link, &title, comparison.keep.as_deref())?;
                let of_baseline = difference(&new, &old).map(|what| format!("not those of the baseline: {what}"));
                let reference = first.get_or_insert_with(|| new.clone());
                let of_jobs = difference(&new, reference).map(|what| format!("not those of other jobs: {what}"));
                Ok((of_baseline.or(of_jobs), description(&new)))
            };
            let note = |(problem, shown): &(Option<String>, String)| {
                format!("{}, {shown}", if problem.is_some() { "DIFFERENT" } else { "equal" })
            };
            let (problem, _) = noted_step(&title, compare, note)?;
            different.extend(problem.map(|problem| format!("{title}: {problem}")));
        }
    }
    if different.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("the images differ:\n  {}", different.join("\n  "))))
}

/// The link of a case to a program, without a cache.
fn link(bench: &Bench, progress: &Progress, case: &Case, jobs: usize) -> Result<Link> {
    let timed = case.timed().ok_or_else(|| Failure::new(format!("the case {} links no program", case.name)))?;
    let (link, _) = timed.links(bench, progress)?;
    Ok(Link { host: Host::Program, ours: vec![format!("--wrapper-jobs={jobs}")], ..link })
}

fn linked(bench: &Bench, side: Side, link: &Link, title: &str, keep: Option<&Path>) -> Result<Vec<Images>> {
    bench.link(side, link, Memory::Ignored)?;
    let images = read(&bench.output(side))?;
    if let Some(folder) = keep {
        create_folder(folder)?;
        for images in &images {
            let name = format!("{title}{}.{}", images.section, side.name()).replace(' ', "");
            write_file(&folder.join(name), &images.bytes)?;
        }
    }
    Ok(images)
}

fn read(program: &Path) -> Result<Vec<Images>> {
    let data = std::fs::read(program).map_err(|error| Failure::file("read", program, &error))?;
    let sections = carriers(&data).map_err(|error| Failure::new(format!("{}: {error}", program.display())))?;
    if sections.is_empty() {
        return Err(Failure::new(format!("{} has no device images", program.display())));
    }
    Ok(sections.into_iter().map(|found| Images { section: found.section, bytes: found.data.to_vec() }).collect())
}

/// Size and hash of each section.
fn description(images: &[Images]) -> String {
    let of_one = |images: &Images| {
        let hash = blake3::hash(&images.bytes).to_hex();
        format!("{} {} bytes blake3 {}", images.section, images.bytes.len(), &hash[..16])
    };
    images.iter().map(of_one).collect::<Vec<_>>().join(", ")
}

/// The first difference, if there is one.
fn difference(new: &[Images], old: &[Images]) -> Option<String> {
    let names = |images: &[Images]| images.iter().map(|images| images.section.clone()).collect::<Vec<_>>();
    if names(new) != names(old) {
        return Some(format!("sections {:?} and {:?}", names(new), names(old)));
    }
    let (new, old) = new.iter().zip(old).find(|(new, old)| new != old)?;
    let same = new.bytes.iter().zip(&old.bytes).take_while(|(new, old)| new == old).count();
    let (section, sizes) = (&new.section, (new.bytes.len(), old.bytes.len()));
    Some(format!("{section} has {} and {} bytes, different from offset {same:#x} on", sizes.0, sizes.1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn images(section: &str, bytes: &[u8]) -> Vec<Images> {
        vec![Images { section: section.into(), bytes: bytes.into() }]
    }

    #[test]
    fn the_first_different_byte_is_named() {
        assert_eq!(difference(&images("a", b"1234"), &images("a", b"1234")), None);
        let found = difference(&images("a", b"1234"), &images("a", b"12x45")).unwrap();
        assert_eq!(found, "a has 4 and 5 bytes, different from offset 0x2 on");
        assert!(difference(&images("a", b""), &images("b", b"")).unwrap().contains("sections"));
        assert!(difference(&images("a", b""), &[]).is_some());
    }
}
