//! Lists the device images of a file, whatever containers they are in, and its kept results.

use std::borrow::Cow;
use std::io;

use rayon::prelude::*;
use serde::Serialize;

use crate::archive;
use crate::cubin;
use crate::error::{FileError, FormatError, FormatErrorKind};
use crate::fatbin::{self, Compression, EntryKind, FatbinEntry};
use crate::hip_bundle::{self, BundleEntry, BundleId};
use crate::host_object::{self, CarrierKind, FileKind, Search};
use crate::offload_binary::{self, ImageKind, OffloadImage, OffloadKinds};
use crate::printable;

mod results;

/// One device image, or one section of kept results. The field names are the keys of the JSON output.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Row {
    /// The archive member that holds it.
    pub member: Option<String>,
    /// The section of the object, library or program that holds it: `.nv_fatbin`, or `__nv_relfatbin` of nvcc's relocatable images.
    pub section: Option<String>,
    /// Where its bytes start in the file; for a thin archive, in the member's own file; for a container that is compressed as a whole, in
    /// what that decompresses to.
    pub offset: u64,
    /// The programming models: `cuda`, `openmp+cuda`.
    pub kind: String,
    /// The target triple, where the container records one.
    pub triple: Option<String>,
    /// The architecture: `sm_90a`, or what the container records; empty if it records none.
    pub target: String,
    /// What it is: `bitcode`, `cubin`, `ptx`, `ltoir`, `object` and so on.
    pub image: String,
    /// Of a cubin: whether it is an input of a device link.
    pub relocatable: Option<bool>,
    /// The version of PTX or LTO-IR: `8.8`.
    pub version: Option<String>,
    /// The name of the source file, where recorded.
    pub name: Option<String>,
    /// Size in bytes as stored. An image of a concatenation takes its share of the stored bytes.
    pub size: u64,
    /// `none`, `zstd`, `lz4`, `lz4 frame` or `zlib`; behind `concatenated` for an image that is compressed together with others.
    pub compression: String,
    /// Size in bytes before compression, if it is compressed.
    pub uncompressed_size: Option<u64>,
    /// Of kept results ([`crate::kept_results`]), which are no image: how many there are.
    pub entries: Option<u64>,
}

impl Row {
    /// Whether it is a device image.
    pub fn is_image(&self) -> bool {
        self.entries.is_none()
    }

    /// The architecture, else the triple, if the container records one.
    pub fn target_or_triple(&self) -> Option<&str> {
        if self.target.is_empty() { self.triple.as_deref() } else { Some(&self.target) }
    }
}

/// A device image of a file: its description and its bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found<'a> {
    /// Its description, as `offload-bundle list` prints it.
    pub row: Row,
    source: Source<'a>,
}

