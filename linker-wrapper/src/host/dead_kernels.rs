//! Finds the kernels that no host code of the finished program can launch, because nothing that it reaches refers to their stubs.
//!
//! In doubt a kernel is alive: a superfluous kernel costs time, and a launch of one that is missing fails.

use std::collections::{BTreeMap, BTreeSet};

use offload_bundle::host_object::{self, Definition, FileKind, KernelHandle};
use offload_bundle::offload_binary::OffloadKinds;
use rayon::prelude::*;

use crate::cli::options::Options;
use crate::cli::values::KernelGc;
use crate::diag::error::Errors;
use crate::host::input_files::{InputFile, InputFiles};
use crate::host::section_reach::{HostSections, Reached};
use crate::host::{link_roots, needed_libraries};
use crate::sys::threads;

/// The low bits of an entry's flags say which kind of variable it is; kernels have none.
const VARIABLE_KIND: u32 = 7;

/// Which kernels of the program are launched by code that it can reach.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct KernelLiveness {
    /// Why all kernels are kept although the user requested otherwise, as a sentence without a full stop.
    pub keeps_all: Option<String>,
    /// Kernels whose stubs are not reached.
    pub dead: BTreeSet<String>,
    /// All others that are registered, each with the way to its stub from a root of the program.
    pub alive: BTreeMap<String, Vec<String>>,
}

/// Determines the kernels of these offload kinds that the program can launch. `keeps_all` is why its host code does not tell.
///
/// # Errors
/// No threads can be started.
pub fn find(
    inputs: &InputFiles,
    options: &Options,
    kinds: OffloadKinds,
    keeps_all: Option<&str>,
) -> Result<KernelLiveness, Errors> {
    if options.kernel_gc == KernelGc::Off {
        return Ok(KernelLiveness::default());
    }
    threads::start()?;
    Ok(analyze(inputs, options, kinds, keeps_all)
        .unwrap_or_else(|why| KernelLiveness { keeps_all: Some(why), ..KernelLiveness::default() }))
}

/// Does the work of [`find`].
///
/// # Errors
/// Why all kernels have to be kept.
fn analyze(
    inputs: &InputFiles,
    options: &Options,
    kinds: OffloadKinds,
    keeps_all: Option<&str>,
) -> Result<KernelLiveness, String> {
    if let Some(why) = keeps_all {
        return Err(why.to_owned());
    }
    if let Some(why) = inputs.unread().first() {
        return Err(why.clone());
    }
    let roots = link_roots::read(options)?;
    let libraries = needed_libraries::symbols(inputs, options, &roots.folders)?;
    let objects = inputs.files().par_iter().map(|file| object(inputs, file)).collect::<Result<Vec<_>, _>>()?;
    let objects: Vec<_> = objects.into_iter().flatten().collect();
    if let Some((file, _)) = objects.iter().find(|(_, graph)| graph.names_libraries && roots.adds_libraries) {
        return Err(format!(
            "{file} makes lld look for libraries by itself (.deplibs; --no-dependent-libraries prevents that)"
        ));
    }
    let sections = HostSections::new(objects);
    if let Some(entry) = roots.entry.as_ref().filter(|entry| !sections.defines(entry.as_bytes())) {
        return Err(format!("no object defines the entry {entry}"));
    }
    let entry = roots.entry.iter().map(|name| (name.as_bytes(), format!("the entry {name}")));
    let named = roots.names.iter().map(|name| (name.as_bytes(), format!("{name}, which the command line names")));
    let used = libraries.iter().map(|(name, library)| {
        let shown = String::from_utf8_lossy(name);
        (name.as_slice(), format!("{shown}, which {library} uses or defines"))
    });
    let bounds = if roots.exports.all { sections.bounds() } else { Vec::new() };
    let bounds = bounds.into_iter().map(|name| {
        let shown = String::from_utf8_lossy(name);
        (name, format!("{shown}, which the linker may export"))
    });
    // A symbol with a version of its own is exported, whatever a version script says of its name.
    let is_exported = |one: &Definition<'_>| one.has_version || roots.exports.contains(one.name);
    let reached = sections.reach(entry.chain(named).chain(used).chain(bounds), is_exported);
    Ok(liveness(&sections, &reached, kinds))
}

/// The sections of one file; `None` for files without any of their own.
fn object<'a>(
    inputs: &'a InputFiles,
    file: &'a InputFile,
) -> Result<Option<(&'a str, host_object::SectionGraph<'a>)>, String> {
    match file.kind {
        FileKind::ElfShared => Ok(None),
        FileKind::ElfRelocatable => {
            let graph = host_object::section_graph(inputs.bytes(file));
            let graph = graph.map_err(|error| format!("{} cannot be looked into: {error}", file.name))?;
            Ok(Some((&file.name, graph)))
        }
        FileKind::Bitcode => Err(format!("{} is bitcode, whose code is not known yet (-flto)", file.name)),
        _ => Err(format!("{} is no object file", file.name)),
    }
}

fn liveness(sections: &HostSections<'_>, reached: &Reached, kinds: OffloadKinds) -> KernelLiveness {
    let mut found = KernelLiveness::default();
    for (object, (file, graph)) in sections.objects().iter().enumerate() {
        for KernelHandle { entry, handle } in &graph.handles {
            let is_kernel = entry.size == 0 && entry.flags & VARIABLE_KIND == 0 && entry.kinds == kinds;
            if !is_kernel {
                continue;
            }
            let targets = handle.map(|handle| sections.targets(object, handle)).unwrap_or_default();
            let live = targets.iter().find(|target| reached.contains(**target));
            let path = match live {
                Some(section) => reached.path(sections, *section),
                None if targets.is_empty() => vec![format!("no object defines the stub that {file} registers")],
                None => {
                    found.dead.insert(entry.name.clone());
                    continue;
                }
            };
            found.alive.entry(entry.name.clone()).or_insert(path);
        }
    }
    // An instance of a template is registered by each unit that has it.
    found.dead.retain(|name| !found.alive.contains_key(name));
    found
}
