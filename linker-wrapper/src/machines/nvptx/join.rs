//! The last step of a target's device link: joins its compiled partitions into one finished cubin and one PTX module.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use offload_bundle::arch::GpuArch;
use offload_bundle::{FormatError, cubin, ptx};

use crate::diag::error::{Errors, collect};
use crate::machines::interface::{Again, Compiled, Joined, Planned};
use crate::machines::nvptx::codegen::{self, DeviceObject, Form, HostReferences, Linked, PtxBackend};
use crate::machines::nvptx::error::Error;
use crate::machines::nvptx::image_policy::{Entry, ImageEntries};
use crate::machines::nvptx::input_objects;
use crate::machines::nvptx::products::{CompiledCode, LinkedCode};
use crate::machines::nvptx::soundness;
use crate::machines::nvptx::target::Nvptx;
use crate::profile::span;

/// NVIDIA's device runtime among the objects of a link.
const DEVICE_LIBRARY: &str = "libcudadevrt";

/// A target whose link is planned.
type Target<'t, 'a> = Planned<'t, Nvptx<'a>>;

/// Joins the compiled partitions of a target, and the objects that were assembled from the PTX among its images.
///
/// # Errors
/// Errors of the backend's linker.
pub fn join<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    parts: Vec<Compiled<CompiledCode>>,
    assembled: Vec<CompiledCode>,
    again: Again<'_, Nvptx<'a>>,
) -> Result<Joined<LinkedCode>, Errors> {
    let mut objects: BTreeMap<GpuArch, Vec<DeviceObject>> = BTreeMap::new();
    let mut texts: BTreeMap<GpuArch, Vec<Vec<u8>>> = BTreeMap::new();
    let (mut linked, mut joined) = (LinkedCode::default(), Joined::default());
    let mut kernels: BTreeSet<String> = BTreeSet::new();
    for Compiled { code, messages } in parts {
        kernels.extend(code.kernels);
        code.objects.into_iter().for_each(|object| objects.entry(object.arch).or_default().push(object));
        code.ptx.into_iter().for_each(|(arch, text)| texts.entry(arch).or_default().push(text));
        joined.messages.push(messages);
        joined.diagnostics.extend(code.diagnostics);
    }
    linked.calls_device_runtime = target.own.device_library.is_some();
    joined.diagnostics.extend(assembled.iter().flat_map(|code| code.diagnostics.clone()));
    let mut assembled: Vec<DeviceObject> = assembled.into_iter().flat_map(|code| code.objects).collect();
    // The user may name the kernels that ptxas assembles.
    let keeps_all = codegen::keeps_kernels(&machine.options().ptxas_arguments);
    let assembled_kernels = if keeps_all { kernels.clone() } else { BTreeSet::new() };
    let all = target.own.sass.iter().map(|arch| {
        let compiled = objects.remove(arch).unwrap_or_default();
        let assembled = if *arch == target.images.arch { std::mem::take(&mut assembled) } else { Vec::new() };
        join_objects(machine, target, *arch, Objects { compiled, kernels: &assembled_kernels, assembled })
    });
    for (arch, joint) in target.own.sass.iter().zip(collect(all)?) {
        joined.diagnostics.extend(joint.diagnostics);
        linked.sass.push((*arch, joint.cubin));
        linked.sass_kernels.push(joint.kernels);
        linked.given.extend(joint.is_given.then_some(*arch));
    }
    let mut not_joined = Vec::new();
    for (arch, texts) in texts {
        match join_ptx(texts) {
            Some(text) => linked.ptx.push((arch, text)),
            None => not_joined.push(arch),
        }
    }
    joined.is_joined = !target.plan.is_whole() && not_joined.is_empty();
    if !not_joined.is_empty() {
        linked.ptx.extend(ptx_of_whole(machine, target, &not_joined, again)?);
    }
    // Compiled in one piece, the program has no dead kernels.
    linked.ptx_kernels = kernels.into_iter().filter(|kernel| !target.plan.dead.contains(kernel)).collect();
    if target.plan.partitions.is_empty() {
        let texts = collect(target.own.ptx.iter().map(|arch| link_ptx(machine, target, *arch)))?;
        for (arch, text) in target.own.ptx.iter().zip(texts) {
            joined.diagnostics.extend(text.diagnostics);
            linked.ptx.push((*arch, text.bytes));
        }
    }
    if target.plan.folding.emits_aliases {
        add_copies(machine, target, &mut linked)?;
    }
    for (arch, text) in &linked.ptx {
        machine.link.temp_files.keep(&format!("{}.ptx", arch.virtual_name()), || text.clone())?;
    }
    Ok(Joined { linked, ..joined })
}

