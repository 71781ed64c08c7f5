//! Diagnoses HIP objects of clang's former offload driver (`--no-offload-new-driver`, the default up to clang 22): clang itself links their
//! device code and adds an object that defines a symbol for each of them. A link without that object would fail with that symbol undefined.

use std::collections::HashSet;
use std::sync::LazyLock;

use memchr::memmem::Finder;
use offload_bundle::host_object::{self, FileKind};

use crate::device::archive_selection;
use crate::device::error::Error;
use crate::diag::error::Errors;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// What the names of the sections with their device code begin with (`clang-offload-bundler`).
static BUNDLE_SECTION: LazyLock<Finder<'static>> = LazyLock::new(|| Finder::new("__CLANG_OFFLOAD_BUNDLE__hip"));
/// What the symbol of an object's image begins with; the object's id follows.
const IMAGE_SYMBOL: &[u8] = b"__hip_fatbin_";

/// Rejects a final link of such objects whose device code nothing has linked. Archive members that the link leaves out do not count.
///
/// # Errors
/// It names the first object. Damaged symbol tables of archives.
pub fn check(inputs: &InputFiles, roots: &[String]) -> Result<(), Errors> {
    let is_former = |file: &InputFile| {
        file.kind == FileKind::ElfRelocatable && host_object::has_section(inputs.bytes(file), &BUNDLE_SECTION)
    };
    let files = inputs.files();
    let mut former: Vec<usize> = (0..files.len()).filter(|index| is_former(&files[*index])).collect();
    if former.iter().any(|index| files[*index].place != Place::Line) {
        let linked = archive_selection::host_files(inputs, roots)?;
        former.retain(|index| linked[*index]);
    }
    if former.is_empty() {
        return Ok(());
    }
    let defined: HashSet<&[u8]> = files.iter().flat_map(|file| image_symbols(inputs, file, true)).collect();
    former.retain(|index| image_symbols(inputs, &files[*index], false).any(|name| !defined.contains(name)));
    match former[..] {
        [] => Ok(()),
        [first, ref others @ ..] => {
            Err(Error::FormerDriver { file: files[first].name.clone(), others: others.len() }.into())
        }
    }
}

/// The symbols of images that an object defines, or references.
fn image_symbols<'a>(
    inputs: &'a InputFiles,
    file: &InputFile,
    are_defined: bool,
) -> impl Iterator<Item = &'a [u8]> + use<'a> {
    let symbols = match file.kind {
        // The host linker reports damaged tables.
        FileKind::ElfRelocatable => host_object::host_symbols(inputs.bytes(file), false).unwrap_or_default(),
        _ => Vec::new(),
    };
    let wanted = symbols.into_iter().filter(move |symbol| symbol.defined == are_defined);
    wanted.map(|symbol| symbol.name).filter(|name| name.starts_with(IMAGE_SYMBOL))
}
