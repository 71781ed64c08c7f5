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
    /// The kernels of the PTX that it was made of, as far as others see them.
    pub kernels: Vec<String>,
    /// Messages of ptxas.
    pub diagnostics: Vec<String>,
}

impl CompiledCode {
    /// The outputs of a job, made of PTX with these kernels.
    pub fn new(objects: Vec<DeviceObject>, ptx: Vec<(GpuArch, Vec<u8>)>, kernels: Vec<String>) -> Self {
        let diagnostics = objects.iter().flat_map(|object| object.diagnostics.clone()).collect();
        CompiledCode { objects, ptx, kernels, diagnostics }
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
    /// For each cubin the kernels that no linker may have left out.
    pub sass_kernels: Vec<Vec<String>>,
    /// The same for all PTX.
    pub ptx_kernels: Vec<String>,
    /// Targets whose cubin is an input as it is, and whose faults are not those of a tool.
    #[serde(skip)]
    pub given: Vec<GpuArch>,
    /// Whether the code calls NVIDIA's device runtime, which is linked with it.
    pub calls_device_runtime: bool,
}
