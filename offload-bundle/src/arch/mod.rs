//! NVIDIA's targets: their names and order, what runs where, and which releases know them.
//!
//! [`table`] has one row per GPU and one per CUDA release, and is the only place that lists them.

mod gpu_arch;
mod products;
mod rules;
pub mod table;
mod versions;

pub use gpu_arch::{ArchFeature, GpuArch, UnknownArch};
pub use products::{arch_of_product, product_names};
pub use table::TargetTable;
pub use versions::{CudaRelease, LtoIrVersion, PtxVersion, UnknownRelease};
