//! Predicts what the driver does with a program of `nvcc -rdc=true`: if no linked entry fits, it links the objects again.
//!
//! Nothing of this is documented beyond "the driver may link at run time" (nvcc's manual, 6.6.2). The rules are those that driver 580
//! was seen to follow on a GPU of sm_90 with more than a hundred programs (docs/reference/driver.md):
//!
//! 1. If an entry of the linked fatbin fits, the driver takes it, and tries nothing else if it fails.
//! 2. Else the driver takes an entry of each object's fatbin, as it would if that were all of the program: machine code too.
//! 3. An object without an entry that fits is left out. An entry that fails makes the whole link fail, needed or not.
//! 4. What a part refers to and none defines makes the link fail. Kernels of objects that were left out are not found.

use std::collections::HashSet;
use std::sync::Arc;

use super::code::{Code, Content, LinkSymbols};
use super::containers::{FoundContainer, Role};
use super::driver::Runtime;
use super::select::{LinkPart, Outcome, Verdict, chosen, judge, outcome};
use crate::arch::GpuArch;
use crate::host_object::DEVICE_RUNTIME;

/// Predicts what the driver does with one of the fatbins of a file.
pub(super) fn outcome_in<'a>(
    found: &'a FoundContainer,
    all: &'a [FoundContainer],
    gpu: GpuArch,
    runtime: Runtime,
) -> Outcome<'a> {
    let taken = outcome(&found.codes, gpu, runtime);
    match &found.role {
        Role::Linked(numbers) if taken.verdict == Verdict::NoBinary && taken.code.is_none() => {
            let again = link(&objects(all, numbers), taken.gpu, runtime);
            let linked = if found.codes.is_empty() { "nothing is linked" } else { "nothing that is linked fits" };
            Outcome { reason: format!("{linked}: {}", again.reason), passed_over: taken.passed_over, ..again }
        }
        _ => taken,
    }
}

/// The same for a fatbin that a program registers: of one without kernels nothing can fail. (Seen with driver 580 on sm_90: programs run
/// whose device link had nothing to link, lazily and eagerly loaded.)
pub(super) fn outcome_in_program<'a>(
    found: &'a FoundContainer,
    all: &'a [FoundContainer],
    gpu: GpuArch,
    runtime: Runtime,
) -> Outcome<'a> {
    let outcome = outcome_in(found, all, gpu, runtime);
    if outcome.verdict.runs() || !is_registered_without_kernels(found, all) {
        return outcome;
    }
    Outcome { verdict: Verdict::NoKernels, reason: NO_KERNELS.to_owned(), missing: Vec::new(), ..outcome }
}

/// What is said of a fatbin without kernels.
pub(super) const NO_KERNELS: &str = "no kernels: nothing can fail";

/// Whether a program registers it, and no image defines anything. Loaded as a file, a fatbin without an image for the GPU is an error.
pub(super) fn is_registered_without_kernels(found: &FoundContainer, all: &[FoundContainer]) -> bool {
    found.place.section.is_some() && !sources(found, all).into_iter().any(may_define)
}

/// The fatbins whose images a program gets for this one: its objects', if nothing of them was linked.
pub(super) fn sources<'a>(found: &'a FoundContainer, all: &'a [FoundContainer]) -> Vec<&'a FoundContainer> {
    match &found.role {
        Role::Linked(numbers) if found.codes.is_empty() => objects(all, numbers),
        _ => vec![found],
    }
}

/// Whether an image defines anything at all, or may: code that cannot be read may define something.
pub(super) fn may_define(found: &FoundContainer) -> bool {
    let defines = |symbols: &LinkSymbols| !symbols.kernels.is_empty() || !symbols.defined.is_empty();
    let is_readable = |code: &Code| matches!(code.content, Content::Sass { .. } | Content::Ptx { .. });
    found.symbols.iter().any(defines) || found.codes.iter().any(|code| !is_readable(code))
}

/// The objects of a device link.
pub(super) fn objects<'a>(all: &'a [FoundContainer], numbers: &[usize]) -> Vec<&'a FoundContainer> {
    all.iter().filter(|container| numbers.contains(&container.place.container)).collect()
}

/// Predicts the result of linking the objects.
pub(super) fn link<'a>(objects: &[&'a FoundContainer], gpu: GpuArch, runtime: Runtime) -> Outcome<'a> {
    let mut parts = Vec::new();
    let mut left_out = Vec::new();
    for object in objects {
        match chosen(&object.codes, gpu, runtime) {
            Some(code) => parts.push(LinkPart { container: object.place.container, code }),
            None => left_out.push(*object),
        }
    }
    let symbols: Vec<&LinkSymbols> = parts.iter().filter_map(|part| symbols_of(objects, part)).collect();
    let undefined = undefined(&parts, &symbols, &left_out);
    let mut missing: Vec<usize> =
        left_out.iter().filter(|object| may_have_kernels(object)).map(|object| object.place.container).collect();
    missing.extend(undefined.as_ref().and_then(|undefined| undefined.definer));
    let (verdict, reason) = first_failure(&parts, gpu, runtime)
        .or_else(|| undefined.map(|undefined| (Verdict::InvalidSource, undefined.reason)))
        .unwrap_or_else(|| kernels(&parts, has_kernel(objects, &parts), &missing));
    Outcome { gpu, verdict, code: None, reason, passed_over: Vec::new(), parts, missing }
}