/// Adds the kernels that were not compiled because another one is equal.
fn add_copies<'a>(machine: &Nvptx<'a>, target: &Target<'_, 'a>, linked: &mut LinkedCode) -> Result<(), Errors> {
    let copies = target.plan.folding.copies();
    if copies.is_empty() {
        return Ok(());
    }
    let _copying = span::traced("Copy kernels", || target.images.arch.to_string());
    let add = |code: &mut Vec<(GpuArch, Vec<u8>)>, form: &'static str, copied: &CopyKernels| {
        collect(code.iter_mut().map(|(arch, bytes)| {
            *bytes = copied(bytes, &copies).map_err(|source| Error::Copies { form, arch: *arch, source })?;
            Ok(())
        }))
        .map(|_: Vec<()>| ())
    };
    if !machine.is_dry_run() {
        add(&mut linked.sass, "machine code", &cubin::with_kernel_copies)?;
    }
    add(&mut linked.ptx, "PTX", &ptx::with_kernel_copies)
}

/// Adds kernels with the code of others to code: for each that is named there, those of the names in the list.
type CopyKernels = dyn Fn(&[u8], &BTreeMap<String, Vec<String>>) -> Result<Vec<u8>, FormatError>;

/// What the cubin of a target is linked of, besides the cubins and LTO-IR among the images.
struct Objects<'k> {
    /// Code of the bitcode.
    compiled: Vec<DeviceObject>,
    /// The kernels in it.
    kernels: &'k BTreeSet<String>,
    /// Code of the PTX among the images.
    assembled: Vec<DeviceObject>,
}

/// The cubin of a target.
struct Joint {
    cubin: Vec<u8>,
    /// Warnings of the linker.
    diagnostics: Vec<String>,
    /// The kernels that it has to have.
    kernels: Vec<String>,
    /// Whether it is an image as it is.
    is_given: bool,
}

/// Links the cubin of the target, or of another target that is generated from its code. A linker runs only if there are several
/// objects, or one that is not finished.
fn join_objects<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    arch: GpuArch,
    code: Objects<'_>,
) -> Result<Joint, Errors> {
    let Objects { compiled, kernels: own_kernels, assembled } = code;
    let (own, device_library) = (target.images.arch, &target.own.device_library);
    let mut objects = input_objects::all(machine, target, arch, assembled)?;
    // Other code may launch kernels in ways that its symbols do not show.
    let is_alone = objects.is_empty() && device_library.is_none();
    let only = target.plan.only_kernels().filter(|_| is_alone);
    let is_given = !objects.is_empty();
    objects.extend(compiled);
    // With LTO-IR, whose references are not known, the linker takes what it needs of the archive.
    let has_lto_ir = objects.iter().any(|object| object.form == Form::LtoIr);
    if let Some(library) = device_library.as_ref().filter(|_| !has_lto_ir) {
        let path = machine.link.temp_files.write(&format!("{own}.library.cubin"), &library.cubin)?;
        let name = DEVICE_LIBRARY.to_owned();
        // Beside units of nvcc it is one. Without its references, nvlink drops functions that only kernels launched by kernels call.
        let has_units = objects.iter().any(|object| object.unit.is_some());
        let unit = has_units.then(|| (library.id.clone(), library.references.clone()));
        objects.push(DeviceObject { unit, ..DeviceObject::cubin(name, arch, path, library.cubin.clone(), true) });
    }
    if let [only] = &mut objects[..]
        && !only.unlinked
    {
        // A dry run has no products, not even those that need no linker.
        let cubin = if machine.is_dry_run() { Vec::new() } else { std::mem::take(&mut only.bytes) };
        let kernels = own_kernels.iter().filter(|_| !is_given).cloned().collect();
        return Ok(Joint { cubin, diagnostics: Vec::new(), kernels, is_given });
    }
    let kernels = if machine.is_dry_run() {
        Vec::new()
    } else {
        kernels_that_stay(machine, &objects, own_kernels, only.as_deref())
    };
    let _joining = span::traced("Link device code", || arch.to_string());
    let codegen = target.own.codegen(machine.backends)?;
    let linked = codegen.link_all(arch, &objects, only.as_deref(), machine.libraries.device_runtime_path())?;
    Ok(Joint { cubin: linked.bytes, diagnostics: linked.diagnostics, kernels, is_given: false })
}

