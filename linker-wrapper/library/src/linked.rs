//! What a link has made.

use crate::diagnostic::Diagnostic;

/// What a link has made.
///
/// ```no_run
/// # use fatlink::Link;
/// let linked = Link::new().file("/build/kernel.o").report().run()?;
/// for warning in &linked.diagnostics {
///     eprintln!("{warning}");
/// }
/// println!("{}", linked.report.unwrap());
/// # Ok::<(), fatlink::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Linked {
    /// The container of the linked device code: a fatbin for CUDA, a bundle for HIP, an offload binary for OpenMP.
    pub image: Vec<u8>,
    /// The host object that carries the image and registers it before `main`, for the link of the program. `None` after
    /// [`Link::image_only`](crate::Link::image_only).
    pub registration: Option<Vec<u8>>,
    /// The report as JSON, if [`Link::report`](crate::Link::report) requested it.
    pub report: Option<String>,
    /// Warnings and notes.
    pub diagnostics: Vec<Diagnostic>,
}
