//! Reads what a report says about one file.

use std::io;

use offload_bundle::FileError;
use offload_bundle::arch::ArchFeature;
use offload_bundle::arch::table::KNOWN;
use offload_bundle::coverage::{
    self, CheckOptions, CheckReport, Code, Content, Driver, ExplainReport, FoundContainer, GpuReport, Role,
};
use offload_bundle::host_object::Search;
use offload_bundle::listing::{self, Row};
use offload_bundle::usage::{self, CubinUsage, FunctionShares, Order};

/// What a file holds.
#[derive(Debug, Clone)]
pub struct FileContents {
    /// Its name.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// Its images, as `offload-bundle list` has them.
    pub images: Vec<Image>,
    /// What each GPU runs, as `offload-bundle explain` has it.
    pub explained: ExplainReport,
    /// Its faults, as `offload-bundle check` has them.
    pub checked: CheckReport,
    /// Bytes that it could do without.
    pub waste: Waste,
}

/// Bytes of images that no GPU needs, as stored.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waste {
    /// Machine code that equals that of another image, which would run in its place.
    pub equal: u64,
    /// PTX that no known GPU takes, nor a later one.
    pub unused_ptx: u64,
}

/// A device image.
#[derive(Debug, Clone)]
pub struct Image {
    /// Its description.
    pub row: Row,
    /// What its functions take; `None` unless it is machine code.
    pub usage: Option<CubinUsage>,
    /// Which bytes belong to which function.
    pub shares: Option<FunctionShares>,
}

impl FileContents {
    /// Reads a file. `read_thin` reads the members of a thin archive.
    ///
    /// # Errors
    /// A damaged container or image.
    pub fn read(
        name: &str,
        data: &[u8],
        read_thin: &mut dyn FnMut(&str) -> io::Result<Vec<u8>>,
        search: Search,
    ) -> Result<Self, FileError> {
        let mut images = Vec::new();
        listing::visit_in(data, &mut *read_thin, search, |found| {
            let row = found.row.clone();
            if !matches!(row.image.as_str(), "cubin" | "object") {
                images.push(Image { row, usage: None, shares: None });
                return Ok(());
            }
            let payload = found.payload()?;
            let usage = usage::of_payload(&row, &payload, images.len() + 1, Order::Code)?;
            let damaged = |error: offload_bundle::FormatError| offload_bundle::FormatError {
                offset: error.offset.saturating_add(row.offset),
                ..error
            };
            let shares = usage.as_ref().map(|_| usage::function_shares(&payload)).transpose().map_err(damaged)?;
            images.push(Image { row, usage, shares: shares.flatten() });
            Ok(())
        })?;
        let containers = coverage::compared_containers(data, &mut *read_thin, search)?;
        let bundles = coverage::hip_bundles(data, read_thin)?;
        let explained = ExplainReport::new(&containers, None, Driver::default()).with_bundles(&bundles, None, &[]);
        let checked = CheckReport::new(&containers, &CheckOptions::default())
            .with_bundles(&bundles)
            .with_findings(Vec::from_iter(coverage::forgotten_link(data)));
        let waste = Waste::of(&containers, &explained);
        Ok(Self { name: name.to_owned(), size: data.len() as u64, images, explained, checked, waste })
    }
}

impl FileContents {
    /// Its name without the folders.
    pub fn short_name(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }
}

impl Waste {
    fn of(containers: &[FoundContainer], explained: &ExplainReport) -> Self {
        let equal = coverage::droppable(containers, KNOWN).into_iter().map(|image| image.stored_size);
        let unused = containers.iter().zip(&explained.containers).filter(|(found, _)| found.role == Role::Whole);
        let unused = unused.flat_map(|(found, report)| unused_ptx(&found.codes, &report.gpus));
        Self { equal: equal.sum(), unused_ptx: unused.map(|code| code.stored_size).sum() }
    }
}

/// The PTX of a fatbin that none of these GPUs takes, nor a later one: those take that of the highest target without a suffix, and GPUs of a
/// family to come take that of the family.
fn unused_ptx<'c>(codes: &'c [Code], gpus: &[GpuReport]) -> Vec<&'c Code> {
    let all = || codes.iter().filter(|code| matches!(code.content, Content::Ptx { .. }));
    let plain = all().filter(|code| code.arch.feature == ArchFeature::Plain);
    let highest = plain.map(|code| code.arch.number).max();
    let is_taken = |code: &Code| gpus.iter().any(|gpu| gpu.entry == Some(code.number));
    let is_for_later = |code: &Code| match code.arch.feature {
        ArchFeature::Plain => Some(code.arch.number) == highest,
        ArchFeature::Family => true,
        ArchFeature::Accelerated => false,
    };
    all().filter(|code| !is_for_later(code) && !is_taken(code)).collect()
}

/// Leaves out of the names of files the folder or package that all are in.
pub fn leave_out_common_folder(files: &mut [FileContents]) {
    let Some((first, others)) = files.split_first() else { return };
    let mut common = first.name.as_str();
    for other in others {
        let same = common.char_indices().zip(other.name.chars()).take_while(|((_, one), char)| one == char);
        let end = same.last().map_or(0, |((at, one), _)| at + one.len_utf8());
        common = common.get(..end).unwrap_or_default();
    }
    let end = common.rfind([':', '/']).map_or(0, |at| at + 1);
    for file in files {
        file.name = file.name.split_off(end);
    }
}

impl Image {
    /// The architecture, else the triple.
    pub fn target(&self) -> &str {
        match (self.row.target.as_str(), self.row.triple.as_deref()) {
            ("", Some(triple)) => triple,
            ("", None) => "unknown target",
            (target, _) => target,
        }
    }

    /// `cubin`, `relocatable cubin`, `ptx` and so on.
    pub fn form(&self) -> String {
        match self.row.relocatable {
            Some(true) => format!("relocatable {}", self.row.image),
            _ => self.row.image.clone(),
        }
    }

    /// Its size in bytes before compression.
    pub fn uncompressed(&self) -> u64 {
        self.row.uncompressed_size.unwrap_or(self.row.size)
    }
}