/// The kernels that no linker of these objects may leave out. `own` are those of bitcode, `only` the ones that the image needs.
fn kernels_that_stay(
    machine: &Nvptx<'_>,
    objects: &[DeviceObject],
    own: &BTreeSet<String>,
    only: Option<&[&str]>,
) -> Vec<String> {
    // Nobody else knows the kernels of LTO-IR, and what arguments of the user make of those.
    if !machine.options().nvlink_arguments.is_empty() || objects.iter().any(|object| object.form == Form::LtoIr) {
        return Vec::new();
    }
    let mut kernels = own.clone();
    let cubins = objects.iter().filter(|object| object.form == Form::Cubin && object.name != DEVICE_LIBRARY);
    kernels.extend(cubins.flat_map(|object| soundness::kernels_of_cubin(&object.bytes)));
    if let Some(only) = only {
        let only: HashSet<&str> = only.iter().copied().collect();
        kernels.retain(|kernel| only.contains(kernel.as_str()));
    }
    let references = HostReferences::of_all(objects);
    if let Some(referenced) = references.as_ref().and_then(HostReferences::kernels) {
        kernels.retain(|kernel| referenced.have(kernel));
    }
    kernels.into_iter().collect()
}

/// Links LTO-IR to PTX for the image.
fn link_ptx<'a>(machine: &Nvptx<'a>, target: &Target<'_, 'a>, arch: GpuArch) -> Result<Linked, Errors> {
    let objects = input_objects::all(machine, target, target.images.arch, Vec::new())?;
    let _linking = span::traced("nvlink", || arch.virtual_name());
    let codegen = target.own.codegen(machine.backends)?;
    let Linked { bytes: text, diagnostics } =
        codegen.link_ptx(arch, &objects, machine.libraries.device_runtime_path())?;
    let bytes = match machine.link.request.options.ptx_version {
        _ if machine.is_dry_run() => text,
        Some(version) => ptx::with_version(&text, version).unwrap_or(text),
        None => {
            let probe = machine.link.temp_files.file(&format!("{arch}.linked.{}.probe.ptx", arch.virtual_name()));
            let own = codegen.ptx_version(arch)?;
            codegen::lower_version(text, arch, own, &|text| codegen.attempt(text, arch, &probe))?
        }
    };
    Ok(Linked { bytes, diagnostics })
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
fn ptx_of_whole<'a>(
    machine: &Nvptx<'a>,
    target: &Target<'_, 'a>,
    archs: &[GpuArch],
    again: Again<'_, Nvptx<'a>>,
) -> Result<Vec<(GpuArch, Vec<u8>)>, Errors> {
    let from = target.images.arch;
    let ptx = archs.iter().map(|arch| Entry { arch: *arch, from }).collect();
    let entries = ImageEntries { ptx, ..ImageEntries::default() };
    let compiled = again(&Nvptx { entries, ..machine.clone() })?;
    Ok(compiled.into_iter().flat_map(|part| part.code.ptx).collect())
}
