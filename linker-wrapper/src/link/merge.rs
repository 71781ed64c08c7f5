//! Runs a relocatable link whose device code later links take: merges the units of each target, compiles the partitions of the merged
//! units, and puts both into the output.

use std::path::{Path, PathBuf};

use offload_bundle::offload_binary;

use crate::device::device_files::DeviceCode;
use crate::diag::error::{Errors, collect};
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::InputFiles;
use crate::host::relocatable::{self, MergedCode};
use crate::kinds;
use crate::kinds::interface::{DeviceLink, Setup};
use crate::lto::unit_merge::{self, MergedImage};
use crate::plan::link_context::LinkContext;

/// The device code of a relocatable link.
#[derive(Clone, Copy)]
pub struct MergeInputs<'a> {
    /// The images of the link.
    pub images: &'a [FoundImage<'a>],
    /// Device code that the command line names.
    pub line_code: &'a DeviceCode<'a>,
    /// The host files that the images are in.
    pub inputs: &'a InputFiles,
}

/// Merges and compiles the device code and writes the object that carries it into the host link. `links` are those of the unmerged code.
/// Returns the object's path.
///
/// # Errors
/// All errors in the code, and those that tools report.
pub fn run(
    code: MergeInputs<'_>,
    links: &[Box<dyn DeviceLink + '_>],
    context: &LinkContext<'_>,
    host_triple: &str,
) -> Result<PathBuf, Errors> {
    collect(links.iter().map(|link| link.compare_units(context)))?;
    code.images.iter().filter_map(|found| found.unit.as_ref()).for_each(|unit| context.unit_facts.keep(unit));
    let groups = unit_merge::group(code.images);
    let merged = context.recorder.phase("merging units", || unit_merge::merge(&groups, context))?;
    keep(&merged, context)?;
    compile(&merged, code, context)?;
    let path = context.temp_files.file("merged.o");
    if !context.request.mode.dry {
        write(&merged, context, &path, code.inputs.first_object(), host_triple)?;
    }
    Ok(path)
}

/// Keeps the merged units (`--save-temps`).
fn keep(merged: &[MergedImage<'_>], context: &LinkContext<'_>) -> Result<(), Errors> {
    for MergedImage { first, unit } in merged {
        if let Some(unit) = unit {
            let name = format!("{}.{}.unit.bc", first.image.triple(), first.image.arch());
            context.temp_files.keep(&name, || unit.clone())?;
        }
    }
    Ok(())
}

/// Compiles the partitions of the merged units as a link of the output does.
fn compile(merged: &[MergedImage<'_>], code: MergeInputs<'_>, context: &LinkContext<'_>) -> Result<(), Errors> {
    let found = |image| MergedImage::found(image).with_cached(context.unit_facts.cached());
    let images: Vec<FoundImage<'_>> = merged.iter().map(found).collect();
    let MergeInputs { line_code, inputs, .. } = code;
    let setup = |images| Setup { images, line_code, inputs, request: context.request };
    let links = kinds::assign(&images, false)?.into_iter().map(|(kind, images)| kind.plan(&setup(images)));
    let links = collect(links)?;
    collect(links.iter().map(|link| link.compile_for_later(context))).map(drop)
}

fn write(
    merged: &[MergedImage<'_>],
    context: &LinkContext<'_>,
    path: &Path,
    like: Option<&[u8]>,
    host_triple: &str,
) -> Result<(), Errors> {
    let binaries = merged.iter().flat_map(|image| offload_binary::write(&image.to_write())).collect();
    let code = MergedCode { binaries, results: context.object_results.section() };
    relocatable::write_merged(code, path, like, host_triple)
}