/// Where the bytes of an image come from.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Source<'a> {
    Plain(&'a [u8]),
    Entry(FatbinEntry<'a>),
}

impl<'a> Found<'a> {
    fn plain(row: Row, image: &'a [u8]) -> Self {
        Self { row, source: Source::Plain(image) }
    }

    /// The bytes as the container stores them: compressed if the container compresses them, else with the padding of a fatbin. Those of a
    /// concatenation are those of all its images.
    pub fn stored(&self) -> &'a [u8] {
        match &self.source {
            Source::Plain(image) => image,
            Source::Entry(entry) => entry.stored,
        }
    }

    /// Whether it shares its stored bytes with other images.
    pub(crate) fn is_part(&self) -> bool {
        self.entry().is_some_and(|entry| entry.part.is_some())
    }

    /// The fatbin's entry that holds it, if it is in a fatbin.
    pub fn entry(&self) -> Option<&FatbinEntry<'a>> {
        match &self.source {
            Source::Plain(_) => None,
            Source::Entry(entry) => Some(entry),
        }
    }

    /// The original image: decompressed, without padding, and PTX without its final NUL.
    ///
    /// # Errors
    /// A damaged payload, or LTO-IR that NVIDIA's writer scrambled. The offset is one in the file.
    pub fn payload(&self) -> Result<Cow<'a, [u8]>, FormatError> {
        let Source::Entry(entry) = &self.source else {
            return Ok(Cow::Borrowed(self.stored()));
        };
        // The entry counts from where its fatbin starts, the row from the start of the file.
        let base = self.row.offset.saturating_sub(entry.payload_offset);
        let payload = entry.payload().map_err(|e| e.shifted(base))?;
        let size = if entry.kind == EntryKind::Elf { cubin::exact_size(&payload) } else { payload.len() };
        Ok(match payload {
            Cow::Borrowed(bytes) => Cow::Borrowed(bytes.get(..size).unwrap_or(bytes)),
            Cow::Owned(mut bytes) => {
                bytes.truncate(size);
                Cow::Owned(bytes)
            }
        })
    }

    /// Checks the whole cubin of a fatbin entry, of which the row describes the first bytes alone.
    fn check(&self) -> Result<(), FormatError> {
        let Source::Entry(entry) = &self.source else { return Ok(()) };
        check_cubin(entry).map_err(|e| e.shifted(self.row.offset.saturating_sub(entry.payload_offset)))
    }

    /// The same image as one of a section.
    pub(crate) fn in_section(self, section: &str) -> Self {
        self.with_row(|row| Row { section: Some(section.to_owned()), ..row })
    }

    fn with_row(self, change: impl FnOnce(Row) -> Row) -> Self {
        Self { row: change(self.row), source: self.source }
    }
}

/// Lists the device images of a file. Cubins are checked as a whole.
///
/// `read_thin` reads the file of a thin archive's member, given the path that the archive records.
///
/// # Errors
/// A damaged container, a thin member that cannot be read, or a kind of file that is not supported.
pub fn list(data: &[u8], read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>) -> Result<Vec<Row>, FileError> {
    list_in(data, read_thin, Search::Sections)
}

/// The same for the device images that a search finds.
///
/// # Errors
/// Those of [`list`].
pub fn list_in(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
) -> Result<Vec<Row>, FileError> {
    rows(data, read_thin, Visit { search, checks: true, results: false })
}

/// The same with a row for each section of kept results, behind those of all images. The results are checked, too.
///
/// # Errors
/// Those of [`list`], and damaged kept results.
pub fn list_with_results(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
) -> Result<Vec<Row>, FileError> {
    let mut rows = rows(data, read_thin, Visit { search, checks: true, results: true })?;
    // Stable. The number of an image's row stays the number by which it is extracted.
    rows.sort_by_key(|row| !row.is_image());
    Ok(rows)
}

fn rows(data: &[u8], read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>, visit: Visit) -> Result<Vec<Row>, FileError> {
    let mut rows = Vec::new();
    visit_all(data, read_thin, visit, |found| {
        rows.push(found.row.clone());
        Ok(())
    })?;
    Ok(rows)
}

