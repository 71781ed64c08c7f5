//! The platforms that device code is linked for. A platform is an offload kind with a target triple: CUDA on nvptx64,
//! OpenMP on the host's own kind of processor.
//!
//! `link.rs` knows no platform by name. It hands each platform the images that it [takes](interface::Platform::takes); the platform
//! returns [products](interface::Products) and the [bundle](interface::Bundle) that a registration object carries into the program.
//! A new platform is a file beside this one and a line in [`PLATFORMS`]; CONTRIBUTING.md lists the steps.

#[cfg(test)]
mod copy_bytes;
pub mod cuda;
mod cuda_targets;
pub mod error;
pub mod hip;
pub mod interface;
pub mod openmp_host;
pub mod override_image;
pub mod relocatable_link;

use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use error::Error;
use interface::Platform;

/// Every platform, in the order in which the host linker reads their registration objects.
pub const PLATFORMS: &[&dyn Platform] = &[
    &openmp_host::OpenMpHost,
    &cuda::Cuda,
    &hip::Hip,
    #[cfg(test)]
    &copy_bytes::CopyBytes,
];

/// The images of one platform, in link order.
pub type Assigned<'a> = (&'static dyn Platform, Vec<&'a FoundImage<'a>>);

/// Distributes the images among the platforms.
///
/// # Errors
/// One for each image that no platform takes.
pub fn assign<'a>(images: &'a [FoundImage<'a>]) -> Result<Vec<Assigned<'a>>, Errors> {
    let mut errors = Errors::default();
    for found in images.iter().filter(|found| !PLATFORMS.iter().any(|platform| platform.takes(&found.image))) {
        errors.extend(no_platform(found));
    }
    let assigned = PLATFORMS.iter().map(|platform| {
        let own = images.iter().filter(|found| platform.takes(&found.image)).collect::<Vec<_>>();
        (*platform, own)
    });
    errors.or(assigned.filter(|(_, own)| !own.is_empty()).collect())
}

fn no_platform(found: &FoundImage<'_>) -> Error {
    let mut accepted: Vec<&str> = PLATFORMS.iter().map(|platform| platform.accepts()).collect();
    accepted.sort_unstable();
    Error::NoPlatform {
        name: found.origin.to_string(),
        kinds: found.image.offload_kinds,
        triple: found.image.triple().to_owned(),
        accepted: accepted.join(" and "),
    }
}
