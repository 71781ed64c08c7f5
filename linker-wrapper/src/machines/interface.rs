//! The trait that a machine implements, and the values that it exchanges with the device link.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::PathBuf;

use llvm_passes::equal_kernels::Bodies;
use llvm_passes::pipeline::NamedBitcode;
use llvm_passes::program;
use llvm_passes::resolve::UnitSymbols;
use llvm_passes::session::Message;
use llvm_passes::unit::Unit;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::device::compat_checks::ComparedTarget;
use crate::device::targets::{DeviceImage, TargetImages};
use crate::diag::error::Errors;
use crate::machines::job_code::{Emitted, JobCode, Made};
use crate::plan::report::{BackendReport, Outputs};
use crate::plan::target_plan::{Names, TargetPlan};

/// What device code runs on: NVIDIA's GPUs, AMD's, processors of the host. A machine knows its targets, its code and its tools, and
/// nothing about jobs, caches and processes: `lto/` links the code of all machines by this trait.
pub trait Machine: Sync + Sized {
    /// A target, which messages print: `sm_90`, `gfx90a:xnack+`.
    type Arch: Display + Clone + Send + Sync;
    /// What resolving the names of a target leaves for [`Machine::plan`].
    type Resolved;
    /// What this machine adds to the plan of a target.
    type Plan: Send + Sync;
    /// The code that a job compiles, ready to be joined.
    type Code: Default + Send + Sync;
    /// The same, as the cache holds it.
    type Stored: Serialize + DeserializeOwned + Send;
    /// The linked code of a target.
    type Linked: Clone + Default + Serialize + DeserializeOwned + Send + Sync;

    /// The name of the machine in cache keys and file names: `nvptx64`.
    fn name(&self) -> &'static str;

    /// What the machine allows of the copies that partitions take.
    fn rules(&self) -> program::Machine;

    /// The beginning of the names of a target's intermediate files.
    fn stem(&self, arch: &Self::Arch) -> String;

    /// The name of the job that compiles a whole program.
    fn whole_job(&self, arch: &Self::Arch) -> String;

    /// LLVM's own options for this machine's code.
    fn llvm_options(&self) -> Vec<String>;

    /// Looks for the tools that every link needs, before the long work.
    ///
    /// # Errors
    /// A tool is missing.
    fn require_tools(&self) -> Result<(), Errors> {
        Ok(())
    }

    /// Rejects images that no link of the target can use.
    ///
    /// # Errors
    /// One for each of them.
    fn check_images(&self, _target: &TargetImages<'_, Self::Arch>) -> Result<(), Errors> {
        Ok(())
    }

    /// Returns why the target's program has to be compiled in one piece, whatever its size.
    fn one_piece(&self, _target: &TargetImages<'_, Self::Arch>) -> Option<OnePiece> {
        None
    }

    /// What compiling a partition costs, in instructions. The partition has `instructions`, its largest function `largest`.
    fn cost(&self, instructions: u64, _largest: u64) -> u64 {
        instructions
    }

    /// Returns what the compatibility checks read of the target.
    fn compared<'i>(&self, target: &'i TargetImages<'i, Self::Arch>) -> ComparedTarget<'i>;

    /// Rejects units of a program that cannot be linked with each other.
    ///
    /// # Errors
    /// One for each that does not fit the first.
    fn check_units(&self, _units: &[&Unit<'_>]) -> Result<(), Errors> {
        Ok(())
    }

    /// Whether the link of a program in one piece resolves its names; if not, the machine's linker does.
    fn resolves(&self, _target: &TargetImages<'_, Self::Arch>) -> bool {
        true
    }

    /// Reads the symbols of an image that is no bitcode.
    ///
    /// # Errors
    /// A damaged image, or one that cannot be linked with others.
    fn symbols(&self, _image: &DeviceImage<'_>, _target: &TargetImages<'_, Self::Arch>) -> Result<UnitSymbols, Errors> {
        Ok(UnitSymbols::default())
    }

    /// Decides which definitions prevail, and which names stay visible.
    ///
    /// # Errors
    /// Duplicate and undefined symbols.
    fn resolve(&self, facts: &NameFacts<'_, Self>) -> Result<(Names, Self::Resolved), Errors>;

    /// Names, for the plan, that stay visible in addition to [`Names::visible`].
    ///
    /// # Errors
    /// Unreadable bitcode.
    fn also_visible(
        &self,
        _target: &TargetImages<'_, Self::Arch>,
        _symbols: &[UnitSymbols],
    ) -> Result<BTreeSet<String>, Errors> {
        Ok(BTreeSet::new())
    }

    /// Returns why none of the equal kernels of a target are left out, if that is so.
    fn why_not_folded(&self, _target: &TargetImages<'_, Self::Arch>, _bodies: &[&Bodies]) -> Option<String> {
        None
    }

    /// Names code that is no bitcode, for messages: "machine code".
    fn other_code(&self) -> &'static str {
        "machine code"
    }

    /// Completes the plan of a target.
    ///
    /// # Errors
    /// No tool can link the target.
    fn plan(
        &self,
        facts: &NameFacts<'_, Self>,
        plan: &TargetPlan,
        resolved: Self::Resolved,
    ) -> Result<Self::Plan, Errors>;

    /// Whether the only partition of a target can be compiled to finished code, with nothing left to link.
    fn is_finishable(&self, _target: &Planned<'_, Self>) -> Result<bool, Errors> {
        Ok(false)
    }

    /// Describes what the code of a job becomes.
    ///
    /// # Errors
    /// The target is too new for a tool.
    fn job_code(&self, target: &Planned<'_, Self>, part: &JobPart<'_>) -> Result<JobCode, Errors>;

    /// Returns the device library that functions of merged code are taken from.
    fn library(&self) -> Option<NamedBitcode<'_>> {
        None
    }

