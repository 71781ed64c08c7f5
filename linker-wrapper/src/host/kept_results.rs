//! Finds the results that relocatable links left in the inputs.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use offload_bundle::host_object::{self, FileKind};
use offload_bundle::kept_results::{self, KeptResults};
use offload_bundle::{FormatError, FormatErrorKind};

use crate::diag::error::{Errors, collect};
use crate::diag::messages::warn;
use crate::host::embedded_images::FoundImage;
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles};

/// Finds the results in the files that these images are in. Those of another version of the format are not used, with a warning.
///
/// # Errors
/// Damaged sections, each with file, member and offset.
pub fn find<'a>(
    inputs: &'a InputFiles,
    images: &[FoundImage<'_>],
    program: &str,
) -> Result<Vec<KeptResults<'a>>, Errors> {
    let carriers: BTreeSet<usize> = images.iter().map(|found| found.input).collect();
    let files = carriers.into_iter().map(|input| &inputs.files()[input]);
    let objects = files.filter(|file| file.kind == FileKind::ElfRelocatable);
    let found = collect(objects.map(|file| in_file(inputs.bytes(file), file, program)))?;
    Ok(found.into_iter().flatten().filter(|results| !results.is_empty()).collect())
}

fn in_file<'a>(data: &'a [u8], file: &InputFile, program: &str) -> Result<Vec<KeptResults<'a>>, Errors> {
    static SECTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new(kept_results::SECTION));

    if !host_object::has_section(data, &SECTION) {
        return Ok(Vec::new());
    }
    let sections = host_object::sections_named(data, kept_results::SECTION);
    let sections = sections.map_err(|error| damaged(&file.name, file.base(), &error))?;
    let found = collect(sections.into_iter().map(|section| in_section(section, file, program)))?;
    Ok(found.into_iter().flatten().collect())
}

fn in_section<'a>(
    (offset, section): (u64, &'a [u8]),
    file: &InputFile,
    program: &str,
) -> Result<Option<KeptResults<'a>>, Errors> {
    match KeptResults::parse(section) {
        Ok(results) => Ok(Some(results)),
        Err(FormatError { kind: FormatErrorKind::Unsupported(what), .. }) => {
            warn(
                program,
                format_args!("{}: {what}: another version of fatlink wrote them; they are not used", file.name),
            );
            Ok(None)
        }
        Err(error) => Err(damaged(&file.name, file.base(), &error.shifted(offset))),
    }
}
