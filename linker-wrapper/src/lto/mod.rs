//! Link-time optimization and code generation of the device code, in one piece or in partitions.

pub mod culprit;
pub mod device_link;
pub mod llvm_warnings;
pub mod monolithic;
pub mod partition_job;
pub mod partitioned;
pub mod private_images;
pub mod result_cache;
pub mod worker;
