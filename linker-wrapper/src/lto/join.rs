//! The last step of a target's device link: joins its compiled partitions into one finished cubin and one PTX module.

use std::collections::BTreeMap;

use offload_bundle::arch::GpuArch;
use offload_bundle::{FormatError, cubin, ptx};

use crate::codegen::{self, DeviceObject, Form, PtxBackend};
use crate::diag::error::{Errors, collect};
use crate::lto::context::LtoContext;
use crate::lto::error::Error;
use crate::lto::input_objects;
use crate::lto::llvm_messages;
use crate::lto::partition;
use crate::lto::products::{CompiledPartition, LinkedTarget};
use crate::lto::target::PlannedTarget;
use crate::plan::image_policy::{Entry, ImageEntries};
use crate::plan::target_link::TargetLink;
use crate::profile::span;

/// Joins the compiled partitions of a target, and the objects that were assembled from the PTX among its images.
///
/// # Errors
/// Errors of the backend's linker.
pub fn join(
    target: &PlannedTarget<'_>,
    partitions: Vec<CompiledPartition>,
    mut assembled: Vec<DeviceObject>,
    context: &LtoContext<'_>,
) -> Result<LinkedTarget, Errors> {
    let mut objects: BTreeMap<GpuArch, Vec<DeviceObject>> = BTreeMap::new();
    let mut texts: BTreeMap<GpuArch, Vec<Vec<u8>>> = BTreeMap::new();
    let (mut linked, mut messages) = (LinkedTarget::default(), Vec::new());
    for partition in partitions {
        partition.objects.into_iter().for_each(|object| objects.entry(object.arch).or_default().push(object));
        partition.ptx.into_iter().for_each(|(arch, text)| texts.entry(arch).or_default().push(text));
        messages.push(partition.messages);
        linked.diagnostics.extend(partition.diagnostics);
    }
    linked.calls_device_runtime = target.plan.device_library.is_some();
    linked.messages = llvm_messages::join(messages);
    linked.diagnostics.extend(assembled.iter().flat_map(|object| object.diagnostics.clone()));
    let joined = target.plan.sass.iter().map(|arch| {
        let objects = objects.remove(arch).unwrap_or_default();
        let assembled = if *arch == target.plan.arch { std::mem::take(&mut assembled) } else { Vec::new() };
        Ok((*arch, join_objects(target, *arch, objects, assembled, context)?))
    });
    linked.sass = collect(joined)?;
    let mut not_joined = Vec::new();
    for (arch, texts) in texts {
        match join_ptx(texts) {
            Some(text) => linked.ptx.push((arch, text)),
            None => not_joined.push(arch),
        }
    }
    linked.is_joined = !target.plan.is_monolithic() && not_joined.is_empty();
    if !not_joined.is_empty() {
        linked.ptx.extend(monolithic_ptx(target, &not_joined, context)?);
    }
    if target.plan.partitions.is_empty() {
        linked.ptx = collect(target.plan.ptx.iter().map(|arch| Ok((*arch, link_ptx(target, *arch, context)?))))?;
    }
    if target.plan.folding.keeps_names {
        add_copies(target, &mut linked)?;
    } else {
        linked.folded = target.plan.folding.folded.clone();
    }
    for (arch, text) in &linked.ptx {
        context.temp_files().keep(&format!("{}.ptx", arch.virtual_name()), || text.clone())?;
    }
    Ok(linked)
}

/// Adds the kernels that were not compiled because another one is equal.
fn add_copies(target: &PlannedTarget<'_>, linked: &mut LinkedTarget) -> Result<(), Errors> {
    let copies = target.plan.folding.copies();
    if copies.is_empty() {
        return Ok(());
    }
    let _copying = span::traced("Copy kernels", || target.plan.arch.to_string());
    // A dry run has no code.
    let add = |code: &mut Vec<(GpuArch, Vec<u8>)>, form: &'static str, copied: &CopyKernels| {
        let present = code.iter_mut().filter(|(_, bytes)| !bytes.is_empty());
        collect(present.map(|(arch, bytes)| {
            *bytes = copied(bytes, &copies).map_err(|source| Error::Copies { form, arch: *arch, source })?;
            Ok(())
        }))
        .map(|_: Vec<()>| ())
    };
    add(&mut linked.sass, "machine code", &cubin::with_kernel_copies)?;
    add(&mut linked.ptx, "PTX", &ptx::with_kernel_copies)
}

