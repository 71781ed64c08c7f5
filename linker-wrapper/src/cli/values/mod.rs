//! The values of options, as plain types. What acts on them is elsewhere.

mod backend_choice;
mod checks;
mod cubin_linker;
mod cuda_parts;
mod image;
mod kernel_folding;
mod kernel_gc;
mod llvm_rules;
mod lto_ir_rule;
mod relocatable_code;
mod remote;
mod resources;

pub use backend_choice::{BACKENDS, Backend, BackendChoice};
pub use checks::{Check, Level, Levels};
pub use cubin_linker::CubinLinker;
pub use cuda_parts::{NamedParts, PARTS, Part};
pub use image::{
    ImageCompression, ImageSection, OffloadReport, PlanRequest, PtxPolicy, ReportForm, ReportRequest, SassPolicy,
    compression_level, driver, ptx_version, require,
};
pub use kernel_folding::KernelFolding;
pub use kernel_gc::KernelGc;
pub use llvm_rules::LlvmRules;
pub use lto_ir_rule::LtoIrRule;
pub use relocatable_code::RelocatableCode;
pub use remote::{RemoteChoice, RemoteOptions, remote_mode, remote_timeout};
pub use resources::{Jobs, MemoryChoice, Partitioning, StatsFormat, cache_size, granularity};