    /// Turns what LLVM emitted in this process into the code of the job.
    ///
    /// # Errors
    /// Errors of a tool.
    fn finish(
        &self,
        target: &Planned<'_, Self>,
        name: &str,
        code: &JobCode,
        emitted: Emitted,
    ) -> Result<Generated<Self::Code>, Errors>;

    /// Reads what a worker has made, and generates what it did not. `sizes` are those of the texts that LLVM emitted there.
    ///
    /// # Errors
    /// A missing file, or errors of a tool.
    fn read(
        &self,
        target: &Planned<'_, Self>,
        name: &str,
        code: &JobCode,
        made: Made,
        sizes: &[u64],
    ) -> Result<Generated<Self::Code>, Errors>;

    /// Checks code of a job, whoever made or kept it, before anything is made of it: it has to be whole, for its target, and to have all
    /// kernels of what it was made of, and these.
    ///
    /// # Errors
    /// What is wrong with it, and with which tool.
    fn check(&self, arch: &Self::Arch, code: &Self::Code, kernels: &[String]) -> Result<(), Errors>;

    /// The same for the linked code of a target.
    ///
    /// # Errors
    /// As [`Machine::check`].
    fn check_linked(&self, arch: &Self::Arch, linked: &Self::Linked) -> Result<(), Errors>;

    /// Returns what the cache holds of a job's code.
    fn store(&self, code: &Self::Code) -> Self::Stored;

    /// Returns the code of a job that the cache has. `described` names it in messages. Returns `None` if it does not fit the job.
    ///
    /// # Errors
    /// A file for a tool cannot be written.
    fn restore(
        &self,
        name: &str,
        described: &str,
        code: &JobCode,
        stored: Self::Stored,
    ) -> Result<Option<Self::Code>, Errors>;

    /// The images of a target that become code in jobs of their own, by index.
    fn assemblies(&self, _target: &Planned<'_, Self>) -> Vec<usize> {
        Vec::new()
    }

    /// The size of the text of such an image, in bytes.
    fn assembly_size(&self, target: &Planned<'_, Self>, place: usize) -> u64 {
        target.images.images.get(place).map_or(0, |image| image.bytes.len() as u64)
    }

    /// Everything that the code of such an image depends on, besides the tools.
    ///
    /// # Errors
    /// It is not cached, perhaps for a reason that users should know.
    fn assembly_fields(&self, _target: &Planned<'_, Self>, _place: usize) -> Result<Fields, NotCached> {
        Err(None)
    }

    /// Makes the code of such an image, unless the cache has it.
    ///
    /// # Errors
    /// Errors of a tool.
    fn assemble(
        &self,
        _target: &Planned<'_, Self>,
        _place: usize,
        _stored: Option<Self::Stored>,
    ) -> Result<Generated<Self::Code>, Errors> {
        Ok(Generated::default())
    }

    /// Adds to the code of such an image what only this link knows.
    ///
    /// # Errors
    /// The code cannot be changed.
    fn declare(&self, _target: &Planned<'_, Self>, _place: usize, code: Self::Code) -> Result<Self::Code, Errors> {
        Ok(code)
    }

    /// Joins the compiled code of a target, and that of [`Machine::assemblies`].
    ///
    /// # Errors
    /// Errors of the machine's linker.
    fn join(
        &self,
        target: &Planned<'_, Self>,
        parts: Vec<Compiled<Self::Code>>,
        assembled: Vec<Self::Code>,
        again: Again<'_, Self>,
    ) -> Result<Joined<Self::Linked>, Errors>;

