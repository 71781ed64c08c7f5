//! Finds the function that LLVM cannot compile, after a fatal error or a crash, and names it with its file. Halves of the job's
//! functions are compiled again, each in a process of its own, until one function is left. A link that succeeds pays nothing for this.

use std::collections::{BTreeSet, VecDeque};
use std::ffi::OsString;
use std::path::PathBuf;

use llvm_passes::pipeline;
use llvm_passes::reference_graph::{self, ReferenceGraph, Role};
use llvm_passes::session::Session;
use serde::{Deserialize, Serialize};

use crate::device::symbol_errors::named;
use crate::diag::error::Errors;
use crate::lto::compile_job::CompileJob;
use crate::lto::error::Error;
use crate::lto::worker::{self, Failure, Reply};
use crate::plan::link_context::LinkContext;
use crate::sys::written_path;

/// The first argument of a process that compiles some functions; the file with the [`Trial`] follows.
const FLAG: &str = "--try-compile";

/// What is compiled again, as errors name it.
const WHAT: &str = "code that LLVM failed on";

/// One attempt to compile some functions of a job.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Trial {
    /// The job, for its target and options.
    job: CompileJob,
    /// The bitcode file of the merged or the optimized code.
    #[serde(with = "written_path")]
    module: PathBuf,
    /// Whether the attempt optimizes the code; else it generates code.
    optimize: bool,
    /// The functions that keep their bodies.
    functions: BTreeSet<String>,
}

/// Runs the attempt if this process was started for one, and returns the exit code.
pub fn run_if_requested(arguments: &[OsString]) -> Option<u8> {
    worker::run_if_flagged(arguments, FLAG, Trial::run)
}

impl Trial {
    fn run(&self) -> Result<Reply, Errors> {
        let job = &self.job;
        worker::prepare_llvm(&job.llvm_options)?;
        let content = worker::open(&self.module)?;
        let session = Session::new();
        let module = session.read("the merged code", content.bytes())?;
        pipeline::keep_bodies(&module, &self.functions);
        if self.optimize {
            job.code.steps().optimize(&session, &module, true)?;
        } else {
            job.code.steps().try_to_emit(&session, &module)?;
        }
        Ok(Reply::default())
    }
}

/// Returns the errors of a failed job: if LLVM failed, the function that it cannot compile.
pub fn explain(failure: Failure, job: &CompileJob, stem: &str, link: &LinkContext<'_>) -> Errors {
    let found = failure.llvm_reason.as_ref().and_then(|_| Search::new(job, stem, link)?.find());
    found.unwrap_or(failure.errors)
}

/// Runs a job again to find a function that LLVM cannot compile. The job may succeed this time.
///
/// # Errors
/// The function that was found.
pub fn search(job: &CompileJob, stem: &str, link: &LinkContext<'_>) -> Result<(), Errors> {
    Search::new(job, stem, link).and_then(|search| search.find()).map_or(Ok(()), Err)
}

/// A search for the function in the code of one job.
struct Search<'j> {
    job: &'j CompileJob,
    stem: &'j str,
    link: &'j LinkContext<'j>,
    /// The bitcode file of the code.
    module: PathBuf,
    /// Whether LLVM fails during optimization; else it fails during code generation.
    optimize: bool,
}

impl<'j> Search<'j> {
    /// Runs the job up to code generation, to see where it fails. Returns `None` if it fails before there is merged code.
    fn new(job: &'j CompileJob, stem: &'j str, link: &'j LinkContext<'j>) -> Option<Self> {
        let file = |name: &str| link.temp_files.file(&format!("{stem}.search.{name}"));
        let (merged, optimized) = (file("merged.bc"), file("opt.bc"));
        let stages = Some((merged.clone(), optimized.clone()));
        let first = CompileJob { code: job.code.steps().without_outputs(), saved_stages: stages, ..job.clone() };
        let (module, optimize) = match worker::compile(&first, &file("json"), WHAT, None, link.recorder, &mut |_| {}) {
            Ok(_) => (optimized, false),
            Err(failure) => (failure.llvm_reason.map(|_| merged)?, true),
        };
        module.exists().then_some(Search { job, stem, link, module, optimize })
    }

    fn find(&self) -> Option<Errors> {
        let graph = self.graph()?;
        let (function, reason) = self.bisect(self.candidates(&graph))?;
        self.link.recorder.found_culprit();
        Some(self.message(&function, &reason, &graph).into())
    }

    fn graph(&self) -> Option<ReferenceGraph> {
        let content = worker::open(&self.module).ok()?;
        let session = Session::new();
        Some(reference_graph::of_module(&session.read("the merged code", content.bytes()).ok()?))
    }

    /// Returns the functions to search. A kernel is optimized with the functions that it calls, so then the kernels suffice.
    fn candidates(&self, graph: &ReferenceGraph) -> Vec<String> {
        let functions = graph.globals.iter().filter(|global| global.is_definition());
        let (kernels, others): (Vec<_>, Vec<_>) = functions
            .filter(|global| matches!(global.role, Role::Kernel | Role::Function))
            .partition(|global| global.role == Role::Kernel);
        let all = kernels.iter().chain(others.iter().filter(|_| !self.optimize || kernels.is_empty()));
        all.map(|global| global.name.clone()).collect()
    }

