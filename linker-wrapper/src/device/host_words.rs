//! The host linker's options that the device code of a link requires.

use std::collections::BTreeSet;
use std::ffi::OsString;

use offload_bundle::host_object::StubAlias;

use crate::compilers::rdc_image::RdcImage;
use crate::device::archive_selection::Selection;
use crate::device::{rdc_targets, stub_aliases};
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::InputFiles;

/// Options of the host linker.
pub struct HostWords {
    /// The options.
    pub words: Vec<OsString>,
    /// Names of kernels that they define.
    pub stub_aliases: Vec<StubAlias>,
}

/// The names of kernels that stand for stubs in units of other compilers.
pub fn foreign_stubs(images: &[FoundImage<'_>]) -> BTreeSet<String> {
    images.iter().filter_map(|found| found.foreign.as_ref()).flat_map(RdcImage::launched_kernels).collect()
}

/// Returns the options for these images.
///
/// # Errors
/// Damaged symbol tables.
pub fn find(inputs: &InputFiles, images: &[FoundImage<'_>], selection: &Selection) -> Result<HostWords, Errors> {
    let stub_aliases = match stub_aliases::are_mixed(images) {
        true => stub_aliases::find(inputs, &selection.host)?,
        false => Vec::new(),
    };
    let mut words: Vec<OsString> = stub_aliases::linker_words(&stub_aliases).collect();
    words.extend(rdc_targets::words_for_members(images, selection));
    Ok(HostWords { words, stub_aliases })
}
