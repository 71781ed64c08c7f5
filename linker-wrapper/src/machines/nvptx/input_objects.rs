//! Prepares the code of a target that is not bitcode for the target's link: ptxas assembles PTX, each text as a job of its own; the rest
//! is linked as it is.

use offload_bundle::arch::GpuArch;
use offload_bundle::cubin;
use offload_bundle::ptx::{self, DebugInfo};
use offload_bundle::{FormatError, FormatErrorKind};

use crate::device::lto_definitions;
use crate::device::targets::{Code, DeviceImage};
use crate::diag::error::{Errors, collect};
use crate::machines::interface::{Generated, Planned};
use crate::machines::nvptx::codegen::{DeviceObject, Form, PtxBackend, PtxSource};
use crate::machines::nvptx::error::Error;
use crate::machines::nvptx::products::{CompiledCode, StoredCode};
use crate::machines::nvptx::target::Nvptx;
use crate::profile::span;
use crate::sys::temp_files;

/// A target whose link is planned.
type Target<'t, 'a> = Planned<'t, Nvptx<'a>>;

/// The images of a target that ptxas assembles, by index.
pub fn assemblies(target: &Target<'_, '_>) -> Vec<usize> {
    // Machine code for another target is generated from bitcode alone.
    let own = target.own.sass.contains(&target.images.arch);
    target.images.of_code(Code::Ptx).filter(|_| own).map(|(place, _)| place).collect()
}

/// The PTX of an image. The padding that CUDA's containers put behind the text is not part of it.
pub fn text_of<'a>(image: &DeviceImage<'a>) -> &'a [u8] {
    let text = image.bytes.trim_ascii_end();
    text.strip_suffix(b"\0").unwrap_or(text)
}

/// Assembles the PTX of one image, by its index, unless the cache has the result.
///
/// # Errors
/// ptxas rejects the PTX or cannot be started.
pub fn assemble<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    place: usize,
    stored: Option<StoredCode>,
) -> Result<Generated<CompiledCode>, Errors> {
    let (arch, joins) = (target.images.arch, target.own.needs.joins);
    let image = &target.images.images[place];
    let (name, file) = (image.origin.to_string(), image.file_name(&arch, place));
    let temp_files = machine.link.temp_files;
    let text = text_of(image);
    let kernels = ptx::outline(text).kernels;
    if let Some((cubin, diagnostics)) = stored.and_then(only_cubin) {
        let path = temp_files.write(&format!("{file}.cubin"), &cubin)?;
        let object = DeviceObject { diagnostics, ..DeviceObject::cubin(name, arch, path, cubin, joins) };
        return Ok(Generated { code: CompiledCode::new(vec![object], Vec::new(), kernels), ..Generated::default() });
    }
    let input = temp_files.write(&file, text)?;
    let debug_info = DebugInfo::of(text);
    let _assembling = span::traced("ptxas", || input.display().to_string());
    let codegen = target.own.codegen(machine.backends)?;
    let object = codegen.assemble(PtxSource { arch, input, debug_info, relocatable: joins, name })?;
    let (tools_peak, learned) = (object.peak, vec![(text.len() as u64, object.peak)]);
    Ok(Generated { code: CompiledCode::new(vec![object], Vec::new(), kernels), tools_peak, learned })
}

fn only_cubin(stored: StoredCode) -> Option<(Vec<u8>, Vec<String>)> {
    let StoredCode { cubins, diagnostics, .. } = stored;
    cubins.into_iter().next().map(|(_, cubin)| (cubin, diagnostics))
}

/// Declares kernels of other images as what they are.
///
/// # Errors
/// The cubin cannot be changed.
pub fn declare<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    place: usize,
    code: CompiledCode,
) -> Result<CompiledCode, Errors> {
    let objects = code.objects.into_iter().map(|object| declared(machine, target, place, object));
    Ok(CompiledCode { objects: collect(objects)?, ..code })
}

fn declared<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    place: usize,
    object: DeviceObject,
) -> Result<DeviceObject, Errors> {
    // A library has not assembled it yet.
    if !object.unlinked || object.form != Form::Cubin || machine.is_dry_run() {
        return Ok(object);
    }
    let Some(bytes) = with_declared_kernels(target, place, &object.bytes)? else { return Ok(object) };
    temp_files::write_file(&object.path, &bytes)?;
    Ok(DeviceObject { bytes, ..object })
}

/// Collects the objects of a target that are not compiled from bitcode, in link order. `assembled` are those of [`assemblies`].
///
/// # Errors
/// A temporary file cannot be written.
pub fn all<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    arch: GpuArch,
    assembled: Vec<DeviceObject>,
) -> Result<Vec<DeviceObject>, Errors> {
    // Objects that were compiled for the target cannot be linked with code that is generated for another target.
    let images = target.images.images.iter().enumerate().filter(|_| arch == target.images.arch);
    let mut assembled = assembled.into_iter();
    collect(images.filter(|(_, image)| image.code != Code::Bitcode).map(|(place, image)| {
        let object = match image.code {
            Code::Ptx => assembled.next().map_or_else(|| assemble_now(machine, target, place), Ok),
            _ => finished(machine, target, image, place),
        };
        let references = image.rdc.map(|rdc| (rdc.id.to_owned(), rdc.references.clone()));
        // In case that the linker rejects them.
        let hidden = (image.code == Code::LtoIr).then(|| lto_definitions::host_definitions(image)).transpose()?;
        object.map(|object| DeviceObject { unit: references, host_definitions: hidden.unwrap_or_default(), ..object })
    }))
}

/// Assembles the PTX of an image that has no job of its own, since the target's machine code is not in the image.
fn assemble_now<'a>(machine: &Nvptx<'a>, target: &Target<'_, 'a>, place: usize) -> Result<DeviceObject, Errors> {
    let code = assemble(machine, target, place, None)?.code;
    let object = declare(machine, target, place, code)?.objects.into_iter().next();
    let name = || target.images.images[place].origin.to_string();
    object.ok_or_else(|| Error::NothingAssembled { name: name() }.into())
}

/// A cubin or LTO-IR. A single cubin is used as it is.
fn finished<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    image: &DeviceImage<'_>,
    place: usize,
) -> Result<DeviceObject, Errors> {
    let (needs, arch, files) = (&target.own.needs, target.images.arch, machine.link.temp_files);
    let (name, file) = (image.origin.to_string(), image.file_name(&arch, place));
    let form = if image.code == Code::LtoIr { Form::LtoIr } else { Form::Cubin };
    let unlinked = needs.joins || form == Form::LtoIr;
    if !unlinked {
        let path = files.file(&file);
        return Ok(DeviceObject { form, ..DeviceObject::cubin(name, arch, path, image.bytes.to_vec(), unlinked) });
    }
    let bytes = match form {
        Form::Cubin => with_declared_kernels(target, place, image.bytes)?,
        _ => None,
    };
    let bytes = bytes.unwrap_or_else(|| image.bytes.to_vec());
    let path = if is_linked_bare(target) { files.write(&file, &bytes)? } else { files.file(&file) };
    Ok(DeviceObject { form, ..DeviceObject::cubin(name, arch, path, bytes, unlinked) })
}

/// The cubin of an image with declarations of kernels as what they are; `None` if nothing has to change.
fn with_declared_kernels(target: &Target<'_, '_>, place: usize, cubin: &[u8]) -> Result<Option<Vec<u8>>, Errors> {
    let kernels = target.own.declared_kernels.get(&place);
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
fn is_linked_bare(target: &Target<'_, '_>) -> bool {
    target.images.images.iter().all(|image| image.rdc.is_none() && image.code != Code::LtoIr)
}