/// Calls `see` for every device image of a file, in the order of [`list`].
///
/// # Errors
/// Those of [`list`], and those of `see`, which are attributed to the image.
pub fn visit(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    see: impl FnMut(&Found<'_>) -> Result<(), FormatError>,
) -> Result<(), FileError> {
    visit_in(data, read_thin, Search::Sections, see)
}

/// The same for the device images that a search finds.
///
/// # Errors
/// Those of [`visit`].
pub fn visit_in(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    search: Search,
    see: impl FnMut(&Found<'_>) -> Result<(), FormatError>,
) -> Result<(), FileError> {
    visit_all(data, read_thin, Visit { search, checks: false, results: false }, see)
}

/// What a visit does beside calling `see`.
#[derive(Debug, Clone, Copy)]
struct Visit {
    search: Search,
    /// Checks whole cubins.
    checks: bool,
    /// Also visits kept results.
    results: bool,
}

impl Visit {
    /// Calls `see` for images of one container, which are decompressed side by side if they are checked.
    fn each(self, images: &[Found<'_>], see: &mut See<'_>) -> Result<(), FormatError> {
        if self.checks {
            let checked: Vec<Result<(), FormatError>> = images.par_iter().map(Found::check).collect();
            checked.into_iter().collect::<Result<(), FormatError>>()?;
        }
        images.iter().try_for_each(see)
    }
}

fn visit_all(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    visit: Visit,
    mut see: impl FnMut(&Found<'_>) -> Result<(), FormatError>,
) -> Result<(), FileError> {
    match host_object::file_kind(data) {
        FileKind::Archive | FileKind::ThinArchive => visit_archive(data, read_thin, visit, see),
        FileKind::Bitcode => Err(FileError::from(FormatError::unsupported(0, "LLVM bitcode files are not supported"))),
        _ => visit_file(data, visit, &mut see).map_err(FileError::from),
    }
}

fn visit_archive(
    data: &[u8],
    mut read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
    visit: Visit,
    mut see: impl FnMut(&Found<'_>) -> Result<(), FormatError>,
) -> Result<(), FileError> {
    for member in archive::members(data).map_err(FileError::from)? {
        let bytes = member.bytes(&mut read_thin)?;
        let mut see_member = |found: &Found<'_>| {
            let found = found.clone().with_row(|row| {
                let offset = row.offset.saturating_add(member.offset);
                Row { member: Some(member.name.clone()), offset, ..row }
            });
            // The offset counts from the start of the archive now, and is shifted once more below.
            see(&found).map_err(|e| FormatError { offset: e.offset.saturating_sub(member.offset), ..e })
        };
        visit_file(&bytes, visit, &mut see_member).map_err(|error| member.error(error))?;
    }
    Ok(())
}

type See<'s> = dyn FnMut(&Found<'_>) -> Result<(), FormatError> + 's;

/// Visits a file that is not an archive. Members of other kinds carry no device images.
fn visit_file(data: &[u8], visit: Visit, see: &mut See<'_>) -> Result<(), FormatError> {
    match host_object::file_kind(data) {
        FileKind::OffloadBinary => return visit_offload_binaries(data, 0, visit, see),
        FileKind::Fatbin => return visit.each(&images_of_fatbin(data, 0, OffloadKinds::CUDA)?, see),
        FileKind::Bitcode => return Ok(()),
        _ => {}
    }
    if hip_bundle::is_bundle(data) {
        return visit_bundles(data, 0, see);
    }
    if cubin::is_cubin(data) {
        return see(&Found::plain(cubin_row(data, 0, OffloadKinds::CUDA)?, data));
    }
    let mut carriers = host_object::carriers(data)?;
    // Images to be linked come before linked ones.
    carriers.sort_by_key(|carrier| carrier.kind != CarrierKind::OffloadBinaries);
    for carrier in carriers {
        let mut see_in = |found: &Found<'_>| see(&found.clone().in_section(&carrier.section));
        let visited = match carrier.kind {
            CarrierKind::OffloadBinaries => visit_offload_binaries(carrier.data, carrier.offset, visit, &mut see_in),
            CarrierKind::Fatbins | CarrierKind::RelocatableFatbins => {
                images_of_fatbin(carrier.data, carrier.offset, OffloadKinds::CUDA)
                    .and_then(|images| visit.each(&images, &mut see_in))
            }
            CarrierKind::HipBundles => visit_bundles(carrier.data, carrier.offset, &mut see_in),
        };
        visited.map_err(|e| e.within(&format!("section {}", carrier.section)))?;
    }
    let scattered = if visit.search == Search::AllBytes { host_object::scattered_fatbins(data)? } else { Vec::new() };
    for found in scattered {
        let images = images_of_fatbin(found.data, found.offset, OffloadKinds::CUDA)?.into_iter();
        let images: Vec<Found<'_>> = match found.section.as_str() {
            "" => images.collect(),
            section => images.map(|image| image.in_section(section)).collect(),
        };
        visit.each(&images, see)?;
    }
    let results = if visit.results { results::sections(data)? } else { Vec::new() };
    results.iter().try_for_each(see)
}

fn visit_offload_binaries(data: &[u8], base: u64, visit: Visit, see: &mut See<'_>) -> Result<(), FormatError> {
    let data = offload_binary::inflate(data).map_err(|e| e.shifted(base))?;
    for image in offload_binary::read_all(&data).map_err(|e| e.shifted(base))? {
        visit.each(&images_of_image(&image, base.saturating_add(image.image_offset))?, see)?;
    }
    Ok(())
}

/// Visits the images of HIP bundles; the empty one of the host does not count.
fn visit_bundles(data: &[u8], base: u64, see: &mut See<'_>) -> Result<(), FormatError> {
    let data = hip_bundle::inflate(data).map_err(|e| e.shifted(base))?;
    for entry in hip_bundle::read_all(&data).map_err(|e| e.shifted(base))? {
        if !entry.image.is_empty() {
            see(&Found::plain(bundle_row(&entry, base), entry.image))?;
        }
    }
    Ok(())
}

/// Describes an image of the bundles that start at `base` of the file.
pub(crate) fn bundle_row(entry: &BundleEntry<'_>, base: u64) -> Row {
    let image = match host_object::file_kind(entry.image) {
        FileKind::Bitcode => "bitcode",
        FileKind::ElfRelocatable | FileKind::ElfShared | FileKind::ElfExecutable => "object",
        _ if hip_bundle::is_spirv(entry.image) => "spirv",
        _ => "unknown",
    };
    let offset = base.saturating_add(entry.offset);
    Row { image: image.to_owned(), size: entry.image.len() as u64, ..row_of_id(entry.id, offset) }
}

/// Describes a bundle's image by its id, as a linked object.
pub(crate) fn row_of_id(id: &str, offset: u64) -> Row {
    let row = plain_row("object", 0, offset, OffloadKinds::HIP);
    match BundleId::parse(id) {
        Some(id) => Row {
            kind: if id.is_hip() { row.kind } else { id.kind.to_owned() },
            triple: Some(format!("{}-{}-{}", id.arch, id.vendor, id.os)),
            target: id.target.to_owned(),
            ..row
        },
        None => Row { target: id.to_owned(), ..row },
    }
}

/// Describes one image of an offload binary at `offset` of the file: several if it is a fatbin.
pub(crate) fn images_of_image<'a>(image: &OffloadImage<'a>, offset: u64) -> Result<Vec<Found<'a>>, FormatError> {
    let described = |row: Row| Row {
        triple: image.get("triple").map(str::to_owned),
        target: if image.arch().is_empty() { row.target } else { image.arch().to_owned() },
        ..row
    };
    // Compiler drivers store cubins as `o`: the bytes decide, not the recorded kind.
    if fatbin::MAGIC == image.image.get(..4).unwrap_or_default() {
        let images = images_of_fatbin(image.image, offset, image.offload_kinds)?;
        let triple = image.get("triple").map(str::to_owned);
        let described = |found: Found<'a>| found.with_row(|row| Row { triple: triple.clone(), ..row });
        return Ok(images.into_iter().map(described).collect());
    }
    if cubin::is_cubin(image.image) {
        let row = described(cubin_row(image.image, offset, image.offload_kinds)?);
        return Ok(vec![Found::plain(row, image.image)]);
    }
    let name = match (host_object::file_kind(image.image), image.image_kind) {
        (FileKind::Bitcode, _) | (_, ImageKind::Bitcode) => "bitcode",
        (_, ImageKind::Object) => "object",
        (_, ImageKind::Cubin) => "cubin",
        (_, ImageKind::Fatbin) => "fatbin",
        (_, ImageKind::Ptx) => "ptx",
        (_, ImageKind::Spirv) => "spirv",
        (_, ImageKind::None) => "unknown",
    };
    let row = described(plain_row(name, image.image.len(), offset, image.offload_kinds));
    Ok(vec![Found::plain(row, image.image)])
}

