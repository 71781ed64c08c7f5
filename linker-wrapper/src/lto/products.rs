//! The results of a device link: compiled partitions and linked targets.

use std::collections::BTreeMap;

use llvm_passes::session::Message;
use offload_bundle::arch::GpuArch;

use crate::codegen::DeviceObject;
use crate::lto::generate::Generated;
use crate::sys::cache::Key;

/// A compiled partition.
#[derive(Debug, Default)]
pub struct CompiledPartition {
    /// Machine code, or PTX for a backend that compiles all of it at once.
    pub objects: Vec<DeviceObject>,
    /// PTX for the image, each text with the lowest version that it needs.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// LLVM's messages.
    pub messages: Vec<Message>,
    /// Messages of ptxas.
    pub diagnostics: Vec<String>,
}

impl CompiledPartition {
    /// Returns the size of the objects in bytes.
    pub fn object_bytes(&self) -> u64 {
        self.objects.iter().map(|object| object.bytes.len() as u64).sum()
    }

    /// The outputs of a job, with LLVM's messages.
    pub fn of(generated: Generated, messages: Vec<Message>) -> Self {
        let Generated { objects, ptx } = generated;
        let diagnostics = objects.iter().flat_map(|object| object.diagnostics.clone()).collect();
        CompiledPartition { objects, ptx, messages, diagnostics }
    }
}

/// The linked code of one target.
#[derive(Debug, Clone, Default)]
pub struct LinkedTarget {
    /// Finished cubins: the target's own, and those generated for other targets.
    pub sass: Vec<(GpuArch, Vec<u8>)>,
    /// PTX of the same code, one module for each target.
    pub ptx: Vec<(GpuArch, Vec<u8>)>,
    /// LLVM's messages.
    pub messages: Vec<Message>,
    /// Messages of ptxas and nvlink.
    pub diagnostics: Vec<String>,
    /// Whether the code calls NVIDIA's device runtime, which is linked with it.
    pub calls_device_runtime: bool,
    /// Kernels that are not in the code, each with the one that stands for it.
    pub folded: BTreeMap<String, String>,
    /// What its code is cached under.
    pub key: Option<Key>,
    /// Whether it is from the cache.
    pub is_cached: bool,
    /// Whether all of it was joined from partitions, each of which is cached by itself.
    pub is_joined: bool,
}
