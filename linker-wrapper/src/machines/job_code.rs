//! What a job generates from bitcode, as a value that any process can run: the link, its workers, and jobs on other machines.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use llvm_passes::amdgpu::PartitionCode;
use llvm_passes::extract::Visibility;
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::session::Session;
use llvm_passes::warm_up;
use llvm_passes::{IrError, Module};
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::machines::amdgcn::job_code::{AmdCode, AmdMade};
use crate::machines::host::job_code::HostJob;
use crate::machines::nvptx::job_code::{NvptxCode, NvptxMade, NvptxText};

/// What a job generates.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub enum JobCode {
    /// For NVIDIA's GPUs.
    Nvptx(NvptxCode),
    /// For AMD's GPUs.
    Amdgpu(AmdCode),
    /// For processors of the host.
    Host(HostJob),
}

/// What LLVM has emitted, in memory.
#[derive(Debug)]
pub enum Emitted {
    /// The PTX of each emission.
    Nvptx(Vec<Vec<u8>>),
    /// An object, or why there is none.
    Amdgpu(PartitionCode),
    /// An object.
    Host(Vec<u8>),
    /// Nothing: a search for code that LLVM cannot compile stops before it.
    Nothing,
}

impl Emitted {
    /// Size of the texts that tools read, in bytes.
    pub fn text_bytes(&self) -> u64 {
        match self {
            Emitted::Nvptx(texts) => texts.iter().map(|text| text.len() as u64).sum(),
            Emitted::Amdgpu(_) | Emitted::Host(_) | Emitted::Nothing => 0,
        }
    }
}

/// What LLVM has emitted, in files.
#[derive(Debug)]
pub enum Written {
    /// PTX, some of it still in memory.
    Nvptx(Vec<NvptxText>),
    /// An object.
    Amdgpu(AmdMade),
    /// An object for processors of the host.
    Host,
    /// Nothing.
    Nothing,
}

/// What a job has made, in files.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub enum Made {
    /// Nothing yet, or nothing that the job does not describe.
    #[default]
    Nothing,
    /// Machine code of ptxas, or PTX for a library.
    Nvptx(NvptxMade),
    /// An object for AMD's GPUs.
    Amdgpu(AmdMade),
    /// An object for processors of the host.
    Host,
}

/// Returns the device library that a module takes functions of.
pub type Library<'l, 's> = &'l dyn Fn() -> Option<NamedBitcode<'s>>;

/// Puts a tool into the folder of a job that runs elsewhere, under a name, and returns its path there.
pub type PutTool<'t> = &'t mut dyn FnMut(&Path, &'static str) -> Result<PathBuf, Errors>;

/// Where a job runs that was made on another machine.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    /// The folder of what the job reads.
    pub inputs: &'p Path,
    /// The folder of what it writes.
    pub work: &'p Path,
    /// The loader of tools, with the folder of their shared libraries, if they need one.
    pub loader: Option<(&'p Path, &'p Path)>,
}

/// The steps of a job, from merged bitcode to files.
pub trait Generate {
    /// The name of the target in messages: `sm_90`, `gfx90a`.
    fn target(&self) -> String;

    /// The visibility of definitions that partitions share.
    fn visibility(&self) -> Visibility {
        Visibility::Kept
    }

    /// Reads all units of a program.
    ///
    /// # Errors
    /// Unreadable bitcode, or bitcode for other machines.
    fn read_units<'s>(&self, session: &'s Session, units: &[NamedBitcode<'_>])
    -> Result<Vec<Module<'s>>, Vec<IrError>>;

    /// Makes all names of a merged module internal that nobody else needs, and adds functions of the device library. `whole`: the module
    /// is the whole program.
    ///
    /// # Errors
    /// An unreadable device library.
    fn internalize<'s>(
        &self,
        session: &'s Session,
        module: &Module<'s>,
        keep: &BTreeSet<String>,
        whole: bool,
        library: Library<'_, 's>,
    ) -> Result<(), Errors>;

    /// Optimizes a module: the whole program, or one of several partitions.
    ///
    /// # Errors
    /// Errors of LLVM.
    fn optimize(&self, session: &Session, module: &Module<'_>, whole: bool) -> Result<(), IrError>;

    /// Generates code of all functions for the target itself, and forgets it: whether LLVM can.
    ///
    /// # Errors
    /// Errors of LLVM.
    fn try_to_emit(&self, session: &Session, module: &Module<'_>) -> Result<(), IrError>;

    /// Generates the code of an optimized module.
    ///
    /// # Errors
    /// Errors of LLVM.
    fn emit(&self, session: &Session, module: Module<'_>, whole: bool) -> Result<Emitted, Errors>;

    /// The same job without outputs: LLVM stops when the module is optimized.
    fn without_outputs(&self) -> JobCode;

    /// The same job without these kernels, unless other code refers to them.
    fn without_kernels(&self, dead: BTreeSet<String>) -> JobCode;

    /// The name and the file of the device library, if there is one.
    fn library(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Writes what was emitted to the files of the job. Returns also the size of each text that tools read, in bytes.
    ///
    /// # Errors
    /// A file cannot be written.
    fn write(&self, emitted: Emitted) -> Result<(Written, Vec<u64>), Errors>;

    /// Whether tools may run after LLVM.
    fn has_tools(&self) -> bool {
        false
    }

    /// Whether tools run in the process of the job, so that they need the memory that LLVM had.
    fn runs_tools(&self) -> bool {
        false
    }

    /// Runs the tools. `name` is the job's, `show` reports each command.
    ///
    /// # Errors
    /// Errors of the tools.
    fn run_tools(&self, name: &str, written: Written, show: &dyn Fn(String)) -> Result<Made, Errors>;

    /// The files that the job has left, in a fixed order.
    fn files(&self, made: &Made) -> Vec<PathBuf>;

    /// Checks that these are the results of the job: what was made, the number of texts that LLVM emitted, and the content of each file,
    /// which has to be whole, for its target, and to have these kernels.
    ///
    /// # Errors
    /// What is wrong with them, and with which tool.
    fn check(&self, made: &Made, texts: usize, files: &[Vec<u8>], kernels: &[String]) -> Result<(), Errors>;

    /// What a job elsewhere has made, as if it had run here. `paths` are the files of the job here.
    fn localized(&self, made: Made, _paths: Vec<PathBuf>) -> Made {
        made
    }

    /// The job as any machine can run it: files of the link have fixed names, and `put` takes the tools.
    ///
    /// # Errors
    /// A tool cannot be read.
    fn portable(&self, put: PutTool<'_>) -> Result<JobCode, Errors>;

    /// The portable job with the paths of the machine that runs it.
    fn placed(&self, place: Place<'_>) -> JobCode;
}

impl JobCode {
    /// The steps of the job.
    pub fn steps(&self) -> &dyn Generate {
        match self {
            JobCode::Nvptx(code) => code,
            JobCode::Amdgpu(code) => code,
            JobCode::Host(code) => code,
        }
    }

    /// The word for [`prepare`].
    pub fn machine(&self) -> &'static str {
        match self {
            JobCode::Nvptx(_) => "nvptx",
            JobCode::Amdgpu(_) => "amdgpu",
            JobCode::Host(_) => "host",
        }
    }
}

/// Prepares this process for jobs whose [`JobCode::machine`] is this.
pub fn prepare(machine: &OsStr) {
    llvm_passes::initialize();
    match machine.to_str() {
        Some("nvptx") => warm_up::nvptx(),
        Some("amdgpu") => warm_up::amdgpu(),
        _ => {}
    }
}
