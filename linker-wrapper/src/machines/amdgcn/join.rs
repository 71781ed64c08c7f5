//! The last step of a link for AMD's GPUs: ld.lld links the compiled objects with those among the images.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::amdgpu::{AmdTarget, TRAP_WARNING};
use llvm_passes::session::Message;
use offload_bundle::FormatError;
use offload_bundle::amdgpu::{Metadata, PartObject, PointerCalls, metadata_object};

use crate::device::symbol_errors::named;
use crate::device::targets::Code;
use crate::diag::error::{Errors, collect};
use crate::diag::messages;
use crate::machines::amdgcn::calls;
use crate::machines::amdgcn::error::Error;
use crate::machines::amdgcn::images;
use crate::machines::amdgcn::soundness;
use crate::machines::amdgcn::target::{AmdArch, AmdImages, AmdObject, Amdgcn, CodeObject};
use crate::machines::interface::{Again, Compiled, Joined, Machine, Planned};
use crate::machines::llvm_programs;
use crate::profile::span;
use crate::toolchain::llvm_tools;

/// Makes the code object. A program whose partitions do not fit together is compiled in one piece.
///
/// # Errors
/// Those that LLVM and ld.lld report.
pub fn join<'a>(
    machine: &Amdgcn<'a>,
    target: &Planned<'_, Amdgcn<'a>>,
    parts: Vec<Compiled<AmdObject>>,
    again: Again<'_, Amdgcn<'a>>,
) -> Result<Joined<CodeObject>, Errors> {
    if machine.link.request.options.diagnosing && target.plan.is_whole() {
        return Ok(Joined::default());
    }
    let is_whole = target.plan.is_whole();
    let (objects, messages, is_joined) = match fitted(is_whole, parts) {
        Ok((objects, messages)) => (objects, messages, !is_whole),
        Err(reason) => {
            if machine.link.request.mode.show {
                messages::show(format_args!(" # {}: not cut into jobs: {reason}", target.images.arch));
            }
            let (objects, messages) = whole(again(machine)?);
            (objects, messages, false)
        }
    };
    let kernels = kernels_that_stay(target.images, &objects);
    let bytes = link(machine, target.images, &objects)?;
    Ok(Joined { linked: CodeObject { bytes, kernels }, messages, diagnostics: Vec::new(), is_joined })
}

/// The kernels that ld.lld may not leave out: none if the user's arguments decide.
fn kernels_that_stay(target: &AmdImages<'_>, objects: &[Vec<u8>]) -> Vec<String> {
    if !target.arch.options.linker_arguments.is_empty() {
        return Vec::new();
    }
    let own = images::objects(target).map(|image| image.bytes);
    soundness::kernels_of(objects.iter().map(Vec::as_slice).chain(own))
}

/// The objects that ld.lld links, with LLVM's messages.
type Objects = (Vec<Vec<u8>>, Vec<Vec<Message>>);

fn plain(parts: Vec<Compiled<AmdObject>>) -> Objects {
    let (objects, messages): (Vec<_>, Vec<_>) = parts.into_iter().map(|part| (part.code.object, part.messages)).unzip();
    (objects.into_iter().flatten().collect(), messages)
}

/// Makes the objects of partitions fit together.
///
/// # Errors
/// Why they cannot be linked.
fn fitted(is_whole: bool, parts: Vec<Compiled<AmdObject>>) -> Result<Objects, String> {
    let calls: Vec<&str> = parts.iter().flat_map(|part| &part.code.calls).map(String::as_str).collect();
    if !calls.is_empty() {
        return Err(format!("a partition calls {} of another one", calls.join(", ")));
    }
    if is_whole {
        return Ok(whole(parts));
    }
    let calls = pointer_calls(&parts);
    let (objects, messages) = plain(parts);
    let fitted = fit_together(objects, &calls).map_err(|error| error.to_string())?;
    Ok((fitted.objects, messages))
}

/// The object of a program in one piece. What cannot be settled has the registers that LLVM gave it, which are enough.
fn whole(parts: Vec<Compiled<AmdObject>>) -> Objects {
    let calls = pointer_calls(&parts);
    let (objects, messages) = plain(parts);
    if !calls.has_callers() {
        return (objects, messages);
    }
    let settled = fit_together(objects.clone(), &calls).ok().filter(|fitted| fitted.changes);
    (settled.map_or(objects, |fitted| fitted.objects), messages)
}

fn pointer_calls(parts: &[Compiled<AmdObject>]) -> PointerCalls {
    parts.iter().map(|part| part.code.pointer_calls.clone()).fold(PointerCalls::default(), PointerCalls::joined)
}

/// Objects of one program, and one with the metadata of all.
struct Fitted {
    objects: Vec<Vec<u8>>,
    /// Whether kernels have other registers now.
    changes: bool,
}