fn plain_row(image: &str, size: usize, offset: u64, kinds: OffloadKinds) -> Row {
    Row {
        offset,
        kind: kinds.to_string(),
        image: image.to_owned(),
        size: size as u64,
        compression: Compression::None.to_string(),
        ..Row::default()
    }
}

fn cubin_row(data: &[u8], offset: u64, kinds: OffloadKinds) -> Result<Row, FormatError> {
    let cubin = cubin::parse(data).map_err(|e| e.shifted(offset))?;
    Ok(Row {
        target: cubin.arch().to_string(),
        relocatable: Some(cubin.is_relocatable()),
        ..plain_row("cubin", data.len(), offset, kinds)
    })
}

/// The entries of the fatbins in `data`, which starts at `offset` of the file.
pub(crate) fn images_of_fatbin(data: &[u8], offset: u64, kinds: OffloadKinds) -> Result<Vec<Found<'_>>, FormatError> {
    let entries = fatbin::read(data).map_err(|e| e.shifted(offset))?;
    let mut images = Vec::with_capacity(entries.len());
    for entry in entries {
        images.push(Found { row: entry_row(&entry, offset, kinds)?, source: Source::Entry(entry) });
    }
    Ok(images)
}

fn entry_row(entry: &FatbinEntry<'_>, base: u64, kinds: OffloadKinds) -> Result<Row, FormatError> {
    let offset = base.saturating_add(entry.payload_offset);
    let (major, minor) = entry.code_version;
    let compression = entry.compression.to_string();
    let has_version = matches!(entry.kind, EntryKind::Ptx | EntryKind::RelocatablePtx | EntryKind::LtoIr);
    Ok(Row {
        target: entry.arch.to_string(),
        relocatable: is_relocatable(entry).map_err(|e| e.shifted(base))?,
        version: has_version.then(|| format!("{major}.{minor}")),
        name: entry.identifier.map(|name| String::from_utf8_lossy(name).into_owned()),
        compression: if entry.part.is_some() { format!("concatenated {compression}") } else { compression },
        uncompressed_size: (entry.compression != Compression::None).then_some(entry.uncompressed_size),
        size: entry.stored_size(),
        ..plain_row(&entry.kind.to_string(), entry.stored.len(), offset, kinds)
    })
}

