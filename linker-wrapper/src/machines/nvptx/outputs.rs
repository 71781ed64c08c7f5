//! The outputs of a job, as values: the PTX texts that LLVM emits, and the machine code and PTX for the image that are made of them.

use std::path::PathBuf;

use crate::sys::written_path;
use offload_bundle::arch::{GpuArch, PtxVersion};
use serde::{Deserialize, Serialize};

/// One PTX text that LLVM emits.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Emission {
    /// The target.
    pub arch: GpuArch,
    /// The PTX version.
    pub version: PtxVersion,
    /// Whether local functions become visible, since ptxas uses fewer registers for visible ones.
    pub visible_functions: bool,
    /// The file of the text. A worker writes it always, a thread only for ptxas.
    #[serde(with = "written_path")]
    pub path: PathBuf,
}

/// What is made of the emissions of a job. Emissions are named by their index.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Outputs {
    /// Machine code.
    pub machine_code: Vec<MachineCode>,
    /// PTX for the image.
    pub ptx: Vec<ImagePtx>,
    /// How the version of PTX for the image is chosen.
    pub ptx_version: ImagePtxVersion,
}

/// Machine code that is generated from an emission.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct MachineCode {
    /// The emission.
    pub emission: usize,
    /// Whether it can be linked with other code.
    pub relocatable: Relocatable,
    /// Its name in messages.
    pub name: String,
}

/// When machine code is relocatable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Relocatable {
    /// Always: it is linked with other code.
    Always,
    /// If there are functions besides kernels. In finished code, ptxas inlines functions so much that registers and size suffer.
    /// So a program with functions is assembled as relocatable code and finished by nvlink, as all other linkers do.
    WithFunctions,
    /// Never: nothing could finish it.
    Never,
}

/// PTX for the image.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct ImagePtx {
    /// The emission.
    pub emission: usize,
    /// The file in which ptxas gets the text to try lower versions.
    #[serde(with = "written_path")]
    pub probe: PathBuf,
    /// The file that a worker writes the text to.
    #[serde(with = "written_path")]
    pub path: PathBuf,
}

/// How the version of PTX for the image is chosen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ImagePtxVersion {
    /// The lowest that the code needs.
    #[default]
    Lowest,
    /// The version that the user requires.
    Fixed(PtxVersion),
    /// The version of the emission: a dry run cannot run ptxas to try a lower one.
    Unchanged,
}

impl Outputs {
    /// Whether the image gets the PTX of this emission.
    pub fn has_ptx_of(&self, emission: usize) -> bool {
        self.ptx.iter().any(|ptx| ptx.emission == emission)
    }
}
