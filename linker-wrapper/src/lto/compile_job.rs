//! The description of a compilation, from bitcode to machine code: its inputs, options and outputs. Any thread or worker process can
//! run it. The part of LLVM is here; [`generate`](crate::lto::generate) is the rest.

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::extract::{self, UnitPart, Visibility};
use llvm_passes::pipeline::{self, CodeTarget, NamedBitcode, OptLevel};
use llvm_passes::session::Session;
use llvm_passes::{Module, visible_functions};
use offload_bundle::arch::{GpuArch, PtxVersion};
use serde::{Deserialize, Serialize};

use crate::codegen::Assembler;
use crate::diag::error::Errors;
use crate::lto::error::Error;
use crate::lto::outputs::{Emission, Outputs};
use crate::profile::span;
use crate::sys::temp_files;

/// One job. All paths are absolute or relative to the folder of the link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompileJob {
    /// "sm_90.0": the target and the number of the partition.
    pub name: String,
    /// The target.
    pub arch: GpuArch,
    /// The PTX version that optimizations may assume.
    pub version: PtxVersion,
    /// Optimization level.
    pub level: OptLevel,
    /// LLVM's own options.
    pub llvm_options: Vec<String>,
    /// The file that holds all bitcode units of the target; empty if the modules are open in this process.
    pub units: PathBuf,
    /// The units that `parts` refers to, and where they are in the file.
    pub ranges: Vec<UnitRange>,
    /// The parts of units that are compiled; empty for all code of all units.
    pub parts: Vec<UnitPart>,
    /// Linkonce definitions, with their units, that are made weak before the merge.
    pub promoted: Vec<(usize, String)>,
    /// Names that stay visible.
    pub keep: BTreeSet<String>,
    /// libdevice's bitcode.
    pub libdevice: Option<PathBuf>,
    /// The PTX texts that LLVM emits.
    pub emissions: Vec<Emission>,
    /// What is made of the emissions.
    pub outputs: Outputs,
    /// ptxas, if it generates the outputs. Otherwise a library does it in the process of the link.
    pub assembler: Option<Assembler>,
    /// The files that keep the merged and the optimized module, if they are kept.
    pub keep_stages: Option<(PathBuf, PathBuf)>,
    /// Whether a worker reports its spans, for the time trace of the link.
    pub traced: bool,
}

/// Where a unit is in the file of units.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct UnitRange {
    /// Its name in messages.
    pub name: String,
    /// Hash of its bytes, for cache keys.
    pub hash: String,
    /// Offset of its first byte.
    pub start: usize,
    /// Length in bytes.
    pub length: usize,
}

impl CompileJob {
    /// Compiles modules that are open in `session`, in the order of the units. Returns the PTX of each emission.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn compile<'s>(
        &self,
        session: &'s Session,
        modules: Vec<Module<'s>>,
        units: &[NamedBitcode<'_>],
        libdevice: &dyn Fn() -> Option<NamedBitcode<'s>>,
    ) -> Result<Vec<Vec<u8>>, Errors> {
        let merging = span::traced("Merge", || self.name.clone());
        for (unit, name) in &self.promoted {
            if let Some(module) = modules.get(*unit) {
                pipeline::make_weak(module, name);
            }
        }
        let merged = pipeline::merge(session, modules, units)?;
        self.internalize(session, &merged, libdevice)?;
        drop(merging);
        self.optimize(session, &merged)?;
        self.emit(session, merged)
    }

    /// Reads and compiles the units in `content`, the bytes of [`CompileJob::units`].
    ///
    /// # Errors
    /// As [`CompileJob::compile`], and units that are outside of `content`.
    pub fn compile_units<'s>(
        &'s self,
        session: &'s Session,
        content: &'s [u8],
        libdevice: &dyn Fn() -> Option<NamedBitcode<'s>>,
    ) -> Result<Vec<Vec<u8>>, Errors> {
        let units = self.unit_list(content)?;
        if self.parts.is_empty() {
            let modules = pipeline::read_units(session, &units).map_err(Errors::from_iter)?;
            return self.compile(session, modules, &units, libdevice);
        }
        let merged = extract::extract(session, &units, &self.parts, Visibility::All)?;
        self.internalize(session, &merged, libdevice)?;
        self.optimize(session, &merged)?;
        self.emit(session, merged)
    }

    /// Makes all names internal except those that stay visible, and adds the functions of libdevice that are referenced.
    fn internalize<'s>(
        &self,
        session: &'s Session,
        merged: &Module<'s>,
        libdevice: &dyn Fn() -> Option<NamedBitcode<'s>>,
    ) -> Result<(), Errors> {
        pipeline::internalize(merged, &self.keep);
        if pipeline::needs_libdevice(merged)
            && let Some(library) = libdevice()
        {
            pipeline::add_libdevice(session, merged, library)?;
            pipeline::internalize(merged, &self.keep);
        }
        Ok(())
    }

    fn optimize(&self, session: &Session, merged: &Module<'_>) -> Result<(), Errors> {
        if let Some((path, _)) = &self.keep_stages {
            temp_files::write_file(path, &pipeline::bitcode_of(merged))?;
        }
        let optimizing = span::traced("Optimize", || self.name.clone());
        let optimize = if self.parts.is_empty() { pipeline::optimize } else { pipeline::optimize_partition };
        optimize(session, merged, self.target())?;
        drop(optimizing);
        if let Some((_, path)) = &self.keep_stages {
            temp_files::write_file(path, &pipeline::bitcode_of(merged))?;
        }
        Ok(())
    }

    fn emit(&self, session: &Session, merged: Module<'_>) -> Result<Vec<Vec<u8>>, Errors> {
        let mut texts = Vec::with_capacity(self.emissions.len());
        let mut optimized = Some(merged);
        for (index, emission) in self.emissions.iter().enumerate() {
            let target = CodeTarget { arch: emission.arch, ptx: emission.version, level: self.level };
            // Code generation changes the module, so all emissions but the last work on a copy.
            let is_last = index + 1 == self.emissions.len();
            let module = if is_last { optimized.take() } else { optimized.clone() };
            let Some(module) = module else { break };
            if emission.visible_functions {
                visible_functions::expose(&module, target.arch);
            }
            let _emitting = span::traced("Generate PTX", || emission.arch.to_string());
            texts.push(pipeline::emit_ptx(session, &module, target)?);
        }
        Ok(texts)
    }

    /// Returns the target that the code is optimized for.
    pub fn target(&self) -> CodeTarget {
        CodeTarget { arch: self.arch, ptx: self.version, level: self.level }
    }

    /// Finds the units in `content`, the bytes of [`CompileJob::units`].
    ///
    /// # Errors
    /// A unit is outside of `content`.
    pub fn unit_list<'a>(&'a self, content: &'a [u8]) -> Result<Vec<NamedBitcode<'a>>, Errors> {
        let unit = |range: &'a UnitRange| {
            let bitcode = range.start.checked_add(range.length).and_then(|end| content.get(range.start..end));
            bitcode
                .map(|bitcode| NamedBitcode { name: &range.name, bitcode })
                .ok_or_else(|| Error::MissingUnit { unit: range.name.clone(), file: self.units.clone() })
        };
        Ok(self.ranges.iter().map(unit).collect::<Result<_, Error>>()?)
    }
}
