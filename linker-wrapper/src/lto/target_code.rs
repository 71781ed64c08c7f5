//! What a job generates, which depends on the kind of target: PTX, of which ptxas makes machine code, or an object for an AMD GPU.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::Module;
use llvm_passes::amdgpu::{self, AmdTarget, PartitionCode};
use llvm_passes::extract::Visibility;
use llvm_passes::pipeline::{self, CodeTarget, NamedBitcode, OptLevel};
use llvm_passes::session::Session;
use llvm_passes::{IrError, visible_functions};
use offload_bundle::arch::{GpuArch, PtxVersion};
use serde::{Deserialize, Serialize};

use crate::codegen::Assembler;
use crate::diag::error::Errors;
use crate::lto::outputs::{Emission, Outputs};
use crate::profile::span;
use crate::sys::written_path;

/// What a job generates.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum TargetCode {
    /// For NVIDIA's GPUs.
    Nvptx(NvptxCode),
    /// For AMD's GPUs.
    Amdgpu(AmdCode),
}

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

/// An object.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct AmdCode {
    /// The target.
    pub target: AmdTarget,
    /// Whether a whole program hides what the code object need not export. A partition hides everything else than what it shares.
    pub internalizes: bool,
    /// The file that a worker writes the object to.
    #[serde(with = "written_path")]
    pub object: PathBuf,
}

/// Returns libdevice.
pub type Libdevice<'l, 's> = &'l dyn Fn() -> Option<NamedBitcode<'s>>;

impl TargetCode {
    /// The name of the target in messages: `sm_90`, `gfx90a`.
    pub fn target(&self) -> String {
        match self {
            TargetCode::Nvptx(code) => code.arch.to_string(),
            TargetCode::Amdgpu(code) => code.target.name().to_owned(),
        }
    }

    /// The visibility of definitions that partitions share.
    pub fn visibility(&self) -> Visibility {
        match self {
            TargetCode::Nvptx(_) => Visibility::All,
            TargetCode::Amdgpu(_) => Visibility::Kept,
        }
    }

    /// Reads all units of a program.
    ///
    /// # Errors
    /// Unreadable bitcode, or bitcode for other machines.
    pub fn read_units<'s>(
        &self,
        session: &'s Session,
        units: &[NamedBitcode<'_>],
    ) -> Result<Vec<Module<'s>>, Vec<IrError>> {
        match self {
            TargetCode::Nvptx(_) => pipeline::read_units(session, units),
            TargetCode::Amdgpu(_) => amdgpu::read_units(session, units),
        }
    }

    /// Makes all names of a merged module internal that nobody else needs, and adds functions of the device library. `whole`: the module
    /// is the whole program.
    ///
    /// # Errors
    /// An unreadable device library.
    pub fn internalize<'s>(
        &self,
        session: &'s Session,
        module: &Module<'s>,
        keep: &BTreeSet<String>,
        whole: bool,
        libdevice: Libdevice<'_, 's>,
    ) -> Result<(), Errors> {
        match self {
            TargetCode::Nvptx(code) => {
                pipeline::declare_kernels(module, &code.declared_kernels);
                pipeline::internalize(module, keep);
                if pipeline::needs_libdevice(module)
                    && let Some(library) = libdevice()
                {
                    pipeline::add_libdevice(session, module, library)?;
                    pipeline::internalize(module, keep);
                }
                pipeline::remove_kernels(session, module, code.code_target(), &code.dead)?;
            }
            TargetCode::Amdgpu(AmdCode { internalizes, .. }) if whole => {
                if *internalizes {
                    amdgpu::internalize(module, keep);
                }
            }
            TargetCode::Amdgpu(_) => pipeline::internalize(module, keep),
        }
        Ok(())
    }

    /// Optimizes a module: the whole program, or one of several partitions.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn optimize(&self, session: &Session, module: &Module<'_>, whole: bool) -> Result<(), IrError> {
        match self {
            TargetCode::Nvptx(code) if whole => pipeline::optimize(session, module, code.code_target()),
            TargetCode::Nvptx(code) => pipeline::optimize_partition(session, module, code.code_target()),
            TargetCode::Amdgpu(code) if whole => amdgpu::optimize(session, module, &code.target),
            TargetCode::Amdgpu(code) => amdgpu::optimize_partition(session, module, &code.target),
        }
    }

    /// Generates code of all functions for the target itself, and forgets it: whether LLVM can.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn try_to_emit(&self, session: &Session, module: &Module<'_>) -> Result<(), IrError> {
        match self {
            TargetCode::Nvptx(code) => pipeline::emit_ptx(session, module, code.code_target()).map(drop),
            TargetCode::Amdgpu(code) => {
                amdgpu::expose_functions(module);
                amdgpu::emit_object(session, module, &code.target).map(drop)
            }
        }
    }

    /// The same without outputs: LLVM stops when the module is optimized.
    pub fn without_outputs(&self) -> Self {
        match self {
            TargetCode::Nvptx(code) => TargetCode::Nvptx(NvptxCode {
                emissions: Vec::new(),
                outputs: Outputs::default(),
                assembler: None,
                ..code.clone()
            }),
            TargetCode::Amdgpu(code) => TargetCode::Amdgpu(AmdCode { object: PathBuf::new(), ..code.clone() }),
        }
    }
}

impl NvptxCode {
    /// The target that the code is optimized for.
    fn code_target(&self) -> CodeTarget {
        CodeTarget { arch: self.arch, ptx: self.version, level: self.level }
    }

    /// Generates the PTX of each emission.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn emit(&self, session: &Session, optimized: Module<'_>) -> Result<Vec<Vec<u8>>, Errors> {
        let mut texts = Vec::with_capacity(self.emissions.len());
        let mut optimized = Some(optimized);
        for (index, emission) in self.emissions.iter().enumerate() {
            let target = CodeTarget { arch: emission.arch, ptx: emission.version, level: self.level };
            // Code generation changes the module, so all emissions but the last work on a copy.
            let is_last = index + 1 == self.emissions.len();
            let module = if is_last { optimized.take() } else { optimized.clone() };
            let Some(module) = module else { break };
            if emission.visible_functions {
                visible_functions::expose(&module, target.arch);
            }
            let _emitting = span::traced_passes("Generate PTX", || emission.arch.to_string());
            texts.push(pipeline::emit_ptx(session, &module, target)?);
        }
        Ok(texts)
    }
}

impl AmdCode {
    /// Generates the object of a module: the whole program, or one of several partitions.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn emit(&self, session: &Session, module: &Module<'_>, whole: bool) -> Result<PartitionCode, Errors> {
        let _emitting = span::traced_passes("Generate code", || self.target.name().to_owned());
        let code = match whole {
            true => {
                let (object, registers) = amdgpu::emit_object(session, module, &self.target)?;
                PartitionCode::Object(object, registers)
            }
            false => amdgpu::emit_partition(session, module, &self.target)?,
        };
        Ok(code)
    }
}
