//! Compiles, bundles and registers device code, and links it with host code: what each mode does with the planned device links.

use std::path::PathBuf;

use offload_bundle::audit::{MissingSymbol, ReadImages};

use crate::cli::unsupported::Unsupported;
use crate::device::device_files::DeviceCode;
use crate::diag::error::{Errors, collect};
use crate::image::report::ImageReport;
use crate::kinds::interface::{Bundle, DeviceLink, Products};
use crate::link::host_link::{Ended, HostLink};
use crate::link::inputs::Files;
use crate::link::merge::{self, MergeInputs};
use crate::link::modes::{LinkMode, Output};
use crate::link::registration::{self, Registered};
use crate::link::selection::Selected;
use crate::plan::link_context::LinkContext;
use crate::profile::span;
use crate::sys::temp_files;
use crate::sys::threads;

/// The results of a link that its final messages report.
#[derive(Default)]
pub struct Outcome {
    /// Exit code of the host linker.
    pub code: u8,
    /// The report on the images.
    pub report: Option<ImageReport>,
    /// Numbers of cache hits and misses.
    pub cached: Option<(u64, u64)>,
    /// The kernels and variables that the program registers and no image has.
    pub missing: Vec<MissingSymbol>,
}

/// The device links of a link, planned, and what they need.
pub struct Planned<'a> {
    /// The resources that the links share.
    pub context: &'a LinkContext<'a>,
    /// What the link reads.
    pub files: Files<'a>,
    /// Device code that the line names.
    pub line_code: &'a DeviceCode<'a>,
    /// The device code of the inputs.
    pub selected: &'a Selected<'a>,
    /// The device link of each kind.
    pub links: &'a [Box<dyn DeviceLink + 'a>],
    /// The image of `--override-image=`.
    pub finished: Option<&'a dyn Products>,
}

impl Planned<'_> {
    /// Makes what the mode requests.
    ///
    /// # Errors
    /// All errors in the code, and those that tools report.
    pub fn run(&self, mode: LinkMode) -> Result<Outcome, Errors> {
        let output = mode.output();
        match (mode, output, self.finished) {
            (LinkMode::Diagnose(_), ..) => self.diagnose(),
            (_, Output::Bundle { .. }, Some(finished)) => self.write_bundle(finished),
            (_, _, Some(finished)) => self.wrap(finished, output),
            (_, Output::Bundle { .. }, None) => self.emit_bundle(),
            (_, Output::DeviceObject { .. }, None) => self.emit_object(),
            (_, Output::Merged, None) => self.merge(),
            (_, Output::Program | Output::Relocatable, None) => self.link_all(output),
        }
    }

    /// Repeats the device links to find the function that LLVM cannot compile.
    fn diagnose(&self) -> Result<Outcome, Errors> {
        collect(self.links.iter().map(|link| link.diagnose(self.context))).map(|_| Outcome::default())
    }

    /// Links the device code of all kinds, then the host's code with it. This is the usual link.
    fn link_all(&self, output: Output) -> Result<Outcome, Errors> {
        let host_linker = self.context.host_linker()?;
        let device = span::traced("Handle all device input", String::new);
        let registered = collect(threads::each(self.links, |link| registration::link(&**link, self.context)))?;
        drop(device);
        let pairs = self.links.iter().zip(&registered).filter(|(link, _)| self.is_registered(&***link, output));
        let objects: Vec<PathBuf> = pairs.flat_map(|(_, registered)| registered.files()).cloned().collect();
        let mut read = ReadImages::default();
        let (mut report, mut cached) = (None, None);
        for one in registered {
            read.extend(one.read);
            report = match (report, one.report) {
                (Some(report), Some(other)) => Some(ImageReport::and(report, other)),
                (report, other) => report.or(other),
            };
            cached = sum(cached, one.cached);
        }
        let Ended { code, missing } = self.host_link(output).run(host_linker, &objects, &read)?;
        Ok(Outcome { code, report, cached, missing })
    }

    /// Whether the program needs the images of a link. Where the host code registers nothing and there are no kernels, as in a build system's
    /// test whether it can compile, a program needs neither images nor the runtime that would register them.
    fn is_registered(&self, link: &dyn DeviceLink, output: Output) -> bool {
        let may_lack_images = output == Output::Program && !self.context.request.mode.dry;
        !may_lack_images || !self.context.registered.is_empty() || link.has_kernels()
    }

    /// Registers and links the finished image.
    fn wrap(&self, finished: &dyn Products, output: Output) -> Result<Outcome, Errors> {
        let Registered { object, report, read, .. } = registration::register(finished, None, self.context)?;
        // What the user's own image lacks is the user's decision.
        let Ended { code, .. } = self.host_link(output).run(self.context.host_linker()?, &[object], &read)?;
        Ok(Outcome { code, report, ..Outcome::default() })
    }

    /// Writes the bundle itself as the output.
    fn emit_bundle(&self) -> Result<Outcome, Errors> {
        match self.links {
            [] => Err(Unsupported::NothingToEmit.into()),
            [only] => self.write_bundle(&*only.link(self.context)?),
            _ => Err(Unsupported::SeveralToEmit.into()),
        }
    }

    fn write_bundle(&self, products: &dyn Products) -> Result<Outcome, Errors> {
        let Bundle { image, report, .. } = products.bundle(self.context)?;
        registration::write_copy(&*image, self.context)?;
        if !self.context.request.mode.dry {
            self.files.check_unchanged(&self.context.request)?;
            temp_files::write_output_by(self.context.request.output, |mut file| image.write_to(&mut file))?;
        }
        Ok(Outcome { report, cached: products.cache_counts(), ..Outcome::default() })
    }

    /// Writes the registration object as the output.
    fn emit_object(&self) -> Result<Outcome, Errors> {
        let [only] = self.links else {
            let kinds = self.links.iter().flat_map(|link| link.triples()).collect::<Vec<_>>().join(" and ");
            return Err(Unsupported::SeveralToLink { kinds }.into());
        };
        // The archive is an input of the link of the program, as it is after nvcc's device link.
        let Registered { object, report, cached, .. } = registration::link(&**only, self.context)?;
        if !self.context.request.mode.dry {
            self.files.check_unchanged(&self.context.request)?;
            let bytes = temp_files::read_file(&object)?;
            temp_files::write_output_by(self.context.request.output, |file| file.write_all(&bytes))?;
        }
        Ok(Outcome { report, cached, ..Outcome::default() })
    }

    /// Merges the device code for later links, and links the host's code with it.
    fn merge(&self) -> Result<Outcome, Errors> {
        let host_linker = self.context.host_linker()?;
        let code = MergeInputs { images: &self.selected.images, line_code: self.line_code, inputs: self.files.host };
        let triple = registration::host_triple(&self.context.request);
        let object = merge::run(code, self.links, self.context, triple)?;
        let Ended { code, .. } = self.host_link(Output::Merged).run(host_linker, &[object], &ReadImages::default())?;
        Ok(Outcome { code, ..Outcome::default() })
    }

    fn host_link(&self, output: Output) -> HostLink<'_> {
        HostLink { context: self.context, files: self.files, selected: self.selected, output }
    }
}

/// Adds numbers of cache hits and misses.
fn sum(one: Option<(u64, u64)>, other: Option<(u64, u64)>) -> Option<(u64, u64)> {
    match (one, other) {
        (Some((hits, misses)), Some((more_hits, more_misses))) => Some((hits + more_hits, misses + more_misses)),
        (one, other) => one.or(other),
    }
}
