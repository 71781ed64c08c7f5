//! Bundles the images of a kind, and writes the object that registers them with the host program.

use std::path::{Path, PathBuf};

use llvm_passes::registration::Registration;
use offload_bundle::audit::ReadImages;

use crate::cli::host_triple;
use crate::cli::values::ImageSection;
use crate::diag::error::Errors;
use crate::diag::messages;
use crate::host::image_section;
use crate::host::registration_object::{self, Image, Template};
use crate::image::report::ImageReport;
use crate::kinds::interface::{Bundle, DeviceLink, Products};
use crate::plan::link_context::{LinkContext, Request};
use crate::profile::span;
use crate::sys::temp_files;
use crate::sys::threads;

/// The triple of the host code where no object says it.
pub fn host_triple<'a>(request: &Request<'a>) -> &'a str {
    request.options.host_triple.as_deref().unwrap_or(host_triple::NATIVE.triple)
}

/// The registration object of one kind, with its images inside.
pub struct Registered {
    /// Its path.
    pub object: PathBuf,
    archive: Option<PathBuf>,
    /// The report on the images.
    pub report: Option<ImageReport>,
    /// The images that the audit does not read again.
    pub read: ReadImages,
    /// Numbers of cache hits and misses.
    pub cached: Option<(u64, u64)>,
}

impl Registered {
    /// The files that the host linker links. It extracts members of an archive that stands behind what references them.
    pub fn files(&self) -> impl Iterator<Item = &PathBuf> {
        std::iter::once(&self.object).chain(&self.archive)
    }
}

/// Links the device code of one kind and writes its registration object.
///
/// # Errors
/// All errors in the code, and those that tools report.
pub fn link(link: &dyn DeviceLink, context: &LinkContext<'_>) -> Result<Registered, Errors> {
    let early = || link.early_registration().map(|registration| template(registration, context)).transpose();
    let (products, template) = threads::join(|| link.link(context), early);
    register(&*products?, template?, context)
}

/// Bundles the images and writes the object that registers them. `early` is the object's code, if already compiled.
///
/// # Errors
/// The driver would reject the bundle. Files that cannot be written.
pub fn register(
    products: &dyn Products,
    early: Option<Template>,
    context: &LinkContext<'_>,
) -> Result<Registered, Errors> {
    let Bundle { image, registration, section, saved_as, report, read } = products.bundle(context)?;
    let _wrapping = span::traced("Wrap bundled images", || registration.name().to_owned());
    let mut template = early.map_or_else(|| template(&*registration, context), Ok)?;
    if let Some(section) = section {
        image_section::warn_of_size(section, context.request.program, image.size());
    }
    if section == Some(ImageSection::Large) {
        template.make_large()?;
    }
    if let Some(name) = saved_as {
        context.temp_files.save_file(name, |mut file| image.write_to(&mut file))?;
    }
    write_copy(&*image, context)?;
    let object = registration_object::path(context.temp_files, &*registration);
    template.write(&object, &*image)?;
    let archive = products.archive().map(Path::to_owned);
    Ok(Registered { object, archive, report, read, cached: products.cache_counts() })
}

/// Writes the image to the file of `--offload-image=`.
///
/// # Errors
/// It cannot be written.
pub fn write_copy(image: &dyn Image, context: &LinkContext<'_>) -> Result<(), Errors> {
    let Request { options, mode, .. } = context.request;
    let Some(copy) = options.image_copy.as_ref().filter(|_| !mode.dry) else { return Ok(()) };
    temp_files::write_output_by(copy, |mut file| image.write_to(&mut file))
}

/// Compiles registration code.
fn template(registration: &dyn Registration, context: &LinkContext<'_>) -> Result<Template, Errors> {
    let request = &context.request;
    let _compiling = span::traced("Compile module", || format!("{:?}", registration.slot().section));
    let show = |text: &str| messages::show(text.trim_end());
    let show = request.options.print_wrapped_module.then_some(&show as &dyn Fn(&str));
    let (triple, tables, rules) =
        (&context.host_code.triple, context.host_code.entry_tables, request.options.llvm_rules);
    registration_object::template(triple, registration, tables, context.dead_kernels, rules, show)
}
