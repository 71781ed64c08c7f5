//! AMD's GPUs as the machine of a link, their targets, and the code that is made for them.

use std::fmt;

use llvm_passes::amdgpu::AmdTarget;
use offload_bundle::amdgpu::PointerCalls;
use serde::{Deserialize, Serialize};

use crate::cli::amd_options::AmdOptions;
use crate::device::targets::TargetImages;
use crate::plan::link_context::LinkContext;

/// AMD's GPUs, in a link.
#[derive(Clone)]
pub struct Amdgcn<'a> {
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
}

/// A target.
#[derive(Debug, Clone)]
pub struct AmdArch {
    /// The target id as the images name it: "gfx90a:xnack+".
    pub name: String,
    /// What LLVM generates code for.
    pub target: AmdTarget,
    /// Options of the link.
    pub options: AmdOptions,
}

/// The images of a target.
pub type AmdImages<'a> = TargetImages<'a, AmdArch>;

/// The code of a job.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct AmdObject {
    /// The object; none if it needs functions of others.
    #[serde(with = "serde_bytes")]
    pub object: Option<Vec<u8>>,
    /// Functions of other partitions that the code calls by name.
    pub calls: Vec<String>,
    /// What calls through pointers mean for its kernels and for those of other partitions.
    pub pointer_calls: PointerCalls,
}

/// A linked code object: an ELF file or, for `amdgcnspirv`, SPIR-V.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct CodeObject {
    /// Its bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
    /// The kernels that the linker may not have left out.
    pub kernels: Vec<String>,
}

impl fmt::Display for AmdArch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.name)
    }
}

impl AmdArch {
    /// The beginning of the names of intermediate files.
    pub fn stem(&self) -> String {
        format!("amdgcn.{}", self.name)
    }
}
