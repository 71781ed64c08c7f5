//! The programs that are linked: generated sources, and their objects.

mod objects;
mod sources;

use std::path::PathBuf;

pub use objects::{Compiler, Form, Producer, Targets};
pub use sources::{
    DEAD_UNITS, SCALE_STEP, TWINS, dead_program, library_of_tests as library, scale, shared, tests, twins,
    twins_program,
};
use sources::{DIRECT, SMALL, Unit, VERSION};
use xtask::failure::Result;
use xtask::step::Progress;

/// The programs of the timed cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Corpus {
    Small,
    Medium,
    Large,
    /// For an AMD GPU.
    Hip,
    /// The same without calls through pointers.
    HipDirect,
}

impl Corpus {
    /// The objects that clang makes of it.
    pub fn objects(self, compiler: &Compiler, progress: &Progress, targets: Targets) -> Result<Vec<PathBuf>> {
        self.objects_of(Producer::Clang, compiler, progress, targets)
    }

    /// The objects that a compiler makes of it.
    pub fn objects_of(
        self,
        producer: Producer,
        compiler: &Compiler,
        progress: &Progress,
        targets: Targets,
    ) -> Result<Vec<PathBuf>> {
        compiler.objects(progress, &self.units(), targets, producer, self.variant())
    }

    fn units(self) -> Vec<Unit> {
        match self {
            Corpus::Small => sources::small(),
            Corpus::Medium => sources::medium(),
            Corpus::Large => sources::large(),
            Corpus::Hip => sources::hip(),
            Corpus::HipDirect => sources::hip_direct(),
        }
    }

    fn variant(self) -> &'static str {
        match self {
            Corpus::Small => SMALL,
            Corpus::HipDirect => DIRECT,
            Corpus::Medium | Corpus::Large | Corpus::Hip => "",
        }
    }
}

/// Replaces the object of the unit that another version exists of.
pub fn with_change(
    compiler: &Compiler,
    progress: &Progress,
    objects: &[PathBuf],
    targets: Targets,
    producer: Producer,
) -> Result<Vec<PathBuf>> {
    let changed = if targets == Targets::Amd { sources::as_hip(sources::changed()) } else { sources::changed() };
    let changed = compiler.objects(progress, &[changed], targets, producer, VERSION)?;
    let replaced = |object: &PathBuf| {
        let same = |changed: &&PathBuf| changed.file_name() == object.file_name();
        changed.iter().find(same).unwrap_or(object).clone()
    };
    Ok(objects.iter().map(replaced).collect())
}

/// What `--objects` compiles.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum NamedCorpus {
    Small,
    Medium,
    MediumTwo,
    Large,
    LargeTwo,
    /// large without the kernels that take far longer than all others
    Flat,
    /// the other version of one unit of large
    Changed,
    /// kernels of one size
    Scale,
    /// HIP for an AMD GPU
    Hip,
    /// the same without calls through pointers
    HipDirect,
}

impl NamedCorpus {
    /// Compiles it.
    pub fn objects(self, compiler: &Compiler, progress: &Progress) -> Result<Vec<PathBuf>> {
        let (units, targets, variant) = match self {
            Self::Small => (sources::small(), Targets::One, SMALL),
            Self::Medium => (sources::medium(), Targets::One, ""),
            Self::MediumTwo => (sources::medium(), Targets::Two, ""),
            Self::Large => (sources::large(), Targets::One, ""),
            Self::LargeTwo => (sources::large(), Targets::Two, ""),
            Self::Flat => (sources::flat(), Targets::One, ""),
            Self::Changed => (vec![sources::changed()], Targets::One, VERSION),
            Self::Scale => ([shared(), scale()].concat(), Targets::One, ""),
            Self::Hip => (sources::hip(), Targets::Amd, ""),
            Self::HipDirect => (sources::hip_direct(), Targets::Amd, DIRECT),
        };
        compiler.objects(progress, &units, targets, Producer::Clang, variant)
    }
}
