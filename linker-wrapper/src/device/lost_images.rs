//! Diagnoses host code that registers kernels and variables although no device image holds them: the device code was lost
//! before this link. Such a program starts, and its first launch fails.

use offload_bundle::host_object::{self, FileKind};
use offload_bundle::offload_binary::OffloadKinds;
use rayon::prelude::*;

use crate::device::archive_selection;
use crate::device::error::Error;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::{FEW, FoundImage};
use crate::host::error::damaged;
use crate::host::input_files::{InputFile, InputFiles, Place};

/// One kernel or variable that host code registers.
struct Registered<'a> {
    /// The host file, by index.
    input: usize,
    /// Name of the file, for messages.
    file: &'a str,
    /// The programming model; `None` for bitcode, which does not record it.
    kind: Option<OffloadKinds>,
    is_kernel: bool,
    name: String,
}

/// Rejects a final link in which host code registers kernels or variables of a programming model that has no device image. An
/// object that registers the entries of a programming model carries its images itself.
///
/// # Errors
/// One for each programming model. Damaged entry tables.
pub fn check(inputs: &InputFiles, images: &[FoundImage<'_>], roots: &[String]) -> Result<(), Errors> {
    let files = inputs.files();
    let look = |(index, file)| registered_by(inputs, index, file);
    let all: Vec<_> = if files.len() > FEW {
        files.par_iter().enumerate().map(look).collect()
    } else {
        files.iter().enumerate().map(look).collect()
    };
    let all = collect(all)?;
    let mut lost: Vec<_> = all.into_iter().flatten().filter(|one| one.is_lost(images)).collect();
    if lost.iter().any(|one| files[one.input].place != Place::Line) {
        let linked = archive_selection::host_files(inputs, roots)?;
        lost.retain(|one| linked[one.input]);
    }
    if lost.is_empty() {
        return Ok(());
    }
    let registered = inputs.registered();
    // Bitcode does not say of which programming model its entries are.
    lost.retain(|one| one.kind.map_or(!registered.any(), |kind| !registered.kinds().contains(kind)));
    let mut errors = Errors::default();
    for kind in [Some("CUDA"), Some("HIP"), Some("OpenMP"), Some("SYCL"), None] {
        let of_kind: Vec<_> = lost.iter().filter(|one| one.kind.and_then(name_of) == kind).collect();
        if let [first, others @ ..] = &of_kind[..] {
            errors.extend(Error::LostImages {
                file: first.file.to_owned(),
                name: first.name.clone(),
                others: others.len(),
                kind: kind.map_or_else(String::new, |kind| format!("{kind} ")),
            });
        }
    }
    errors.or(())
}

impl Registered<'_> {
    /// A registered variable counts only if the link has no device images at all, because its host code may never use it.
    fn is_lost(&self, images: &[FoundImage<'_>]) -> bool {
        // Units of nvcc register themselves.
        let mut images = images.iter().filter(|found| found.foreign.is_none()).peekable();
        let fits = |found: &FoundImage<'_>| self.kind.is_none_or(|kind| found.image.offload_kinds.contains(kind));
        images.peek().is_none() || (self.is_kernel && !images.any(fits))
    }
}

fn name_of(kind: OffloadKinds) -> Option<&'static str> {
    match kind {
        OffloadKinds::CUDA => Some("CUDA"),
        OffloadKinds::HIP => Some("HIP"),
        OffloadKinds::OPENMP => Some("OpenMP"),
        OffloadKinds::SYCL => Some("SYCL"),
        _ => None,
    }
}

fn registered_by<'a>(inputs: &'a InputFiles, index: usize, file: &'a InputFile) -> Result<Vec<Registered<'a>>, Errors> {
    let registered = |kind, is_kernel, name| Registered { input: index, file: &file.name, kind, is_kernel, name };
    match (&file.bitcode, file.kind) {
        (Some(host), _) => Ok(host.registered.iter().map(|name| registered(None, true, name.clone())).collect()),
        (None, FileKind::ElfRelocatable) => host_object::offload_entries(inputs.bytes(file))
            .map(|entries| {
                let entries = entries.into_iter();
                entries.map(|entry| registered(Some(entry.kinds), entry.size == 0, entry.name)).collect()
            })
            .map_err(|error| damaged(&file.name, file.base(), &error)),
        _ => Ok(Vec::new()),
    }
}

/// Warns about shared libraries on the line that register kernels or variables and carry no device image, because another
/// linker dropped the device code.
pub fn libraries(inputs: &InputFiles) -> Vec<String> {
    let shared = inputs.files().iter().filter(|file| file.kind == FileKind::ElfShared);
    let lost = shared.filter(|file| {
        let bytes = inputs.bytes(file);
        let has_entries =
            || host_object::section(bytes, b"llvm_offload_entries").is_some_and(|(_, entries)| !entries.is_empty());
        // The host linker reports damaged libraries.
        (has_entries() || host_object::former_entries(bytes).is_some())
            && host_object::carriers(bytes).is_ok_and(|carriers| carriers.is_empty())
    });
    lost.map(|file| {
        format!(
            "{} registers kernels or variables and carries no device image: its own link lost the device code; link it with \
             fatlink, too",
            file.name
        )
    })
    .collect()
}
