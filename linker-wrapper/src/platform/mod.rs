//! The platforms that device code is linked for. A platform is an offload kind with a target triple: CUDA on nvptx64,
//! OpenMP on the host's own kind of processor.
//!
//! The story of a link knows no platform by name. It gives each one the images that it [takes](Platform::takes), and takes back
//! [products](Products) and the [bundle](Bundle) that a registration object carries into the program. A new platform is a file
//! beside this one and a line in [`PLATFORMS`]; CONTRIBUTING.md lists the steps.

pub mod context;
pub mod cuda;
pub mod openmp_host;
pub mod override_image;

use std::collections::BTreeSet;

use llvm_passes::registration::Registration;
use offload_bundle::arch::GpuArch;
use offload_bundle::offload_binary::OffloadImage;

use crate::cli::values::FatbinSection;
use crate::device::device_files::DeviceCode;
use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::InputFiles;
use crate::host::registration_object::Image;
use crate::image::report::ImageReport;
use crate::sys::mapped_file::Mapped;
use context::{LinkContext, Request};

/// Every platform, in the order in which the host linker reads their registration objects.
pub const PLATFORMS: &[&dyn Platform] = &[&openmp_host::OpenMpHost, &cuda::Cuda];

/// An offload kind with a target triple.
pub trait Platform: Sync {
    /// The name of the offload kind in `--override-image=KIND=FILE`.
    fn kind(&self) -> &'static str;

    /// The images that the platform takes, for the error about those that none takes: "OpenMP images for x86_64".
    fn accepts(&self) -> &'static str;

    /// Whether the platform links this image.
    fn takes(&self, image: &OffloadImage<'_>) -> bool;

    /// The GPU targets that device files on the command line (`-Xoffload-linker dev.o`) are linked for.
    fn line_targets(&self, _images: &[FoundImage<'_>]) -> BTreeSet<GpuArch> {
        BTreeSet::new()
    }

    /// Decides which device links there are, and what the image gets. Runs nothing.
    ///
    /// # Errors
    /// Images that cannot be linked, and options that cannot be satisfied.
    fn plan<'a>(&self, setup: &Setup<'a>) -> Result<Box<dyn DeviceLink + 'a>, Errors>;

    /// Wraps the finished image of `--override-image=`; `file` names it in errors.
    ///
    /// # Errors
    /// The file is no image of this platform.
    fn finished(&self, file: &str, content: Mapped) -> Result<Box<dyn Products>, Errors>;
}

/// What a platform plans from.
pub struct Setup<'a> {
    /// The platform's images, in link order.
    pub images: Vec<&'a FoundImage<'a>>,
    /// Device code that the command line names.
    pub line_code: &'a DeviceCode<'a>,
    /// The host files that the images are in.
    pub inputs: &'a InputFiles,
    /// What the user requested.
    pub request: Request<'a>,
}

/// The device links of one platform, planned and ready to run.
pub trait DeviceLink: Sync {
    /// Warnings of the plan.
    fn warnings(&self) -> &[String];

    /// The triples of the code, as `--device-linker=TRIPLE=` names them.
    fn triples(&self) -> Vec<&str>;

    /// Registration code that does not depend on the images, so that it can be compiled while they are linked.
    fn early_registration(&self) -> Option<&'static dyn Registration> {
        None
    }

    /// Runs the device links.
    ///
    /// # Errors
    /// All that is wrong with the code, and what the tools report.
    fn link<'p>(&'p self, context: &LinkContext<'_>) -> Result<Box<dyn Products + 'p>, Errors>;

    /// Runs the device links again after LLVM failed in one of them, to find out which function it cannot compile.
    ///
    /// # Errors
    /// What was found.
    fn diagnose(&self, _context: &LinkContext<'_>) -> Result<(), Errors> {
        Ok(())
    }
}

/// The linked code of one platform.
pub trait Products: Send + Sync {
    /// Puts the images into their container, and checks it as the platform's driver would.
    ///
    /// # Errors
    /// A container that its driver would reject.
    fn bundle<'p>(&'p self, context: &LinkContext<'_>) -> Result<Bundle<'p>, Errors>;

    /// Entries that the cache had, and had not; `None`: no cache was used.
    fn cache_counts(&self) -> Option<(u64, u64)> {
        None
    }
}

/// A container of images, ready to be carried by a registration object.
pub struct Bundle<'p> {
    /// The container.
    pub image: Box<dyn Image + 'p>,
    /// How the host program registers it.
    pub registration: Box<dyn Registration + 'p>,
    /// Where in the program it goes, if that is the user's choice (`--offload-fatbin-section=`).
    pub section: Option<FatbinSection>,
    /// The name under which `--save-temps` keeps it.
    pub kept_as: Option<&'static str>,
    /// What `--offload-report` prints about it.
    pub report: Option<ImageReport>,
}

/// The images of one platform, in link order.
pub type Assigned<'a> = (&'static dyn Platform, Vec<&'a FoundImage<'a>>);

/// Gives each platform its images.
///
/// # Errors
/// One for each image that no platform takes.
pub fn assign<'a>(images: &'a [FoundImage<'a>]) -> Result<Vec<Assigned<'a>>, Errors> {
    let mut errors = Errors::default();
    for found in images.iter().filter(|found| !PLATFORMS.iter().any(|platform| platform.takes(&found.image))) {
        errors.push(unsupported(found));
    }
    let assigned = PLATFORMS.iter().map(|platform| {
        let own = images.iter().filter(|found| platform.takes(&found.image)).collect::<Vec<_>>();
        (*platform, own)
    });
    errors.or(assigned.filter(|(_, own)| !own.is_empty()).collect())
}

fn unsupported(found: &FoundImage<'_>) -> String {
    let mut accepted: Vec<&str> = PLATFORMS.iter().map(|platform| platform.accepts()).collect();
    accepted.sort_unstable();
    format!(
        "{}: a device image of kind {} for {}: this version links {} only",
        found.origin,
        found.image.offload_kinds,
        found.image.triple(),
        accepted.join(" and ")
    )
}
