//! The description of a compilation, from bitcode to machine code: its inputs, options and outputs. Any thread or worker process can
//! run it. The part of LLVM up to the optimized module is here, what follows depends on the [`JobCode`].

use std::collections::BTreeSet;
use std::path::PathBuf;

use llvm_passes::Module;
use llvm_passes::extract::{self, UnitPart};
use llvm_passes::pipeline::{self, NamedBitcode};
use llvm_passes::session::Session;
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::lto::error::Error;
use crate::machines::job_code::{JobCode, Library};
use crate::profile::span;
use crate::sys::temp_files;
use crate::sys::written_path;

/// One job. All paths are absolute or relative to the folder of the link.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CompileJob {
    /// "sm_90.0": the target and the number of the partition.
    pub name: String,
    /// LLVM's own options.
    pub llvm_options: Vec<String>,
    /// The file that holds all bitcode units of the target; empty if the modules are open in this process.
    #[serde(with = "written_path")]
    pub units: PathBuf,
    /// The units that `parts` refers to, and where they are in the file.
    pub ranges: Vec<UnitRange>,
    /// The parts of units that are compiled; empty for all code of all units.
    pub parts: Vec<UnitPart>,
    /// Linkonce definitions, with their units, that are made weak before the merge.
    pub promoted: Vec<(usize, String)>,
    /// Names that stay visible.
    pub keep: BTreeSet<String>,
    /// The kernels of a partition, which its code has to have.
    #[serde(default)]
    pub kernels: Vec<String>,
    /// What is generated.
    pub code: JobCode,
    /// The files that keep the merged and the optimized module, if they are kept.
    #[serde(with = "written_path")]
    pub saved_stages: Option<(PathBuf, PathBuf)>,
    /// Where a worker of this link looks for the result of the same code.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cached_code: Option<CachedCode>,
    /// Whether a worker reports its spans, for the time trace of the link.
    pub traced: bool,
}

/// Where the results of compiled code are cached, whatever units it came from.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct CachedCode {
    /// The folder of the cache.
    #[serde(with = "written_path")]
    pub folder: PathBuf,
    /// The hash of everything that the result depends on besides the code.
    pub base: [u8; 32],
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
    /// Whether the job compiles all code of all units.
    pub fn is_whole(&self) -> bool {
        self.parts.is_empty()
    }

    /// Merges and optimizes modules that are open in `session`, in the order of the units.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn optimize<'s>(
        &self,
        session: &'s Session,
        modules: Vec<Module<'s>>,
        units: &[NamedBitcode<'_>],
        library: Library<'_, 's>,
    ) -> Result<Module<'s>, Errors> {
        let merged = self.merge(session, modules, units, library)?;
        self.optimize_merged(session, merged)
    }

    fn merge<'s>(
        &self,
        session: &'s Session,
        modules: Vec<Module<'s>>,
        units: &[NamedBitcode<'_>],
        library: Library<'_, 's>,
    ) -> Result<Module<'s>, Errors> {
        let _merging = span::traced("Merge", || self.name.clone());
        for (unit, name) in &self.promoted {
            if let Some(module) = modules.get(*unit) {
                pipeline::make_weak(module, name);
            }
        }
        let merged = pipeline::merge(session, modules, units)?;
        self.code.steps().internalize(session, &merged, &self.keep, self.is_whole(), library)?;
        Ok(merged)
    }

    /// Reads and merges the units in `content`, the bytes of [`CompileJob::units`].
    ///
    /// # Errors
    /// As [`CompileJob::optimize`], and units that are outside of `content`.
    pub fn merge_units<'s>(
        &'s self,
        session: &'s Session,
        content: &'s [u8],
        library: Library<'_, 's>,
    ) -> Result<Module<'s>, Errors> {
        let units = self.unit_list(content)?;
        if self.is_whole() {
            let reading = span::traced("Read units", || self.name.clone());
            let modules = self.code.steps().read_units(session, &units).map_err(Errors::from_iter)?;
            drop(reading);
            return self.merge(session, modules, &units, library);
        }
        let _extracting = span::traced("Extract", || self.name.clone());
        let merged = extract::extract(session, &units, &self.parts, self.code.steps().visibility())?;
        self.code.steps().internalize(session, &merged, &self.keep, false, library)?;
        Ok(merged)
    }

    /// Optimizes the merged units.
    ///
    /// # Errors
    /// Errors of LLVM.
    pub fn optimize_merged<'s>(&self, session: &Session, merged: Module<'s>) -> Result<Module<'s>, Errors> {
        if let Some((path, _)) = &self.saved_stages {
            temp_files::write_file(path, &pipeline::bitcode_of(&merged))?;
        }
        let optimizing = span::traced_passes("Optimize", || self.name.clone());
        self.code.steps().optimize(session, &merged, self.is_whole())?;
        drop(optimizing);
        if let Some((_, path)) = &self.saved_stages {
            temp_files::write_file(path, &pipeline::bitcode_of(&merged))?;
        }
        Ok(merged)
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
