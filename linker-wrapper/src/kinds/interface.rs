//! The traits that a kind implements, and the values that it exchanges with `link.rs`.

use std::path::Path;

use llvm_passes::registration::Registration;
use offload_bundle::audit::ReadImages;
use offload_bundle::offload_binary::OffloadImage;

use crate::cli::options::Options;
use crate::cli::values::ImageSection;
use crate::device::device_files::{DeviceCode, LineTargets};
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::InputFiles;
use crate::host::registration_object::Image;
use crate::image::report::ImageReport;
use crate::plan::link_context::{LinkContext, Request};
use crate::sys::mapped_file::Mapped;

/// An offload kind with a target triple.
pub trait Kind: Sync {
    /// The name of the offload kind in `--override-image=KIND=FILE`.
    fn name(&self) -> &'static str;

    /// Describes the images that the kind takes, for errors: "OpenMP images for x86_64".
    fn accepts(&self) -> &'static str;

    /// Whether the kind links this image.
    fn takes(&self, image: &OffloadImage<'_>) -> bool;

    /// Returns the targets that device files on the command line (`-Xoffload-linker dev.o`) are linked for.
    fn line_targets(&self, _images: &[FoundImage<'_>], _options: &Options) -> LineTargets {
        LineTargets::new()
    }

    /// Whether the kind links device files of the line although no input has an image (`--dlink`).
    fn links_line_code_alone(&self) -> bool {
        false
    }

    /// Plans the device links and the contents of the image. Runs no tool and compiles nothing.
    ///
    /// # Errors
    /// Images that cannot be linked, and options that cannot be satisfied.
    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors>;

    /// Wraps the finished image of `--override-image=`; `file` names it in errors.
    ///
    /// # Errors
    /// The file is not an image of this kind.
    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors>;
}

/// The inputs of [`Kind::plan`].
pub struct Setup<'a> {
    /// The kind's images, in link order.
    pub images: Vec<&'a FoundImage<'a>>,
    /// Device code that the command line names.
    pub line_code: &'a DeviceCode<'a>,
    /// The host files that the images are in.
    pub inputs: &'a InputFiles,
    /// What the user requested.
    pub request: Request<'a>,
}

/// The device links of one kind, planned and ready to run.
pub trait DeviceLink: Sync {
    /// Warnings of the plan.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Number of machines whose plans [`DeviceLink::link`] adds to that of the link.
    fn plans(&self) -> usize {
        1
    }

    /// The triples of the code, as `--device-linker=TRIPLE=` names them.
    fn triples(&self) -> Vec<&str>;

    /// Whether there is a kernel in the code, or may be one. The host program can use nothing else that it does not register.
    fn has_kernels(&self) -> bool {
        true
    }

    /// Registration code that does not depend on the images, so that it can be compiled while they are linked.
    fn early_registration(&self) -> Option<&'static dyn Registration> {
        None
    }

    /// Runs the device links.
    ///
    /// # Errors
    /// All errors in the code, and those that tools report.
    fn link<'p>(&'p self, context: &LinkContext<'p>) -> Result<Box<dyn Products + 'p>, Errors>;

    /// Compares how the units were compiled, and prints the warnings of that.
    ///
    /// # Errors
    /// Those of checks whose level is `error`.
    fn compare_units(&self, _context: &LinkContext<'_>) -> Result<(), Errors> {
        Ok(())
    }

    /// Compiles the parts of the code that later links may take as they are. The results are collected in
    /// [`LinkContext::object_results`].
    ///
    /// # Errors
    /// All errors in the code, and those that tools report.
    fn compile_for_later(&self, context: &LinkContext<'_>) -> Result<(), Errors> {
        // The plan of no targets, which the link waits for.
        context.plan.add(Vec::new)
    }

    /// Runs the device links again after LLVM failed in one of them, to find the function that it cannot compile.
    ///
    /// # Errors
    /// The function that LLVM cannot compile.
    fn diagnose<'p>(&'p self, context: &LinkContext<'p>) -> Result<(), Errors> {
        self.link(context).map(drop)
    }
}

/// The linked code of one kind.
pub trait Products: Send + Sync {
    /// Puts the images into their container, and validates it as the kind's driver would.
    ///
    /// # Errors
    /// The driver would reject the container.
    fn bundle<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors>;

    /// Returns the archive that holds what the registration code references in addition to the host linker's inputs, if any.
    fn archive(&self) -> Option<&Path> {
        None
    }

    /// Returns the numbers of cache hits and misses, or `None` if no cache was used.
    fn cache_counts(&self) -> Option<(u64, u64)> {
        None
    }
}

/// A container of images, ready to be put into a registration object.
pub struct Bundle<'p> {
    /// The container.
    pub image: Box<dyn Image + 'p>,
    /// How the host program registers it.
    pub registration: Box<dyn Registration + 'p>,
    /// The section that it goes into, if the user can choose it (`--offload-fatbin-section=`).
    pub section: Option<ImageSection>,
    /// The name under which `--save-temps` keeps it.
    pub saved_as: Option<&'static str>,
    /// What `--offload-report` prints about it.
    pub report: Option<ImageReport>,
    /// The images whose contents are known, which the audit of the program does not read again.
    pub read: ReadImages,
}
