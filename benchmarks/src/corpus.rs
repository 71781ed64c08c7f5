//! The programs that are linked: generated sources, and their objects.

mod objects;
mod sources;

use std::path::PathBuf;

pub use objects::{Compiler, Targets};
pub use sources::{SCALE_STEP, scale, shared};
use sources::{SMALL, Unit, VERSION};
use xtask::failure::Result;
use xtask::step::Progress;

/// The programs of the timed cases.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Corpus {
    Small,
    Medium,
    Large,
}

impl Corpus {
    /// The objects that clang makes of it.
    pub fn objects(self, compiler: &Compiler, progress: &Progress, targets: Targets) -> Result<Vec<PathBuf>> {
        compiler.objects(progress, &self.units(), targets, self.variant())
    }

    /// The same of nvcc.
    pub fn nvcc_objects(self, compiler: &Compiler, progress: &Progress, targets: Targets) -> Result<Vec<PathBuf>> {
        compiler.nvcc_objects(progress, &self.units(), targets, self.variant())
    }

    fn units(self) -> Vec<Unit> {
        match self {
            Corpus::Small => sources::small(),
            Corpus::Medium => sources::medium(),
            Corpus::Large => sources::large(),
        }
    }

    fn variant(self) -> &'static str {
        match self {
            Corpus::Small => SMALL,
            Corpus::Medium | Corpus::Large => "",
        }
    }
}

/// Replaces the object of the unit that another version exists of.
pub fn with_change(
    compiler: &Compiler,
    progress: &Progress,
    objects: &[PathBuf],
    targets: Targets,
) -> Result<Vec<PathBuf>> {
    let changed = compiler.objects(progress, &[sources::changed()], targets, VERSION)?;
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
        };
        compiler.objects(progress, &units, targets, variant)
    }
}
