//! The last step of a target's device link: joins its compiled partitions into one finished cubin and one PTX module.

use std::collections::BTreeMap;

use offload_bundle::arch::GpuArch;
use offload_bundle::ptx::{self, DebugInfo};

use crate::codegen::{DeviceObject, Form, PtxSource};
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::{Errors, collect};
use crate::lto::context::LtoContext;
use crate::lto::partition;
use crate::lto::products::{CompiledPartition, LinkedTarget};
use crate::lto::target::PlannedTarget;
use crate::plan::image_policy::{Entry, ImageEntries};
use crate::plan::target_link::TargetLink;
use crate::profile::span;

/// Joins the compiled partitions of a target.
///
/// # Errors
/// Errors of the backend's linker.
pub fn join(
    target: &PlannedTarget<'_>,
    partitions: Vec<CompiledPartition>,
    context: &LtoContext<'_>,
) -> Result<LinkedTarget, Errors> {
    let mut objects: BTreeMap<GpuArch, Vec<DeviceObject>> = BTreeMap::new();
    let mut texts: BTreeMap<GpuArch, Vec<Vec<u8>>> = BTreeMap::new();
    let mut linked = LinkedTarget::default();
    for partition in partitions {
        partition.objects.into_iter().for_each(|object| objects.entry(object.arch).or_default().push(object));
        partition.ptx.into_iter().for_each(|(arch, text)| texts.entry(arch).or_default().push(text));
        linked.warnings.extend(partition.warnings);
        linked.diagnostics.extend(partition.diagnostics);
    }
    let joined = target.plan.sass.iter().map(|arch| {
        let objects = objects.remove(arch).unwrap_or_default();
        Ok((*arch, join_objects(target, *arch, objects, context)?))
    });
    linked.sass = collect(joined)?;
    let mut not_joined = Vec::new();
    for (arch, texts) in texts {
        match join_ptx(texts) {
            Some(text) => linked.ptx.push((arch, text)),
            None => not_joined.push(arch),
        }
    }
    if !not_joined.is_empty() {
        linked.ptx.extend(monolithic_ptx(target, &not_joined, context)?);
    }
    for (arch, text) in &linked.ptx {
        context.temp_files().keep(&format!("{}.ptx", arch.virtual_name()), || text.clone())?;
    }
    Ok(linked)
}

/// Links the cubin of the target, or of another target that is generated from its code. A linker runs only if there are several
/// objects, or one that is not finished.
fn join_objects(
    target: &PlannedTarget<'_>,
    arch: GpuArch,
    compiled: Vec<DeviceObject>,
    context: &LtoContext<'_>,
) -> Result<Vec<u8>, Errors> {
    let TargetLink { needs, device_library, arch: own, .. } = &target.plan;
    let mut objects = Vec::new();
    // Objects that were compiled for the target cannot be linked with code that is generated for another target.
    let images = target.images.images.iter().enumerate().filter(|_| arch == *own);
    for (place, image) in images.filter(|(_, image)| image.code != Code::Bitcode) {
        objects.push(input_object(target, image, place, context)?);
    }
    objects.extend(compiled);
    if let Some(library) = device_library {
        let path = context.temp_files().write(&format!("{own}.library.cubin"), &library.cubin)?;
        let name = "libcudadevrt".to_owned();
        objects.push(DeviceObject::cubin(name, arch, path, library.cubin.clone(), true));
    }
    if let [only] = &mut objects[..]
        && !only.unlinked
    {
        return Ok(std::mem::take(&mut only.bytes));
    }
    let _joining = span::traced("nvlink", || arch.to_string());
    context.backends.choose(needs)?.link_all(arch, &objects, context.temp_files())
}

/// Prepares an image that is not bitcode for the link. A single cubin is used as it is.
fn input_object(
    target: &PlannedTarget<'_>,
    image: &DeviceImage<'_>,
    place: usize,
    context: &LtoContext<'_>,
) -> Result<DeviceObject, Errors> {
    let TargetLink { needs, arch, .. } = &target.plan;
    let (name, file) = (image.origin.to_string(), image.file_name(*arch, place));
    if image.code == Code::Ptx {
        // The padding that CUDA's containers put behind the text is not part of it.
        let text = image.bytes.trim_ascii_end();
        let text = text.strip_suffix(b"\0").unwrap_or(text);
        let input = context.temp_files().write(&file, text)?;
        let (debug_info, relocatable) = (DebugInfo::of(text), needs.joins);
        let _assembling = span::traced("ptxas", || input.display().to_string());
        let source = PtxSource { arch: *arch, input, debug_info, relocatable, name };
        return context.backends.choose(needs)?.assemble(source, context.temp_files());
    }
    let form = if image.code == Code::LtoIr { Form::LtoIr } else { Form::Cubin };
    let unlinked = needs.joins || form == Form::LtoIr;
    let path =
        if unlinked { context.temp_files().write(&file, image.bytes)? } else { context.temp_files().file(&file) };
    Ok(DeviceObject { form, ..DeviceObject::cubin(name, *arch, path, image.bytes.to_vec(), unlinked) })
}

/// Joins the PTX modules of all partitions into one. Returns `None` if they carry full debug information: such modules cannot be
/// joined.
fn join_ptx(mut texts: Vec<Vec<u8>>) -> Option<Vec<u8>> {
    if texts.len() == 1 {
        return texts.pop();
    }
    let _joining = span::traced("Join PTX", String::new);
    // Each text has the lowest version that it needs; the joined module needs the highest of them.
    let version = texts.iter().filter_map(|text| ptx::version(text)).max()?;
    let texts: Vec<Vec<u8>> = texts.into_iter().map(|text| ptx::with_version(&text, version).unwrap_or(text)).collect();
    let parts: Vec<&[u8]> = texts.iter().map(Vec::as_slice).collect();
    ptx::join::join(&parts).ok()
}

/// Compiles the program again, in one piece, to the PTX of these targets alone.
fn monolithic_ptx(
    target: &PlannedTarget<'_>,
    archs: &[GpuArch],
    context: &LtoContext<'_>,
) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
    let from = target.plan.arch;
    let ptx = archs.iter().map(|arch| Entry { arch: *arch, from }).collect();
    let entries = ImageEntries { sass: Vec::new(), ptx };
    let context = LtoContext { entries: &entries, ..*context };
    let whole = PlannedTarget::plan_monolithic(target.images, &context)?;
    let compiled = collect((0..whole.plan.partitions.len()).map(|index| partition::compile(&whole, index, &context)))?;
    Ok(compiled.into_iter().flat_map(|partition| partition.ptx).collect())
}
