//! The kinds of device code: how a host program meets it. A kind takes images out of the inputs, lets the machines that the images are for link
//! them, and knows the container of the results, their registration, and their names on the host.
//!
//! `link.rs` knows no kind by name. It hands each kind the images that it [takes](interface::Kind::takes); the kind returns
//! [products](interface::Products) and the [bundle](interface::Bundle) that a registration object carries into the program.
//! A new kind is a file beside this one and a line in [`KINDS`]; CONTRIBUTING.md lists the steps.

mod amdgcn_code;
#[cfg(test)]
mod copy_bytes;
pub mod cuda;
pub mod error;
pub mod hip;
pub mod interface;
mod nvptx_code;
mod nvptx_targets;
pub mod openmp;
pub mod override_image;
pub mod relocatable_link;

use crate::diag::error::Errors;
use crate::host::embedded_images::FoundImage;
use error::Error;
use interface::Kind;

/// Every kind, in the order in which the host linker reads their registration objects.
pub const KINDS: &[&dyn Kind] = &[
    &openmp::OpenMp,
    &cuda::Cuda,
    &hip::Hip,
    #[cfg(test)]
    &copy_bytes::CopyBytes,
];

/// The images of one kind, in link order.
pub type Assigned<'a> = (&'static dyn Kind, Vec<&'a FoundImage<'a>>);

/// Distributes the images among the kinds. `has_line_code_alone`: there are none, and the line names code for the device link itself.
///
/// # Errors
/// One for each image that no kind takes.
pub fn assign<'a>(images: &'a [FoundImage<'a>], has_line_code_alone: bool) -> Result<Vec<Assigned<'a>>, Errors> {
    let mut errors = Errors::default();
    for found in images.iter().filter(|found| !KINDS.iter().any(|kind| kind.takes(&found.image))) {
        errors.extend(no_kind(found));
    }
    let assigned = KINDS.iter().map(|kind| {
        let own = images.iter().filter(|found| kind.takes(&found.image)).collect::<Vec<_>>();
        (*kind, own)
    });
    let is_alone = |kind: &dyn Kind| has_line_code_alone && kind.links_line_code_alone();
    errors.or(assigned.filter(|(kind, own)| !own.is_empty() || is_alone(*kind)).collect())
}

fn no_kind(found: &FoundImage<'_>) -> Error {
    let mut accepted: Vec<&str> = KINDS.iter().map(|kind| kind.accepts()).collect();
    accepted.sort_unstable();
    Error::NoKind {
        name: found.origin.to_string(),
        kinds: found.image.offload_kinds,
        triple: found.image.triple().to_owned(),
        accepted: accepted.join(" and "),
    }
}
