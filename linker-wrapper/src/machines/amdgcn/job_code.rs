//! Jobs for AMD's GPUs: LLVM emits an object, which needs no other tool before the link of all objects.

use std::path::PathBuf;

use llvm_passes::amdgpu::AmdTarget;
use offload_bundle::amdgpu::PointerCalls;
use serde::{Deserialize, Serialize};

use crate::sys::written_path;

/// An object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AmdCode {
    /// The target.
    pub target: AmdTarget,
    /// What a whole program hides. A partition hides everything else than what it shares.
    pub hides: Hides,
    /// The file that a worker writes the object to; empty if there is to be none.
    #[serde(with = "written_path")]
    pub object: PathBuf,
}

/// The definitions that a whole program makes internal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Hides {
    /// None: ld.lld links files that may reference any.
    Nothing,
    /// Those that a shared library does not export.
    Unexported,
    /// Also all functions but kernels (`-amdgpu-internalize-symbols`).
    Functions,
}

/// What a job has made besides the object.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AmdMade {
    /// Functions of other partitions that the code calls by name; it has no object then.
    pub calls: Vec<String>,
    /// What calls through pointers mean for its kernels and for those of other partitions.
    pub pointer_calls: PointerCalls,
}
