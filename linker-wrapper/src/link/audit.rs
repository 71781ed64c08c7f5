//! Reads the linked program as the runtimes will, and compares what it registers with the images in it.
//!
//! What the host linker links is predicted before the device link: archive members, scripts, options. A kernel whose code was left out
//! because of a wrong prediction would be registered and fail at its launch, so that the result is read before the link ends well.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use offload_bundle::audit::{self, Audit, MissingSymbol, PartialSymbol, ReadImages};
use offload_bundle::host_object::{self, FileKind};
use rayon::prelude::*;

use crate::cli::values::{Check, Level};
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::host::embedded_images::{self, FoundImage};
use crate::host::error::{Error, damaged};
use crate::host::input_files::{InputFile, InputFiles, Place};
use crate::plan::link_context::Request;
use crate::sys;
use crate::sys::mapped_file::Mapped;

/// Audits the host linker's output. Kernels and variables that some images lack are reported as `--offload-check=missing-target` says. Returns
/// those that no image has. The images in `read` are not read again.
///
/// # Errors
/// The program cannot be read, registers a container that is not there, or registers two kernels under one address. It is removed then.
pub fn missing_symbols(request: &Request<'_>, read: &ReadImages) -> Result<Vec<MissingSymbol>, Errors> {
    let Request { program, options, output, .. } = *request;
    let audited = audit_of(output, read).and_then(|audit| {
        let partial = groups(&audit.partial);
        match options.checks.of(Check::MissingTarget) {
            Level::Off => {}
            Level::Warn => partial.iter().for_each(|group| warn(program, group)),
            Level::Error => partial.into_iter().collect::<Errors>().or(())?,
        }
        Ok(audit.missing)
    });
    audited.inspect_err(|_| {
        let _ = std::fs::remove_file(output);
    })
}

/// Audits the host linker's output where no input has device code, and removes it if it registers any.
///
/// # Errors
/// Those of [`missing_symbols`], and one for each kernel and variable that is registered.
pub fn require_nothing_missing(request: &Request<'_>, inputs: &InputFiles) -> Result<(), Errors> {
    let missing = missing_symbols(request, &ReadImages::default())?;
    if missing.is_empty() {
        return Ok(());
    }
    let _ = std::fs::remove_file(request.output);
    Err(Missing { symbols: &missing, inputs, linked: &[] }.errors(request.output))
}

/// Kernels and variables that the same images lack.
#[derive(Debug, thiserror::Error)]
#[error(
    "the image for {} has {names}, and that for {} has not: a launch fails on GPUs that take the latter; compile all files for all targets, without \
     `#if` on the target around kernels and variables [--offload-check={}]",
    with.join(", "),
    without.join(", "),
    Check::MissingTarget.name()
)]
struct Partial {
    names: String,
    with: Vec<String>,
    without: Vec<String>,
}

fn audit_of(output: &Path, read: &ReadImages) -> Result<Audit, Errors> {
    // Only a regular file is a program: a build system's test may write to /dev/null.
    if !output.metadata().is_ok_and(|found| found.is_file()) {
        return Ok(Audit::default());
    }
    let file = Mapped::open(output).map_err(|source| sys::error::Error::Read { path: output.to_owned(), source })?;
    if !matches!(host_object::file_kind(file.bytes()), FileKind::ElfExecutable | FileKind::ElfShared) {
        return Ok(Audit::default());
    }
    let name = output.display().to_string();
    let audit = audit::audit_with(file.bytes(), read).map_err(|error| damaged(&name, 0, &error))?;
    let output = || output.to_owned();
    let mut errors = Errors::default();
    for lost in &audit.lost_containers {
        errors.extend(Error::LostContainer { output: output(), lost: lost.clone() });
    }
    if let Some((first, second)) = audit.same_address.clone() {
        errors.extend(Error::FoldedStubs { output: output(), first, second });
    }
    for call in &audit.uncovered {
        errors.extend(Error::UncoveredCall { output: output(), call: call.to_string() });
    }
    errors.or(audit)
}

