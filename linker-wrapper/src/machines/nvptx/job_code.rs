//! Jobs for NVIDIA's GPUs: LLVM emits PTX, and ptxas assembles it.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::pipeline::{CodeTarget, OptLevel};
use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ptx::{self, DebugInfo};
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::machines::nvptx::codegen::{Assembler, DeviceObject};
use crate::machines::nvptx::outputs::{Emission, Outputs};
use crate::sys::{temp_files, written_path};

/// PTX, and machine code.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct NvptxCode {
    /// The target.
    pub arch: GpuArch,
    /// The PTX version that optimizations may assume.
    pub version: PtxVersion,
    /// Optimization level.
    pub level: OptLevel,
    /// Kernels of a whole program that are left out if no other code refers to them.
    pub dead: BTreeSet<String>,
    /// Kernels that the units declare as functions, because other units define them.
    pub declared_kernels: BTreeSet<String>,
    /// libdevice's bitcode.
    #[serde(with = "written_path")]
    pub libdevice: Option<PathBuf>,
    /// The PTX texts that LLVM emits.
    pub emissions: Vec<Emission>,
    /// What is made of the emissions.
    pub outputs: Outputs,
    /// ptxas, if it generates the outputs. Otherwise a library does it in the process of the link.
    pub assembler: Option<Assembler>,
}

/// What is read of the text of an emission, once.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TextFacts {
    /// The debug information in the text.
    pub debug_info: DebugInfo,
    /// The kernels that others see.
    pub kernels: Vec<String>,
}

/// The text of an emission.
#[derive(Debug)]
pub struct NvptxText {
    /// What was read of it.
    pub facts: TextFacts,
    /// The text; `None` if only its file has it.
    pub text: Option<Vec<u8>>,
}

/// What a job has made.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct NvptxMade {
    /// What was read of each emission, in order.
    pub texts: Vec<TextFacts>,
    /// The machine code, in files; empty if a library generates it.
    pub objects: Vec<DeviceObject>,
}

impl NvptxText {
    /// A text in memory.
    pub fn of(text: Vec<u8>) -> Self {
        let facts = TextFacts { debug_info: DebugInfo::of(&text), kernels: ptx::outline(&text).kernels };
        NvptxText { facts, text: Some(text) }
    }

    /// A text in its file.
    pub fn in_file(facts: TextFacts) -> Self {
        NvptxText { facts, text: None }
    }
}

impl NvptxMade {
    /// The kernels of the job: all emissions are of one module.
    pub fn kernels(&self) -> &[String] {
        self.texts.first().map_or(&[], |text| &text.kernels)
    }
}

impl NvptxCode {
    /// The target that the code is optimized for.
    pub fn code_target(&self) -> CodeTarget {
        CodeTarget { arch: self.arch, ptx: self.version, level: self.level }
    }

    /// Writes the emissions that become machine code, for the backend of a link in whose process LLVM ran.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn write_sources(&self, texts: &[Vec<u8>]) -> Result<(), Errors> {
        for code in &self.outputs.machine_code {
            temp_files::write_file(&self.emissions[code.emission].path, &texts[code.emission])?;
        }
        Ok(())
    }
}
