//! Finds faults that show in several fatbins together: in the parts of a device link, and in host code without device code.

use std::io;

use super::check::{
    CheckOptions, check, check_entries, concatenated, forward_compatibility, lowered, named, not_loaded, one, range,
    sort,
};
use super::code::{Code, Content, Word};
use super::containers::{FoundContainer, Role, in_members};
use super::driver::Runtime;
use super::equal::{self, Droppable};
use super::findings::{Finding, FindingCode, Severity};
use super::relink::{is_runtime, link, objects, outcome_in};
use super::select::{choose, chosen, judge};
use crate::FormatError;
use crate::arch::{ArchFeature, GpuArch, TargetTable};
use crate::audit;
use crate::error::FileError;
use crate::host_object::{self, CLANG_ID_PREFIX, ModuleId};

/// Checks one of the fatbins of a file; returns the worst findings first.
pub(super) fn check_in(
    found: &FoundContainer,
    all: &[FoundContainer],
    droppable: &[Droppable],
    options: &CheckOptions,
) -> Vec<Finding> {
    let numbers = match &found.role {
        Role::Whole => {
            let mut findings = check(&found.codes, options);
            findings.extend(equal::findings(found, droppable));
            sort(&mut findings);
            return findings;
        }
        Role::Object(_) | Role::Data => {
            let mut findings = check_entries(&found.codes, options);
            sort(&mut findings);
            return findings;
        }
        Role::Linked(numbers) => numbers,
    };
    let parts = objects(all, numbers);
    let mut findings = check_entries(&found.codes, options);
    findings.extend(found.codes.iter().filter_map(not_loaded));
    findings.extend(concatenated(&found.codes, options.driver));
    findings.extend(found.codes.iter().filter_map(|code| lowered_by(code, &parts)));
    findings.extend(lost_kernels(found, &parts));
    findings.extend(hidden_link(found, &parts, options));
    findings.extend(without_ptx(found, &parts, options.targets));
    findings.extend(runs_nowhere(found, all, options));
    findings.extend(equal::findings(found, droppable));
    sort(&mut findings);
    findings
}

/// The code of a device link, if that recorded a lower virtual architecture than one of the parts has.
fn lowered_by(code: &Code, parts: &[&FoundContainer]) -> Option<Finding> {
    let note = lowered(code)?;
    let Content::Sass { arch, virtual_arch: Some(number), .. } = &code.content else { return None };
    let virtual_archs: Vec<(&FoundContainer, u32)> =
        parts.iter().filter_map(|part| Some((*part, virtual_arch(choose(&part.codes, *arch)?)?))).collect();
    if virtual_archs.is_empty() {
        return Some(note);
    }
    let (part, highest) =
        virtual_archs.into_iter().max_by_key(|(_, number)| *number).filter(|(_, high)| high > number)?;
    let what = format!(
        "the device link lowered its virtual architecture: cudaFuncAttributes::ptxVersion is {number}, and {} was compiled for compute_{highest}",
        title(part)
    );
    Some(one(FindingCode::LoweredArch, Severity::Warning, code, &what))
}

fn virtual_arch(code: &Code) -> Option<u32> {
    match &code.content {
        Content::Sass { virtual_arch, .. } => *virtual_arch,
        Content::Ptx { target, .. } => target.map(|target| target.number),
        _ => None,
    }
}

/// `fatbin 3 (object b_cu)`.
fn title(part: &FoundContainer) -> String {
    match &part.role {
        Role::Object(Some(module)) => format!("fatbin {} (object {module})", part.place.container),
        _ => format!("fatbin {}", part.place.container),
    }
}

/// Linked code without any kernel, of objects with some: nvcc's device link takes sm_75 if its line names no GPU, and leaves out what the objects
/// have for others, with a warning.
fn lost_kernels(found: &FoundContainer, parts: &[&FoundContainer]) -> Vec<Finding> {
    let has_kernels = |part: &&FoundContainer| part.symbols.iter().any(|symbols| !symbols.kernels.is_empty());
    if !parts.iter().any(has_kernels) {
        return Vec::new();
    }
    let linked =
        found.codes.iter().zip(&found.symbols).filter(|(code, _)| matches!(code.content, Content::Sass { .. }));
    let without = linked.filter(|(_, symbols)| symbols.kernels.is_empty());
    let finding = |(code, _): (&Code, _)| {
        let what = "it has no kernels, and the objects that it was linked of have some";
        one(FindingCode::LinkWithoutKernels, Severity::Warning, code, what)
    };
    without.map(finding).collect()
}

