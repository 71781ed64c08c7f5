//! The code that jobs for NVIDIA's GPUs compile, and that links of it make.

use offload_bundle::arch::GpuArch;
use serde::{Deserialize, Serialize};

use crate::machines::nvptx::bytes_by_target;
use crate::machines::nvptx::codegen::DeviceObject;

/// The code of a job.
#[derive(Debug, Clone, Default)]
pub struct CompiledCode {
    /// Machine code, or PTX for a backend that compiles all of it at once.
    pub objects: Vec<DeviceObject>,
    /// PTX for the image, each text with the lowest version that it needs.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// Messages of ptxas.
    pub diagnostics: Vec<String>,
}

impl CompiledCode {
    /// The outputs of a job.
    pub fn new(objects: Vec<DeviceObject>, ptx: Vec<(GpuArch, Vec<u8>)>) -> Self {
        let diagnostics = objects.iter().flat_map(|object| object.diagnostics.clone()).collect();
        CompiledCode { objects, ptx, diagnostics }
    }

    /// The largest peak memory of the processes that generated it, in bytes.
    pub fn peak(&self) -> u64 {
        self.objects.iter().map(|object| object.peak).max().unwrap_or_default()
    }
}

/// The code of a job in the cache.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct StoredCode {
    /// Cubins, by target.
    #[serde(with = "bytes_by_target")]
    pub cubins: Vec<(GpuArch, Vec<u8>)>,
    /// PTX for the image, by target.
    #[serde(with = "bytes_by_target")]
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// Messages of ptxas.
    pub diagnostics: Vec<String>,
}

impl StoredCode {
    /// What the cache holds of this code.
    pub fn of(code: &CompiledCode) -> Self {
        let cubins = code.objects.iter().map(|object| (object.arch, object.bytes.clone())).collect();
        StoredCode { cubins, ptx: code.ptx.clone(), diagnostics: code.diagnostics.clone() }
    }
}

/// The linked code of one target.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct LinkedCode {
    /// Finished cubins: the target's own, and those generated for other targets.
    #[serde(with = "bytes_by_target")]
    pub sass: Vec<(GpuArch, Vec<u8>)>,
    /// PTX of the same code, one module for each target.
    #[serde(with = "bytes_by_target")]
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// Whether the code calls NVIDIA's device runtime, which is linked with it.
    pub calls_device_runtime: bool,
}