fn symbols_of<'a>(objects: &[&'a FoundContainer], part: &LinkPart<'_>) -> Option<&'a LinkSymbols> {
    let object = objects.iter().find(|object| object.place.container == part.container)?;
    object.symbols.get(part.code.number.checked_sub(1)?)
}

/// The first part that the driver cannot take into the link.
fn first_failure(parts: &[LinkPart<'_>], gpu: GpuArch, runtime: Runtime) -> Option<(Verdict, String)> {
    parts.iter().find_map(|part| {
        let (verdict, problem) = judge(part.code, gpu, runtime);
        // Loaded by itself, machine code of another GPU is an invalid source.
        let verdict = if verdict == Verdict::InvalidSource { Verdict::NoBinary } else { verdict };
        let place = format!("fatbin {}, entry {} ({})", part.container, part.code.number, part.code.name());
        (!verdict.runs()).then(|| (verdict, format!("{place}: {}", problem.unwrap_or_default())))
    })
}

/// A symbol that a part refers to and no part defines.
struct Undefined {
    /// The fatbin that would define it, if it were not left out.
    definer: Option<usize>,
    reason: String,
}

/// The first of them.
fn undefined(parts: &[LinkPart<'_>], symbols: &[&LinkSymbols], left_out: &[&FoundContainer]) -> Option<Undefined> {
    let defined: HashSet<&Arc<str>> = symbols.iter().flat_map(|symbols| &symbols.defined).collect();
    let (part, name) = parts.iter().zip(symbols).find_map(|(part, symbols)| {
        let name = symbols.wanted.iter().find(|name| !defined.contains(name))?;
        Some((part, name))
    })?;
    let defines = |object: &&&FoundContainer| object.symbols.iter().any(|symbols| symbols.defined.contains(name));
    // The symbols of LTO-IR are not readable.
    let definer = left_out.iter().find(defines).or(left_out.first()).map(|object| object.place.container);
    let why = match definer {
        Some(number) => format!("fatbin {number} has nothing for this GPU"),
        None => "no object defines it".to_owned(),
    };
    Some(Undefined { definer, reason: format!("fatbin {} refers to {name}, and {why}", part.container) })
}

/// Whether a part is NVIDIA's device runtime.
pub(super) fn is_runtime(objects: &[&FoundContainer], part: &LinkPart<'_>) -> bool {
    let object = objects.iter().find(|object| object.place.container == part.container);
    object.is_some_and(|object| matches!(&object.role, Role::Object(Some(name)) if name == DEVICE_RUNTIME))
}

/// Whether the parts have a kernel that the program launches. Those of the device runtime serve its own functions.
fn has_kernel(objects: &[&FoundContainer], parts: &[LinkPart<'_>]) -> bool {
    let own = parts.iter().filter(|part| !is_runtime(objects, part));
    own.filter_map(|part| symbols_of(objects, part)).any(|symbols| !symbols.kernels.is_empty())
}

/// Whether a kernel is left, and whose are missing.
fn kernels(parts: &[LinkPart<'_>], has_kernel: bool, missing: &[usize]) -> (Verdict, String) {
    let numbers: Vec<String> = missing.iter().map(usize::to_string).collect();
    let missing = match numbers.as_slice() {
        [] => String::new(),
        [one] => format!("; the kernels of fatbin {one}, which has nothing for this GPU, are missing"),
        more => format!("; the kernels of fatbins {}, which have nothing for this GPU, are missing", more.join(", ")),
    };
    if parts.is_empty() {
        (Verdict::SymbolNotFound, "none of the objects has anything for this GPU".to_owned())
    } else if has_kernel || missing.is_empty() {
        let of = if parts.len() == 1 { "1 object".to_owned() } else { format!("{} objects", parts.len()) };
        (Verdict::Link, format!("the driver links {of} again{missing}"))
    } else {
        (Verdict::SymbolNotFound, format!("the driver links objects without kernels again{missing}"))
    }
}

/// Unknown for LTO-IR.
pub(super) fn may_have_kernels(object: &FoundContainer) -> bool {
    let mut known = object.codes.iter().zip(&object.symbols).filter(|(code, _)| code.is_loadable()).peekable();
    if known.peek().is_none() {
        return !object.codes.is_empty();
    }
    known.any(|(_, symbols)| !symbols.kernels.is_empty())
}
