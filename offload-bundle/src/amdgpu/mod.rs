//! Code for AMD's GPUs: the names of targets, and objects and code objects with their kernels.

mod code;
mod descriptor;
mod functions;
mod gpus;
mod machine;
mod metadata;
mod target_id;
mod uses;

pub use code::{Code, Kernel, PartObject, ResourceSymbols, metadata_object};
pub use descriptor::{Descriptor, PointerCalls, RegisterFile, Registers};
pub use functions::Resources;
pub use gpus::{Fit, GPUS, Gpu, Misfit, SPIRV_PROCESSOR};
pub use machine::{CodeHeader, EM_AMDGPU, header, is_code};
pub use metadata::{KernelMetadata, Metadata};
pub use target_id::{FeatureSetting, TargetId, TargetIdError};
pub use uses::OuterUse;