/// Linked code that fails where the objects, linked again, would run.
fn hidden_link(found: &FoundContainer, parts: &[&FoundContainer], options: &CheckOptions) -> Option<Finding> {
    let runtime = Runtime::from(options.driver);
    let is_hiding = |gpu: &GpuArch| {
        let fails = |code: &Code| !judge(code, *gpu, runtime).0.may_run();
        chosen(&found.codes, *gpu, runtime).is_some_and(fails) && link(parts, *gpu, runtime).verdict.runs()
    };
    let hiding: Vec<GpuArch> = options.targets.all_gpus().filter(is_hiding).collect();
    let taken = chosen(&found.codes, *hiding.first()?, runtime)?;
    let message =
        format!("{} is taken and fails; it hides the objects, which the driver would link again", named(taken));
    Some(Finding::new(FindingCode::HidesGoodEntry, Severity::Error, vec![taken.number], message).on(&hiding))
}

/// Objects that have nothing for GPUs for which the driver links the others again.
fn without_ptx(found: &FoundContainer, parts: &[&FoundContainer], targets: TargetTable<'_>) -> Option<Finding> {
    let runtime = Runtime::default();
    let mut lacking: Vec<&FoundContainer> = Vec::new();
    let mut gpus = Vec::new();
    for gpu in targets.all_gpus().filter(|gpu| chosen(&found.codes, *gpu, runtime).is_none()) {
        let linked = link(parts, gpu, runtime);
        // The device runtime has code for more GPUs than a program: where it alone has some, nothing was meant to run.
        if linked.parts.iter().all(|part| is_runtime(parts, part)) || linked.missing.is_empty() {
            continue;
        }
        gpus.push(gpu);
        for part in parts.iter().filter(|part| linked.missing.contains(&part.place.container)) {
            if !lacking.iter().any(|known| known.place.container == part.place.container) {
                lacking.push(part);
            }
        }
    }
    let Some(first) = lacking.first() else { return no_forward_ptx(found, parts) };
    let others = match lacking.len() {
        1 => String::new(),
        count => format!(" and {} more objects", count - 1),
    };
    let message =
        format!("the driver links the objects again, and {}{others} has nothing for it to link", title(first));
    Some(Finding::new(FindingCode::PartsWithoutPtx, Severity::Warning, Vec::new(), message).on(&gpus))
}

/// As for a fatbin that is not linked, but the PTX is that of the objects.
fn no_forward_ptx(found: &FoundContainer, parts: &[&FoundContainer]) -> Option<Finding> {
    let is_forward = |code: &Code| code.word() == Word::Ptx && code.arch.feature == ArchFeature::Plain;
    let has_forward = |part: &&&FoundContainer| part.codes.iter().any(is_forward);
    let with_code = || parts.iter().filter(|part| !part.codes.is_empty());
    if with_code().next().is_some() && with_code().all(|part| has_forward(&part)) {
        return None;
    }
    forward_compatibility(&found.codes)
}

fn runs_nowhere(found: &FoundContainer, all: &[FoundContainer], options: &CheckOptions) -> Option<Finding> {
    let runs = |gpu| outcome_in(found, all, gpu, options.driver.into()).verdict.may_run();
    let own = found.codes.iter().map(|code| GpuArch::plain(code.arch.number));
    if options.targets.all_gpus().any(runs) || own.filter(|gpu| !options.targets.knows(*gpu)).any(runs) {
        return None;
    }
    let gpus = range(options.targets);
    let message = format!("no GPU {gpus} runs anything of it, or of the objects that it was linked of");
    Some(Finding::new(FindingCode::RunsNowhere, Severity::Error, Vec::new(), message))
}

/// Whether a file is a program or library whose offload entries [`check_host_code`] compares with its images.
pub fn registers_device_code(data: &[u8]) -> bool {
    use host_object::FileKind::{ElfExecutable, ElfShared};
    matches!(host_object::file_kind(data), ElfExecutable | ElfShared) && host_object::offload_entry_count(data) > 0
}

/// Host code that offers kernels and variables to device code, in a program or library that registers no image for them: what comes of
/// a link that left the device code out.
pub fn forgotten_link(data: &[u8]) -> Option<Finding> {
    use host_object::FileKind::{ElfExecutable, ElfShared};
    if !matches!(host_object::file_kind(data), ElfExecutable | ElfShared) {
        return None;
    }
    let count = host_object::offload_entry_count(data);
    let former = host_object::former_entries(data);
    if (count == 0 && former.is_none()) || registers_images(data) {
        return None;
    }
    if let Some(former) = former {
        let message = format!(
            "the host code of {} has kernels or variables of the device ({}), and no device image: the device code was never linked",
            former.compiler, former.section
        );
        return Some(Finding::new(FindingCode::ForgottenLink, Severity::Error, Vec::new(), message));
    }
    let names = host_object::offload_entries(data).unwrap_or_default();
    let example = names.first().map(|entry| format!(", {} among them", entry.name)).unwrap_or_default();
    let plural = if count == 1 { "kernel or variable" } else { "kernels and variables" };
    let message = format!(
        "the host code has {count} {plural} of the device (llvm_offload_entries{example}), and no device image: the device code was never linked"
    );
    Some(Finding::new(FindingCode::ForgottenLink, Severity::Error, Vec::new(), message))
}

