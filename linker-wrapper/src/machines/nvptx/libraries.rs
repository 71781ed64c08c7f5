//! The CUDA libraries that device code may reference.

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use llvm_passes::pipeline::NamedBitcode;
use offload_bundle::arch::GpuArch;

use crate::device::cudadevrt::{self, DeviceLibrary};
use crate::sys::mapped_file::Mapped;

/// libdevice and the device runtime, each opened only if something references it.
pub struct CudaLibraries {
    libdevice: Option<PathBuf>,
    device_runtime: Option<PathBuf>,
    content: OnceLock<Option<Mapped>>,
}

impl CudaLibraries {
    /// Creates the libraries of these files, without opening them.
    pub fn new(libdevice: Option<PathBuf>, device_runtime: Option<PathBuf>) -> Self {
        CudaLibraries { libdevice, device_runtime, content: OnceLock::new() }
    }

    /// Returns the path of libdevice.
    pub fn libdevice_path(&self) -> Option<&Path> {
        self.libdevice.as_deref()
    }

    /// Returns the path of the device runtime.
    pub fn device_runtime_path(&self) -> Option<&Path> {
        self.device_runtime.as_deref()
    }

    /// Returns the bitcode of libdevice, or `None` if it is missing or unreadable.
    pub fn libdevice(&self) -> Option<NamedBitcode<'_>> {
        let open = || Mapped::open(self.libdevice.as_deref()?).ok();
        let content = self.content.get_or_init(open);
        content.as_ref().map(|content| NamedBitcode { name: "libdevice", bitcode: content.bytes() })
    }

    /// Whether libdevice defines the function: all of its functions begin with `__nv_`, and ptxas reports those that do not exist.
    pub fn libdevice_defines(&self, name: &str) -> bool {
        name.starts_with("__nv_") && self.libdevice().is_some()
    }

    /// Reads the device runtime's code for a target.
    pub fn device_runtime(&self, arch: GpuArch) -> Option<DeviceLibrary> {
        cudadevrt::read(self.device_runtime.as_deref()?, arch)
    }
}
