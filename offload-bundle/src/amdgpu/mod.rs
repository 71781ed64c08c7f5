//! AMD's GPUs: the names of their targets, and which code runs on which.

mod machine;
mod target_id;

pub use machine::{CodeHeader, EM_AMDGPU, header, is_code};
pub use target_id::{FeatureSetting, TargetId, TargetIdError};