/// What is wrong with the host code of a file: device code that was never linked, kernels that are registered without code, and objects whose
/// offload entries today's linkers do not register. `read_thin` reads the file of a thin archive's member, given the path that the archive
/// records.
///
/// # Errors
/// A damaged archive or offload entry, or a thin member that cannot be read.
pub fn check_host_code(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<Vec<Finding>, FileError> {
    let registered = registration(data)?;
    let is_lost = registered.iter().any(|finding| finding.code == FindingCode::LostContainer);
    let linked = match forgotten_link(data).filter(|_| !is_lost) {
        Some(forgotten) => vec![forgotten],
        None => registered,
    };
    Ok(linked.into_iter().chain(former_entries(data, read_thin)?).collect())
}

/// What is wrong with what a program or library registers.
fn registration(data: &[u8]) -> Result<Vec<Finding>, FormatError> {
    use host_object::FileKind::{ElfExecutable, ElfShared};
    if !matches!(host_object::file_kind(data), ElfExecutable | ElfShared) {
        return Ok(Vec::new());
    }
    let audit = audit::audit(data)?;
    let error = |code, message| Finding::new(code, Severity::Error, Vec::new(), message);
    let lost = audit.lost_containers.iter().map(|lost| error(FindingCode::LostContainer, lost.to_string()));
    let missing = audit.missing.iter().map(|missing| {
        let message =
            format!("{} is registered, and no image has it", audit::describe(&missing.name, missing.is_kernel));
        error(FindingCode::MissingSymbol, message)
    });
    let partial = audit.partial.iter().map(|partial| {
        let (with, without) = (partial.with.join(", "), partial.without.join(", "));
        let name = audit::describe(&partial.name, partial.is_kernel);
        let message = format!("{name} is registered, and the images for {without} lack it; those for {with} have it");
        Finding::new(FindingCode::PartialSymbol, Severity::Warning, Vec::new(), message)
    });
    let same = audit.same_address.iter().map(|(first, second)| {
        let names = [first, second].map(|name| audit::describe(name, true));
        let message = format!("{} and {} are registered under one address", names[0], names[1]);
        error(FindingCode::SameAddress, message)
    });
    let uncovered = audit.uncovered.iter().map(|call| error(FindingCode::UncoveredCall, call.to_string()));
    Ok(lost.chain(missing).chain(partial).chain(same).chain(uncovered).collect())
}

/// Objects whose offload entries of clang 15 to 20 only the libomptarget of that time reads, those of OpenMP: the file itself, or members of an archive.
fn former_entries(
    data: &[u8],
    read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
) -> Result<Option<Finding>, FileError> {
    use host_object::FileKind::{Archive, ElfRelocatable, ThinArchive};
    let of_object = |data: &[u8]| {
        let found = host_object::former_entries(data).filter(|found| found.section == "omp_offloading_entries");
        let found = found.filter(|_| host_object::file_kind(data) == ElfRelocatable);
        Ok(Vec::from_iter(found.map(|entries| (None, entries))))
    };
    let found = match host_object::file_kind(data) {
        Archive | ThinArchive => {
            in_members(data, read_thin, of_object, |(_, entries), member, _| (Some(member.name.clone()), entries))?
        }
        _ => of_object(data)?,
    };
    let [(member, entries), others @ ..] = &found[..] else { return Ok(None) };
    let object = member.as_ref().map_or_else(|| "the object".to_owned(), |member| format!("the member {member}"));
    let more = match others.len() {
        0 => String::new(),
        1 => "; 1 more member has such tables".to_owned(),
        count => format!("; {count} more members have such tables"),
    };
    let message = format!(
        "{object} is of {}, whose tables of kernels and variables ({}) only links with the libomptarget of that clang register{more}",
        entries.compiler, entries.section
    );
    Ok(Some(Finding::new(FindingCode::FormerEntries, Severity::Warning, Vec::new(), message)))
}

/// Whether a device link other than nvcc's has added images. nvcc's own have an id each for those that are not linked; a link of units of
/// both compilers registers an id for clang's.
fn registers_images(data: &[u8]) -> bool {
    let carriers = host_object::carriers(data).unwrap_or_default();
    let is_of_fatbins = |carrier: &host_object::Carrier<'_>| {
        use host_object::CarrierKind::{Fatbins, RelocatableFatbins};
        matches!(carrier.kind, Fatbins | RelocatableFatbins)
    };
    let ids = host_object::module_ids(data);
    let whole = ids.iter().filter(|id| **id == ModuleId::Whole).count();
    let with_units = |id: &ModuleId<'_>| matches!(id, ModuleId::Registered(id) if id.starts_with(CLANG_ID_PREFIX));
    let registered = host_object::wrappers(data).iter().filter(|wrapper| !wrapper.linked).count();
    let objects = ids.iter().filter(|id| matches!(id, ModuleId::Object(_))).count();
    registered > whole + objects || ids.iter().any(with_units) || carriers.iter().any(|carrier| !is_of_fatbins(carrier))
}