/// Whether an entry's cubin is relocatable, by its first bytes alone; errors are relative to the fatbin.
fn is_relocatable(entry: &FatbinEntry<'_>) -> Result<Option<bool>, FormatError> {
    if entry.kind != EntryKind::Elf {
        return Ok(None);
    }
    let start = entry.payload_start(cubin::HEADER_SIZE)?;
    cubin::is_relocatable(&start).map(Some).map_err(|e| of_cubin(entry, e))
}

/// Checks the whole of an entry's cubin; errors are relative to the fatbin.
fn check_cubin(entry: &FatbinEntry<'_>) -> Result<(), FormatError> {
    if entry.kind == EntryKind::Elf {
        cubin::parse(&entry.payload()?).map_err(|e| of_cubin(entry, e))?;
    }
    Ok(())
}

/// Converts an error of a cubin into one of the fatbin that holds it.
fn of_cubin(entry: &FatbinEntry<'_>, error: FormatError) -> FormatError {
    let compressed = entry.compression != Compression::None;
    // Offsets inside a compressed payload mean nothing in the file.
    if compressed {
        let place = format!("decompressed {} cubin", entry.arch);
        let what = FormatErrorKind::Damaged(error.to_string().into());
        return FormatError::new(entry.payload_offset, what).within(&place);
    }
    error.shifted(entry.payload_offset)
}

