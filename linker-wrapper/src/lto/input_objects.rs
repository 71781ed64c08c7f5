//! Prepares the code of a target that is not bitcode for the target's link: ptxas assembles PTX, each text as a job of its own; the rest
//! is linked as it is.

use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::DebugInfo;
use offload_bundle::{FormatError, FormatErrorKind};

use crate::codegen::{Codegen, DeviceObject, Form, PtxBackend, PtxSource};
use crate::device::lto_definitions;
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::{Errors, collect};
use crate::lto::context::LtoContext;
use crate::lto::error::Error;
use crate::lto::result_cache::CachedAssembly;
use crate::lto::target::PlannedTarget;
use crate::plan::target_link::TargetLink;
use crate::profile::span;
use crate::sys::cache::Key;
use crate::sys::temp_files;

/// The images of a target that ptxas assembles, by index.
pub fn assemblies(target: &PlannedTarget<'_>) -> Vec<usize> {
    // Machine code for another target is generated from bitcode alone.
    let own = target.plan.sass.contains(&target.plan.arch);
    target.images.of_code(Code::Ptx).filter(|_| own).map(|(place, _)| place).collect()
}

/// Begins to fetch what may be in a remote cache.
pub fn prefetch(targets: &[PlannedTarget<'_>], context: &LtoContext<'_>) {
    if !context.result_cache.is_remote() {
        return;
    }
    let keys = targets.iter().flat_map(|target| {
        assemblies(target).into_iter().filter_map(move |place| {
            let text = text_of(&target.images.images[place]);
            // An error is reported by the job.
            let codegen = context.backends.choose(&target.plan.needs).ok()?;
            Some((text.len() as u64, key(target, text, codegen, context)))
        })
    });
    context.result_cache.prefetch(keys);
}

/// The PTX of an image. The padding that CUDA's containers put behind the text is not part of it.
fn text_of<'a>(image: &DeviceImage<'a>) -> &'a [u8] {
    let text = image.bytes.trim_ascii_end();
    text.strip_suffix(b"\0").unwrap_or(text)
}

/// The key of the cubin of a text. Only results of ptxas are cached.
fn key(target: &PlannedTarget<'_>, text: &[u8], codegen: Codegen<'_>, context: &LtoContext<'_>) -> Option<Key> {
    let TargetLink { needs, arch, .. } = &target.plan;
    let of_text = || context.result_cache.assembly_key(text, *arch, needs.joins, &context.key_inputs());
    codegen.is_toolkit().then(of_text).flatten()
}

/// Assembles the PTX of one image, by its index. The cache may have the result already.
///
/// # Errors
/// ptxas rejects the PTX or cannot be started.
pub fn assemble(target: &PlannedTarget<'_>, place: usize, context: &LtoContext<'_>) -> Result<DeviceObject, Errors> {
    let object = assembled(target, place, context)?;
    // A library has not assembled it yet.
    if !object.unlinked || object.form != Form::Cubin || context.is_dry_run() {
        return Ok(object);
    }
    let Some(bytes) = with_declared_kernels(target, place, &object.bytes)? else { return Ok(object) };
    temp_files::write_file(&object.path, &bytes)?;
    Ok(DeviceObject { bytes, ..object })
}

/// The cubin of an image as ptxas made it, now or in an earlier link.
fn assembled(target: &PlannedTarget<'_>, place: usize, context: &LtoContext<'_>) -> Result<DeviceObject, Errors> {
    let TargetLink { needs, arch, .. } = &target.plan;
    let image = &target.images.images[place];
    let (name, file) = (image.origin.to_string(), image.file_name(*arch, place));
    let text = text_of(image);
    let codegen = context.backends.choose(needs)?;
    let cache = context.result_cache;
    let key = key(target, text, codegen, context);
    if let Some(CachedAssembly { cubin, diagnostics }) = cache.get(key.as_ref()) {
        let path = context.temp_files().write(&format!("{file}.cubin"), &cubin)?;
        return Ok(DeviceObject { diagnostics, ..DeviceObject::cubin(name, *arch, path, cubin, needs.joins) });
    }
    let input = context.temp_files().write(&file, text)?;
    let (debug_info, relocatable) = (DebugInfo::of(text), needs.joins);
    let _assembling = span::traced("ptxas", || input.display().to_string());
    let _permit = context.link.budget.admit(context.estimates.ptxas(text.len() as u64));
    let source = PtxSource { arch: *arch, input, debug_info, relocatable, name };
    let object = codegen.assemble(source)?;
    context.estimates.learn(text.len() as u64, object.peak);
    if key.is_some() && !context.is_dry_run() {
        cache.put(
            key.as_ref(),
            &CachedAssembly { cubin: object.bytes.clone(), diagnostics: object.diagnostics.clone() },
        );
    }
    Ok(object)
}