/// Adds kernels with the code of others to code: for each that is named there, those of the names in the list.
type CopyKernels = dyn Fn(&[u8], &BTreeMap<String, Vec<String>>) -> Result<Vec<u8>, FormatError>;

/// Links the cubin of the target, or of another target that is generated from its code. A linker runs only if there are several
/// objects, or one that is not finished.
fn join_objects(
    target: &PlannedTarget<'_>,
    arch: GpuArch,
    compiled: Vec<DeviceObject>,
    assembled: Vec<DeviceObject>,
    context: &LtoContext<'_>,
) -> Result<Vec<u8>, Errors> {
    let TargetLink { needs, device_library, arch: own, .. } = &target.plan;
    let mut objects = input_objects::all(target, arch, assembled, context)?;
    // Other code may launch kernels in ways that its symbols do not show.
    let is_alone = objects.is_empty() && device_library.is_none();
    let kernels = target.plan.only_kernels().filter(|_| is_alone);
    objects.extend(compiled);
    // With LTO-IR, whose references are not known, the linker takes what it needs of the archive.
    let has_lto_ir = objects.iter().any(|object| object.form == Form::LtoIr);
    if let Some(library) = device_library.as_ref().filter(|_| !has_lto_ir) {
        let path = context.temp_files().write(&format!("{own}.library.cubin"), &library.cubin)?;
        let name = "libcudadevrt".to_owned();
        // Beside units of nvcc it is one. Without its references, nvlink drops functions that only kernels launched by kernels call.
        let has_units = objects.iter().any(|object| object.unit.is_some());
        let unit = has_units.then(|| (library.id.clone(), library.references.clone()));
        objects.push(DeviceObject { unit, ..DeviceObject::cubin(name, arch, path, library.cubin.clone(), true) });
    }
    if let [only] = &mut objects[..]
        && !only.unlinked
    {
        // A dry run has no products, not even those that need no linker.
        return Ok(if context.is_dry_run() { Vec::new() } else { std::mem::take(&mut only.bytes) });
    }
    let _joining = span::traced("nvlink", || arch.to_string());
    let codegen = context.backends.choose(needs)?;
    codegen.link_all(arch, &objects, kernels.as_deref(), context.libraries.device_runtime_path())
}

/// Links LTO-IR to PTX for the image.
fn link_ptx(target: &PlannedTarget<'_>, arch: GpuArch, context: &LtoContext<'_>) -> Result<Vec<u8>, Errors> {
    let objects = input_objects::all(target, target.plan.arch, Vec::new(), context)?;
    let _linking = span::traced("nvlink", || arch.virtual_name());
    let codegen = context.backends.choose(&target.plan.needs)?;
    let text = codegen.link_ptx(arch, &objects, context.libraries.device_runtime_path())?;
    if context.is_dry_run() {
        return Ok(text);
    }
    match context.link.request.options.ptx_version {
        Some(version) => Ok(ptx::with_version(&text, version).unwrap_or(text)),
        None => {
            let probe = context.temp_files().file(&format!("{arch}.linked.{}.probe.ptx", arch.virtual_name()));
            let own = codegen.ptx_version(arch)?;
            codegen::lower_version(text, arch, own, &|text| codegen.attempt(text, arch, &probe))
        }
    }
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
    let entries = ImageEntries { ptx, ..ImageEntries::default() };
    let context = LtoContext { entries: &entries, ..*context };
    let whole = PlannedTarget::plan_monolithic(target.images, &context)?;
    let compiled = collect((0..whole.plan.partitions.len()).map(|index| partition::compile(&whole, index, &context)))?;
    Ok(compiled.into_iter().flat_map(|partition| partition.ptx).collect())
}