/// Makes objects of one program fit together: kernels that call through pointers get the registers of all functions that may be called so, and
/// the metadata of all objects becomes that of one.
///
/// # Errors
/// Objects that cannot be joined soundly.
fn fit_together(objects: Vec<Vec<u8>>, calls: &PointerCalls) -> Result<Fitted, FormatError> {
    let mut parts = objects.into_iter().map(PartObject::new).collect::<Result<Vec<_>, _>>()?;
    let mut changes = false;
    for part in &mut parts {
        changes |= part.settle(calls);
    }
    let split = parts.into_iter().map(PartObject::split).collect::<Result<Vec<_>, _>>()?;
    let (mut objects, metadata): (Vec<Vec<u8>>, Vec<Metadata>) = split.into_iter().unzip();
    let joined = Metadata::join(metadata).ok_or_else(PartObject::different)?;
    let object = metadata_object(&joined, objects.first().map_or(&[], Vec::as_slice))?;
    objects.push(object);
    Ok(Fitted { objects, changes })
}

/// Links the compiled objects with those among the images.
fn link(machine: &Amdgcn<'_>, target: &AmdImages<'_>, objects: &[Vec<u8>]) -> Result<Vec<u8>, Errors> {
    let (arch, context) = (&target.arch, machine.link);
    let _joining = span::traced("ld.lld", || arch.name.clone());
    let lld = llvm_tools::lld(&context.request.options.parts)?.path;
    let stem = arch.stem();
    images::require_version(target, objects)?;
    if !context.request.mode.dry {
        calls::reject_across(target, objects)?;
    }
    let own = target.of_code(Code::Object);
    let own = own.map(|(place, image)| context.temp_files.write(&image.file_name(&stem, place), image.bytes));
    let mut inputs: Vec<PathBuf> = collect(own)?;
    for (number, object) in objects.iter().enumerate() {
        let number = if objects.len() > 1 { format!(".{number}") } else { String::new() };
        inputs.push(context.temp_files.write(&format!("{stem}.lto{number}.o"), object)?);
    }
    let output = context.temp_files.file(&format!("{stem}.img"));
    let arguments = linker_arguments(arch, &machine.llvm_options());
    let (mode, compiles) = (context.request.mode, arch.options.named_input.is_some());
    let (bytes, messages) =
        llvm_programs::link_code_object(&lld, &arch.name, &inputs, &arguments, compiles, &output, mode)?;
    if let Some(functions) = trapping(&messages) {
        return Err(Error::LocalMemoryInLinker { program: lld, functions, target: arch.name.clone() }.into());
    }
    if !messages.is_empty() {
        messages::show(messages);
    }
    Ok(bytes)
}

/// The functions in which ld.lld has compiled uses of local memory to traps, by its warnings; `None` if there are none.
fn trapping(messages: &str) -> Option<String> {
    let mut warnings = messages.lines().filter(|line| line.contains(TRAP_WARNING));
    let function =
        |line: &str| line.split_once("in function ").and_then(|(_, rest)| rest.split_whitespace().next()).map(named);
    let first = function(warnings.next()?).unwrap_or_else(|| "a function".to_owned());
    let others: BTreeSet<String> = warnings.filter_map(function).filter(|other| *other != first).collect();
    Some(if others.is_empty() { first } else { format!("{first} and {} more", others.len()) })
}

/// The arguments of ld.lld. Linker scripts may name bitcode, which ld.lld compiles for this target, too.
fn linker_arguments(arch: &AmdArch, llvm_options: &[String]) -> Vec<String> {
    let AmdTarget { processor, features, level, generation, passes, prints_passes } = &arch.target;
    let mut arguments = Vec::new();
    if arch.options.named_input.is_some() {
        arguments.push(format!("-plugin-opt=mcpu={processor}"));
        if !features.is_empty() {
            arguments.push(format!("-plugin-opt=-mattr={features}"));
        }
        arguments.extend([format!("--lto-O{}", level.number()), format!("--lto-CGO{}", generation.number())]);
        arguments.extend(passes.iter().map(|passes| format!("--lto-newpm-passes={passes}")));
        arguments.extend(prints_passes.then(|| "--lto-debug-pass-manager".to_owned()));
        // Remarks are recorded in one file, which is that of the code compiled here.
        let others = llvm_options.iter().filter(|option| !option.trim_start_matches('-').starts_with("pass-remarks-"));
        arguments.extend(others.map(|option| format!("-mllvm={option}")));
    }
    arguments.extend(arch.options.linker_arguments.iter().cloned());
    arguments
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn trapping_functions_are_read_from_warnings() {
        let warning = |function: &str| {
            format!("ld.lld: warning: <unknown>:0:0: in function {function} void (i32): {TRAP_WARNING}\n\n")
        };
        assert_eq!(trapping("ld.lld: warning: other"), None);
        assert_eq!(trapping(&warning("_Z1fi")).as_deref(), Some("'f(int)' (_Z1fi)"));
        let several = ["fill", "fill", "g", "h"].map(warning).concat();
        assert_eq!(trapping(&several).as_deref(), Some("'fill' and 2 more"));
    }
}
