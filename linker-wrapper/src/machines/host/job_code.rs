//! Jobs for processors of the host: LLVM emits an object.

use std::path::PathBuf;

use llvm_passes::pipeline::OptLevel;
use serde::{Deserialize, Serialize};

use crate::sys::written_path;

/// An object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct HostJob {
    /// The target triple.
    pub triple: String,
    /// Optimization level.
    pub level: OptLevel,
    /// The file that a worker writes the object to; empty if there is to be none.
    #[serde(with = "written_path")]
    pub object: PathBuf,
}
