//! NVIDIA's GPUs as the machine of a link.

use crate::cli::device_options::DeviceOptions;
use crate::machines::nvptx::codegen::Backends;
use crate::machines::nvptx::image_policy::ImageEntries;
use crate::machines::nvptx::libraries::CudaLibraries;
use crate::plan::link_context::LinkContext;

/// NVIDIA's GPUs, with the tools of a link.
#[derive(Clone)]
pub struct Nvptx<'a> {
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
    /// The backends. One is chosen for each target.
    pub backends: &'a Backends<'a>,
    /// CUDA's libraries of device code.
    pub libraries: &'a CudaLibraries,
    /// The entries of the image, for all targets.
    pub entries: ImageEntries,
    /// Whether a runtime looks up a name in the image, so that it has to stay visible.
    pub looks_up: fn(&str) -> bool,
}

impl<'a> Nvptx<'a> {
    /// Returns the options of the device link.
    pub fn options(&self) -> &'a DeviceOptions {
        self.link.request.device
    }

    /// Whether commands are shown instead of run.
    pub fn is_dry_run(&self) -> bool {
        self.link.request.mode.dry
    }
}