/// Groups kernels and variables by the images that lack them.
fn groups(partial: &[PartialSymbol]) -> Vec<Partial> {
    const NAMED: usize = 3;
    let mut groups: BTreeMap<(&[String], &[String]), Vec<String>> = BTreeMap::new();
    for symbol in partial {
        let names = groups.entry((&symbol.with, &symbol.without)).or_default();
        names.push(audit::describe(&symbol.name, symbol.is_kernel));
    }
    let group = |((with, without), names): ((&[String], &[String]), Vec<String>)| {
        let more = names.len().saturating_sub(NAMED);
        let named = names[..names.len() - more].join(", ");
        let names = if more > 0 { format!("{named} and {more} more") } else { named };
        Partial { names, with: with.to_vec(), without: without.to_vec() }
    };
    groups.into_iter().map(group).collect()
}

/// A link is repeated as often as this at most.
const MOST_REPEATED: usize = 2;

/// The archive members that the links before this one turned out to lack.
#[derive(Default)]
pub struct Added {
    /// By index of the file.
    pub members: BTreeSet<usize>,
    /// The number of those links.
    links: usize,
}

impl Added {
    /// Adds what one more link lacks.
    pub fn extend(&mut self, members: Vec<usize>) {
        self.members.extend(members);
        self.links += 1;
    }
}

/// Kernels and variables that a program registers and no image has.
pub struct Missing<'a> {
    /// The kernels and variables.
    pub symbols: &'a [MissingSymbol],
    /// The files that register them.
    pub inputs: &'a InputFiles,
    /// The images of the link.
    pub linked: &'a [FoundImage<'a>],
}

impl Missing<'_> {
    /// Removes the program, and returns the archive members whose device code a second link has to take in. Prints a warning about them.
    ///
    /// # Errors
    /// One for each kernel and variable whose code no member has.
    pub fn members(&self, request: &Request<'_>, added: &Added) -> Result<Vec<usize>, Errors> {
        let _ = std::fs::remove_file(request.output);
        let found = self.carriers()?;
        if found.is_empty() || added.links == MOST_REPEATED {
            return Err(self.errors(request.output));
        }
        for (index, symbol) in &found {
            let file = &self.inputs.files()[*index].name;
            let symbol = audit::describe(&symbol.name, symbol.is_kernel);
            warn(
                request.program,
                format!(
                    "{file}: the host linker took this member, which registers {symbol}, for a reason that the selection of archive members did not \
                     see; linking again with its device code (-u with a symbol of the member on the line prevents the second link)"
                ),
            );
        }
        Ok(found.into_iter().map(|(index, _)| index).collect())
    }

    /// The archive members that register missing kernels or variables and whose device code was not linked, each with one of them.
    fn carriers(&self) -> Result<Vec<(usize, &MissingSymbol)>, Errors> {
        let linked: BTreeSet<usize> = self.linked.iter().map(|found| found.input).collect();
        let members = self.inputs.files().iter().enumerate().filter(|(_, file)| file.place != Place::Line);
        let mut found = Vec::new();
        for (index, file) in members.filter(|(index, _)| !linked.contains(index)) {
            let names = embedded_images::names_registered_by(self.inputs, file)?;
            let symbol = self.symbols.iter().find(|symbol| names.contains(&symbol.name));
            found.extend(symbol.filter(|_| self.has_images(file)).map(|symbol| (index, symbol)));
        }
        Ok(found)
    }

    fn has_images(&self, file: &InputFile) -> bool {
        let in_bitcode = file.bitcode.as_ref().is_some_and(|host| !host.offload_binaries.is_empty());
        in_bitcode || host_object::device_images(self.inputs.bytes(file)).is_ok_and(|images| !images.is_empty())
    }

    fn errors(&self, output: &Path) -> Errors {
        let files = self.inputs.files();
        let registered: Vec<_> = files
            .par_iter()
            .map(|file| embedded_images::names_registered_by(self.inputs, file).unwrap_or_default())
            .collect();
        let error = |symbol: &MissingSymbol| {
            let file = files.iter().zip(&registered).find(|(_, names)| names.contains(&symbol.name));
            let images = match &symbol.targets[..] {
                [] => "no image".to_owned(),
                targets => format!("no image for {}", targets.join(", ")),
            };
            let symbol = audit::describe(&symbol.name, symbol.is_kernel);
            match file {
                Some((file, _)) => Error::MissingCode { file: file.name.clone(), symbol, images },
                None => Error::UnreadCode { output: output.to_owned(), symbol, images },
            }
        };
        self.symbols.iter().map(error).collect()
    }
}
