//! OpenMP offload to the host's own kind of processor: one shared image per target, registered with
//! libomptarget.

use std::ops::Range;
use std::path::Path;

use llvm_passes::bitcode;
use llvm_passes::pipeline::{self, NamedBitcode, OptLevel};
use llvm_passes::session::Session;
use offload_bundle::offload_binary::{self, ImageKind, ImageToWrite, OffloadKinds};

use crate::cli::device_options;
use crate::cli::options::Options;
use crate::codegen::image_linker;
use crate::device::targets::HostTargetPlan;
use crate::diag::error::{Errors, collect};
use crate::host::host_linker;
use crate::sys::process::Mode;
use crate::sys::temp_files::Scratch;

/// All images of a link as offload binaries, and where in them, put back to back, the images proper lie.
pub struct Bundle {
    /// One offload binary per image.
    pub blobs: Vec<Vec<u8>>,
    /// Bytes of each image in the blobs.
    pub images: Vec<Range<u64>>,
}

/// Links the image of every target and bundles them.
///
/// # Errors
/// What the linker says, or a full disk.
pub fn link(
    targets: &[HostTargetPlan<'_>],
    linker: &Path,
    options: &Options,
    scratch: &Scratch,
    mode: Mode,
) -> Result<Bundle, Errors> {
    let images = collect(targets.iter().map(|target| image(target, linker, options, scratch, mode)))?;
    let linked = targets.iter().zip(images).map(|(target, image)| (target.triple, target.arch, image));
    Ok(bundle(linked.collect()))
}

/// Bundles finished images: triple, architecture and bytes of each.
pub fn bundle(images: Vec<(&str, &str, Vec<u8>)>) -> Bundle {
    let mut bundle = Bundle { blobs: Vec::new(), images: Vec::new() };
    let mut start = 0;
    for (triple, arch, image) in images {
        let blob = blob(triple, arch, &image);
        let found = offload_binary::read_all(&blob).ok().and_then(|found| Some(found.first()?.image_offset));
        let begin = start + found.unwrap_or(0);
        bundle.images.push(begin..begin + image.len() as u64);
        start += blob.len() as u64;
        bundle.blobs.push(blob);
    }
    bundle
}

fn image(
    target: &HostTargetPlan<'_>,
    linker: &Path,
    options: &Options,
    scratch: &Scratch,
    mode: Mode,
) -> Result<Vec<u8>, Errors> {
    let stem = format!("{}.{}", target.triple.split('-').next().unwrap_or(target.triple), target.arch);
    let mut inputs = collect(
        target
            .images
            .iter()
            .enumerate()
            .filter(|(_, (_, bytes))| !bitcode::is_bitcode(bytes))
            .map(|(index, (_, bytes))| scratch.write(&format!("{stem}.input.{index}.o"), bytes)),
    )?;
    if let Some(object) = link_bitcode(target, device_options::level_for(options, target.triple))? {
        inputs.push(scratch.write(&format!("{stem}.lto.o"), &object)?);
    }
    let wanted = options
        .device_linker
        .iter()
        .filter(|(triple, _)| triple.as_deref().is_none_or(|triple| triple == target.triple));
    let arguments: Vec<String> = wanted.map(|(_, value)| value.clone()).collect();
    let output = scratch.file(&format!("{stem}.img"));
    let line = image_linker::line(&inputs, &output, &options.host_line, &arguments);
    let short = host_linker::shortened(&line, &stem, scratch)?;
    image_linker::link_shared(linker, target.triple, &inputs, &short, &output, mode)
}

/// One object of all images that are bitcode (`-foffload-lto`), optimized across files here: not every host
/// linker can.
fn link_bitcode(target: &HostTargetPlan<'_>, level: OptLevel) -> Result<Option<Vec<u8>>, Errors> {
    let images: Vec<(String, &[u8])> = target
        .images
        .iter()
        .filter(|(_, bytes)| bitcode::is_bitcode(bytes))
        .map(|(origin, bytes)| (origin.to_string(), *bytes))
        .collect();
    if images.is_empty() {
        return Ok(None);
    }
    let units: Vec<NamedBitcode<'_>> = images.iter().map(|(name, bitcode)| NamedBitcode { name, bitcode }).collect();
    let session = Session::new();
    let modules = pipeline::read_units(&session, &units).map_err(Errors::all)?;
    let merged = pipeline::merge(&session, modules, &units).map_err(Errors::one)?;
    pipeline::host_object(&session, &merged, target.triple, level).map(Some).map_err(Errors::one)
}

fn blob(triple: &str, arch: &str, image: &[u8]) -> Vec<u8> {
    // As clang-linker-wrapper writes it.
    let arch = if arch == "generic" { "" } else { arch };
    offload_binary::write(&ImageToWrite {
        image_kind: ImageKind::Object,
        offload_kinds: OffloadKinds::OPENMP,
        flags: 0,
        strings: vec![("arch", arch), ("triple", triple)],
        image,
    })
}