    /// Returns messages of tools about compiled code, which are printed with the linked target.
    fn diagnostics<'c>(&self, _code: &'c Self::Code) -> &'c [String] {
        &[]
    }

    /// Size of the machine code in bytes.
    fn code_bytes(&self, code: &Self::Code) -> u64;

    /// Everything that the result of a job depends on, besides its bitcode and the tools.
    ///
    /// # Errors
    /// It is not cached, perhaps for a reason that users should know.
    fn code_fields(&self, code: &JobCode) -> Result<Fields, NotCached>;

    /// Everything that a linked target depends on, besides its images, the names that the host registers, and the tools.
    ///
    /// # Errors
    /// It is not cached, perhaps for a reason that users should know.
    fn target_fields(&self, _target: &TargetImages<'_, Self::Arch>) -> Result<Fields, NotCached> {
        Err(None)
    }

    /// The tools and libraries that a step reads.
    ///
    /// # Errors
    /// Why results of the step are not cached.
    fn tools(&self, _step: Step) -> Result<Vec<Tool<'_>>, String> {
        Ok(Vec::new())
    }

    /// Returns why files that no key covers may affect a step, if that is so.
    fn unknown_input(&self, _step: Step) -> Option<String> {
        None
    }

    /// Returns why jobs cannot run on other machines, if that is so.
    fn needed_here(&self) -> Option<String> {
        self.unknown_input(Step::Compile)
    }

    /// Chooses the tools for a target that the cache has, so that reports name them.
    fn choose_tools(&self, _target: &TargetImages<'_, Self::Arch>) {}

    /// Describes what generates and links the machine code of a target, for the plan.
    fn backend(&self, arch: &Self::Arch) -> Option<BackendReport>;

    /// What is generated from a target's code, for the plan.
    fn outputs(&self, _target: &Planned<'_, Self>) -> Vec<Outputs> {
        Vec::new()
    }
}

/// What [`Machine::resolve`] and [`Machine::plan`] read.
pub struct NameFacts<'f, M: Machine> {
    /// The images.
    pub target: &'f TargetImages<'f, M::Arch>,
    /// The symbols of each image; none if the machine's linker resolves them.
    pub symbols: &'f [UnitSymbols],
    /// Whether the program may be cut.
    pub may_be_cut: bool,
    /// Finds the functions of an image, by its index, that reference a name; for messages.
    pub users: &'f dyn Fn(usize, &str) -> Vec<String>,
}

/// A target whose link is planned.
pub struct Planned<'a, M: Machine> {
    /// The code.
    pub images: &'a TargetImages<'a, M::Arch>,
    /// What all machines plan.
    pub plan: TargetPlan,
    /// What this machine plans besides.
    pub own: M::Plan,
}

/// Why a program is compiled in one piece.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OnePiece {
    /// The reason, if users should know it, as a sentence without a full stop.
    pub reason: Option<String>,
}

/// The part of a program that a job compiles.
#[derive(Clone, Copy)]
pub struct JobPart<'p> {
    /// The job's name, which begins the names of its files.
    pub name: &'p str,
    /// Its name in messages: "the kernels a, b for sm_90".
    pub described: &'p str,
    /// The bitcode units that it takes code of, by index; `None` for all code of all units.
    pub units: Option<&'p [usize]>,
    /// Whether the code needs no linker afterwards.
    pub is_finished: bool,
}

/// Code that tools generated.
#[derive(Debug, Default)]
pub struct Generated<C> {
    /// The code.
    pub code: C,
    /// Peak memory of the tools in bytes.
    pub tools_peak: u64,
    /// For each text that a tool read: its size, and the tool's peak memory, both in bytes.
    pub learned: Vec<(u64, u64)>,
}

/// Compiled code.
#[derive(Debug, Clone)]
pub struct Compiled<C> {
    /// The code.
    pub code: C,
    /// LLVM's messages.
    pub messages: Vec<Message>,
}

/// Compiles a target's program once more, in one piece, for this machine.
pub type Again<'l, M> = &'l dyn Fn(&M) -> Result<Vec<Compiled<<M as Machine>::Code>>, Errors>;

/// A linked target.
#[derive(Debug, Default)]
pub struct Joined<L> {
    /// The linked code.
    pub linked: L,
    /// LLVM's messages, by job.
    pub messages: Vec<Vec<Message>>,
    /// Messages of the tools.
    pub diagnostics: Vec<String>,
    /// Whether all of it was joined from partitions that the cache has.
    pub is_joined: bool,
}

/// Fields of a cache key: name and value.
pub type Fields = Vec<(&'static str, Vec<u8>)>;

/// Why a result is not cached, if users should know that, as a sentence without a full stop.
pub type NotCached = Option<String>;

/// A step whose results are cached.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The compilation of a partition.
    Compile,
    /// The link of a target, from its images.
    Link,
}

/// A tool or library.
pub struct Tool<'t> {
    /// Its name in cache keys.
    pub name: &'static str,
    /// Its file.
    pub path: PathBuf,
    /// Returns its version, if it is a program.
    pub version: Option<Version<'t>>,
}

/// Returns the version of a program, or why it cannot be known.
pub type Version<'t> = Box<dyn Fn() -> Result<String, String> + Send + Sync + 't>;
