//! Reads the inputs of a link: the host files with the device images in them, and the device files that the line names.

use std::path::PathBuf;

use llvm_passes::registration::EntryTables;
use llvm_passes::unit::CachedFacts;

use crate::device::device_files::{DeviceCode, DeviceFiles, LineTargets};
use crate::device::{former_driver, former_entries, lost_images, target_files};
use crate::diag::error::{Errors, both};
use crate::diag::messages::warn;
use crate::host::embedded_images::{self, FoundImage};
use crate::host::host_machine::{self, HostCode};
use crate::host::input_files::InputFiles;
use crate::kinds::interface::Products;
use crate::kinds::{KINDS, override_image};
use crate::link::modes::{LinkMode, Output};
use crate::link::registration;
use crate::plan::link_context::Request;

/// The host files of a link.
pub struct HostInputs {
    /// The files, mapped.
    pub files: InputFiles,
    /// The image of `--override-image=`.
    pub finished: Option<Box<dyn Products>>,
    /// Whether the host linker alone handles this line: it answers a query, or an input registers the device code already.
    pub are_handled: bool,
}

impl HostInputs {
    /// Opens the files, and prints the warnings about them.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn open(request: &Request<'_>) -> Result<Self, Errors> {
        let Request { program, options, .. } = *request;
        let finished =
            options.override_image.as_ref().map(|(kind, file)| override_image::read(kind, file)).transpose()?;
        let (finished, files) = match finished {
            // With a finished image, only the host linker reads the inputs.
            Some((finished, stamp)) => (Some(finished), InputFiles::of_image(stamp)),
            None => (None, InputFiles::open(options, program)?),
        };
        files.warnings().iter().for_each(|text| warn(program, text));
        let are_handled = options.linker_query || files.already_registered(options);
        Ok(HostInputs { files, finished, are_handled })
    }

    /// Finds the device images that the link takes and what its registration code has to fit, and checks the host code that is
    /// linked with them. `facts` has what earlier links read of their units.
    ///
    /// # Errors
    /// Damaged inputs, hosts without registration code, and host code whose device code is missing.
    pub fn images<'a>(
        &'a self,
        request: &Request<'a>,
        mode: LinkMode,
        facts: Option<&'a dyn CachedFacts>,
    ) -> Result<(Vec<FoundImage<'a>>, HostCode), Errors> {
        let Request { program, options, .. } = *request;
        let HostInputs { files: inputs, are_handled, .. } = self;
        let mut images = match &options.code_object {
            Some(target) => target_files::images(inputs, target)?,
            None if *are_handled => Vec::new(),
            None => embedded_images::find(inputs)?,
        };
        let leaves_units = mode.leaves_foreign_units(images.iter().all(FoundImage::is_foreign));
        images.retain(|found| !leaves_units || !found.is_foreign());
        let mut triple = registration::host_triple(request).to_owned();
        if mode.needs_registration() && (mode.is_given_image() || !images.is_empty()) {
            triple = host_machine::find(inputs, &images, options)?;
        }
        let mut entry_tables = EntryTables::Current;
        if mode.checks_former_entries() && !*are_handled {
            entry_tables = former_entries::tables(inputs, &options.roots, mode.output() == Output::Program)?;
        }
        if mode.checks_lost_images() && !*are_handled {
            lost_images::check(inputs, &images, &options.roots)?;
            former_driver::check(inputs, &options.roots)?;
            lost_images::libraries(inputs).iter().for_each(|text| warn(program, text));
        }
        Ok((images.into_iter().map(|found| found.with_cached(facts)).collect(), HostCode { triple, entry_tables }))
    }
}

/// The device files that the line names.
pub struct LineFiles {
    files: DeviceFiles,
}

impl LineFiles {
    /// Opens the files, if a kind links them with these images.
    ///
    /// # Errors
    /// Files that cannot be read.
    pub fn open(request: &Request<'_>, images: &[FoundImage<'_>]) -> Result<Self, Errors> {
        let Request { options, device, .. } = *request;
        let targets: LineTargets = KINDS.iter().flat_map(|kind| kind.line_targets(images, options)).collect();
        let files = if targets.is_empty() && images.is_empty() && request.links_line_code_alone() {
            DeviceFiles::open_for_own_targets(device)?
        } else {
            DeviceFiles::open(options, device, targets)?
        };
        Ok(LineFiles { files })
    }

    /// Reads their code. `facts` has what earlier links read of its units.
    ///
    /// # Errors
    /// Damaged files, and files without device code.
    pub fn code<'a>(&'a self, facts: Option<&'a dyn CachedFacts>) -> Result<DeviceCode<'a>, Errors> {
        self.files.code(facts)
    }
}

/// All files that a link reads.
#[derive(Clone, Copy)]
pub struct Files<'a> {
    /// The host files.
    pub host: &'a InputFiles,
    /// The device files of the line.
    pub line: &'a LineFiles,
}

impl Files<'_> {
    /// The file that the output would overwrite.
    pub fn overwritten_by(&self, request: &Request<'_>) -> Option<PathBuf> {
        let output = request.output;
        let overwritten = self.host.overwritten_by(output).or_else(|| self.line.files.overwritten_by(output));
        overwritten.map(ToOwned::to_owned)
    }

    /// Checks that no file of the link has changed since it was opened.
    ///
    /// # Errors
    /// One for each changed file.
    pub fn check_unchanged(&self, request: &Request<'_>) -> Result<(), Errors> {
        let output = request.output;
        both(self.host.check_unchanged(output), self.line.files.check_unchanged(output)).map(drop)
    }
}