    /// Finds one function that fails by itself, with LLVM's text.
    fn bisect(&self, mut names: Vec<String>) -> Option<(String, String)> {
        let mut reason = self.fails(&names)?;
        while names.len() > 1 {
            let other = names.split_off(names.len() / 2);
            if let Some(found) = self.fails(&names) {
                reason = found;
            } else {
                reason = self.fails(&other)?;
                names = other;
            }
        }
        Some((names.pop()?, reason))
    }

    /// Compiles these functions, and returns LLVM's text if it fails.
    fn fails(&self, names: &[String]) -> Option<String> {
        let mut functions: BTreeSet<String> = names.iter().cloned().collect();
        if self.optimize {
            functions.extend(self.callees());
        }
        let trial = Trial { job: self.job.clone(), module: self.module.clone(), optimize: self.optimize, functions };
        let spec = self.link.temp_files.file(&format!("{}.search.json", self.stem));
        worker::run_copy(FLAG, &trial, &spec, WHAT, self.link.recorder, &mut |_| {}).err()?.llvm_reason
    }

    /// Returns the functions that are not kernels; each kernel is optimized with them.
    fn callees(&self) -> Vec<String> {
        let graph = self.graph().unwrap_or_default();
        let functions = graph.globals.into_iter().filter(|global| global.role == Role::Function);
        functions.map(|global| global.name).collect()
    }

    fn message(&self, function: &str, reason: &str, graph: &ReferenceGraph) -> Error {
        let kernel = graph.globals.iter().any(|global| global.name == function && global.role == Role::Kernel);
        let noun = if kernel { "kernel" } else { "function" };
        let caller = match calling_kernel(graph, function) {
            Some(caller) if !kernel => format!(", which the kernel {} calls,", self.described(&caller)),
            _ => String::new(),
        };
        // The lines after the first print LLVM's internal representation.
        let reason = reason.lines().next().unwrap_or_default().trim();
        let function = format!("{noun} {}{caller}", self.described(function));
        Error::Culprit { function, target: self.job.code.steps().target(), reason: reason.to_owned() }
    }

    /// Describes a function with its file: `'k(int)' (_Z1ki) of a.o`.
    fn described(&self, function: &str) -> String {
        match self.unit_of(function) {
            Some((name, unit)) => format!("{} of {unit}", named(&name)),
            None => named(function),
        }
    }

    /// Finds the unit that defines the function, and the function's name there.
    fn unit_of(&self, function: &str) -> Option<(String, String)> {
        let content = worker::open(&self.job.units).ok()?;
        let units = self.job.unit_list(content.bytes()).ok()?;
        let mut names = names_in_units(function).into_iter();
        names.find_map(|name| {
            let session = Session::new();
            let defines = |unit: &&pipeline::NamedBitcode<'_>| {
                let module = session.read_lazily(unit.name, unit.bitcode);
                module.is_ok_and(|module| pipeline::defines_function(&module, &name))
            };
            let unit = units.iter().find(defines)?;
            Some((name.clone(), unit.name.to_owned()))
        })
    }
}

/// Returns the names that a function of the merged code may have in its unit: its own, and those without a suffix that made it
/// unique.
fn names_in_units(function: &str) -> Vec<String> {
    let mut names = vec![function.to_owned()];
    let marks = [".fatlink.copy", "__fatlink_"];
    names.extend(marks.iter().filter_map(|mark| function.split_once(mark)).map(|(name, _)| name.to_owned()));
    let numbered = function.rsplit_once('.').filter(|(_, number)| number.bytes().all(|byte| byte.is_ascii_digit()));
    names.extend(numbered.map(|(name, _)| name.to_owned()));
    names
}

/// Returns the first kernel that reaches the function.
fn calling_kernel(graph: &ReferenceGraph, function: &str) -> Option<String> {
    let reaches = |start: usize| {
        let (mut open, mut seen) = (VecDeque::from([start]), BTreeSet::from([start]));
        while let Some(global) = open.pop_front().and_then(|index| graph.globals.get(index)) {
            if global.name == function {
                return true;
            }
            let next = global.references.iter().map(|reference| reference.to as usize);
            open.extend(next.filter(|index| seen.insert(*index)));
        }
        false
    };
    let kernels = graph.globals.iter().enumerate().filter(|(_, global)| global.is_kernel());
    kernels.filter(|(index, _)| reaches(*index)).map(|(_, global)| global.name.clone()).next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lose_the_suffix_that_made_them_unique() {
        assert_eq!(names_in_units("_Z1fi.fatlink.copy"), ["_Z1fi.fatlink.copy", "_Z1fi"]);
        assert_eq!(names_in_units("helper__fatlink_0123_7"), ["helper__fatlink_0123_7", "helper"]);
        assert_eq!(names_in_units("helper.12"), ["helper.12", "helper"]);
        assert_eq!(names_in_units("k"), ["k"]);
    }
}