/// Collects the objects of a target that are not compiled from bitcode, in link order. `assembled` are those of [`assemblies`].
///
/// # Errors
/// A temporary file cannot be written.
pub fn all(
    target: &PlannedTarget<'_>,
    arch: GpuArch,
    assembled: Vec<DeviceObject>,
    context: &LtoContext<'_>,
) -> Result<Vec<DeviceObject>, Errors> {
    // Objects that were compiled for the target cannot be linked with code that is generated for another target.
    let images = target.images.images.iter().enumerate().filter(|_| arch == target.plan.arch);
    let mut assembled = assembled.into_iter();
    collect(images.filter(|(_, image)| image.code != Code::Bitcode).map(|(place, image)| {
        let object = match image.code {
            Code::Ptx => assembled.next().map_or_else(|| assemble(target, place, context), Ok),
            _ => finished(target, image, place, context),
        };
        let references = image.rdc.map(|rdc| (rdc.id.to_owned(), rdc.references.clone()));
        // In case that the linker rejects them.
        let hidden = (image.code == Code::LtoIr).then(|| lto_definitions::host_definitions(image)).transpose()?;
        object.map(|object| DeviceObject { unit: references, host_definitions: hidden.unwrap_or_default(), ..object })
    }))
}

/// A cubin or LTO-IR. A single cubin is used as it is.
fn finished(
    target: &PlannedTarget<'_>,
    image: &DeviceImage<'_>,
    place: usize,
    context: &LtoContext<'_>,
) -> Result<DeviceObject, Errors> {
    let TargetLink { needs, arch, .. } = &target.plan;
    let (name, file) = (image.origin.to_string(), image.file_name(*arch, place));
    let form = if image.code == Code::LtoIr { Form::LtoIr } else { Form::Cubin };
    let unlinked = needs.joins || form == Form::LtoIr;
    if !unlinked {
        let path = context.temp_files().file(&file);
        return Ok(DeviceObject { form, ..DeviceObject::cubin(name, *arch, path, image.bytes.to_vec(), unlinked) });
    }
    let bytes = match form {
        Form::Cubin => with_declared_kernels(target, place, image.bytes)?,
        _ => None,
    };
    let bytes = bytes.unwrap_or_else(|| image.bytes.to_vec());
    let files = context.temp_files();
    let path = if is_linked_bare(target) { files.write(&file, &bytes)? } else { files.file(&file) };
    Ok(DeviceObject { form, ..DeviceObject::cubin(name, *arch, path, bytes, unlinked) })
}

/// The cubin of an image with declarations of kernels as what they are; `None` if nothing has to change.
fn with_declared_kernels(target: &PlannedTarget<'_>, place: usize, cubin: &[u8]) -> Result<Option<Vec<u8>>, Errors> {
    let kernels = target.plan.declared_kernels.get(&place);
    let is_kernel = |name: &str| kernels.is_some_and(|kernels| kernels.contains(name));
    match cubin::with_declared_kernels(cubin, &is_kernel) {
        Ok(changed) => Ok(changed),
        Err(FormatError { kind: FormatErrorKind::Unsupported(what), .. }) => {
            let name = target.images.images[place].origin.to_string();
            Err(Error::DeclaredKernel { name, what: what.into_owned() }.into())
        }
        // The linker reports what is wrong with a damaged cubin.
        Err(_) => Ok(None),
    }
}

/// Whether nvlink reads the cubins as they are; otherwise it gets host objects that carry them, and the cubins need no files.
fn is_linked_bare(target: &PlannedTarget<'_>) -> bool {
    target.images.images.iter().all(|image| image.rdc.is_none() && image.code != Code::LtoIr)
}
