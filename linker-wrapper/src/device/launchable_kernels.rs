//! Determines which kernels the program can launch, where that can be told from its host code.

use offload_bundle::offload_binary::OffloadKinds;

use crate::cli::options::Options;
use crate::diag::error::Errors;
use crate::host::dead_kernels::{self, KernelLiveness};
use crate::host::embedded_images::FoundImage;
use crate::host::input_files::InputFiles;

/// Determines the kernels that the program can launch. `images` are the device images of the link.
///
/// # Errors
/// No threads can be started.
pub fn find(inputs: &InputFiles, images: &[FoundImage<'_>], options: &Options) -> Result<KernelLiveness, Errors> {
    dead_kernels::find(inputs, options, OffloadKinds::CUDA, why_all_are_kept(images, options))
}

/// Why host code does not tell which kernels are launched.
fn why_all_are_kept(images: &[FoundImage<'_>], options: &Options) -> Option<&'static str> {
    if options.relocatable {
        Some("a later link decides what the program reaches (-r)")
    } else if options.emit_image_only {
        Some("there is no program (--emit-fatbin-only)")
    } else if options.dlink {
        Some("a later link decides what the program reaches (--dlink)")
    } else if images.iter().any(FoundImage::is_foreign) {
        Some("units of nvcc register their kernels themselves")
    } else {
        None
    }
}