/// Why a file that can be read has no device images.
pub fn why_none(data: &[u8]) -> &'static str {
    let has_carriers = || host_object::carriers(data).is_ok_and(|carriers| !carriers.is_empty());
    match host_object::file_kind(data) {
        FileKind::Archive | FileKind::ThinArchive => "no member of the archive has any",
        FileKind::Fatbin | FileKind::OffloadBinary => "the container is empty",
        FileKind::Unknown if hip_bundle::is_bundle(data) => "the container is empty",
        _ if has_carriers() => "its containers are empty",
        FileKind::Unknown | FileKind::Bitcode if object::FileKind::parse(data).is_err() => {
            "not an object, library, program, archive or container of device images"
        }
        _ => "it has no section that holds any; --scan looks for fatbins elsewhere in it",
    }
}

/// Formats the rows as aligned columns under a line of headings, or a note if there are none.
pub fn table(rows: &[Row]) -> String {
    if rows.is_empty() {
        return "no device images\n".to_owned();
    }
    let headings = ["MEMBER", "SECTION", "OFFSET", "KIND", "TARGET", "IMAGE", "SIZE", "COMPRESSION"];
    let mut cells = vec![headings.map(str::to_owned)];
    cells.extend(rows.iter().map(cells_of));
    let has = [rows.iter().any(|row| row.member.is_some()), rows.iter().any(|row| row.section.is_some())];
    aligned(&cells, |column| *has.get(column).unwrap_or(&true), |column| column == SIZE_COLUMN)
}

/// Formats lines of cells as columns, without those that are not shown. Columns of numbers are aligned to the right, words to the left.
pub(crate) fn aligned<L: AsRef<[String]>>(
    lines: &[L],
    is_shown: impl Fn(usize) -> bool,
    is_number: impl Fn(usize) -> bool,
) -> String {
    let mut widths: Vec<usize> = Vec::new();
    for cells in lines.iter().map(AsRef::as_ref) {
        widths.resize(cells.len().max(widths.len()), 0);
        for (width, cell) in widths.iter_mut().zip(cells) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut out = String::new();
    for line in lines {
        let mut text = String::new();
        for (column, (cell, width)) in line.as_ref().iter().zip(&widths).enumerate().filter(|(at, _)| is_shown(*at)) {
            text += &if is_number(column) { format!("{cell:>width$}  ") } else { format!("{cell:width$}  ") };
        }
        out += text.trim_end();
        out.push('\n');
    }
    out
}

/// What a column shows of a text from a file.
pub(crate) fn cell(text: Option<&str>) -> String {
    printable::name(text.filter(|text| !text.is_empty()).unwrap_or("-")).into_owned()
}

const COLUMNS: usize = 8;
const SIZE_COLUMN: usize = 6;

fn cells_of(row: &Row) -> [String; COLUMNS] {
    [
        printable::name(row.member.as_deref().unwrap_or_default()).into_owned(),
        cell(row.section.as_deref()),
        format!("{:#x}", row.offset),
        printable::name(&row.kind).into_owned(),
        cell(row.target_or_triple()),
        image_text(row),
        row.size.to_string(),
        match row.uncompressed_size {
            Some(size) => format!("{} of {size}", row.compression),
            None => "-".to_owned(),
        },
    ]
}

fn image_text(row: &Row) -> String {
    if let Some(entries) = row.entries {
        return format!("{} ({entries})", row.image);
    }
    match (row.relocatable, &row.version) {
        (Some(true), _) => format!("{} (relocatable)", row.image),
        (Some(false), _) => format!("{} (executable)", row.image),
        (None, Some(version)) => format!("{} {version}", row.image),
        (None, None) => row.image.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Were the width of a column looked for once for each line, this would take hours.
    #[test]
    fn long_tables_take_no_longer_for_each_line() {
        let row = |number: usize| Row {
            member: Some(format!("{number}.o")),
            target: "sm_90".to_owned(),
            ..plain_row("cubin", number, 0, OffloadKinds::CUDA)
        };
        let rows: Vec<Row> = (0..200_000).map(row).collect();
        let text = table(&rows);
        let lengths: Vec<usize> = text.lines().skip(1).map(str::len).collect();
        assert_eq!(lengths, vec![lengths[0]; 200_000]);
    }
}
