//! The programs that are linked: generated sources, and their objects.

mod objects;
mod sources;

use std::path::PathBuf;

pub use objects::{Compiler, Targets};
pub use sources::{
    DEAD_UNITS, SCALE_STEP, TWINS, dead_program, library_of_tests as library, scale, shared, tests, twins,
    twins_program,
};
use sources::{DIRECT, SMALL, Unit, VERSION};
use xtask::failure::Result;
use xtask::step::Progress;

/// Units that `--objects` compiles; most of them are the programs of the timed cases.
#[derive(Clone, Copy, Debug, PartialEq, clap::ValueEnum)]
pub enum Corpus {
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

impl Corpus {
    /// The objects that clang makes of it.
    pub fn objects(self, compiler: &Compiler, progress: &Progress) -> Result<Vec<PathBuf>> {
        compiler.objects(progress, &self.units(), self.targets(), self.variant())
    }

    /// The GPUs that it is compiled for.
    pub fn targets(self) -> Targets {
        match self {
            Corpus::MediumTwo | Corpus::LargeTwo => Targets::Two,
            Corpus::Hip | Corpus::HipDirect => Targets::Amd,
            _ => Targets::One,
        }
    }

    fn units(self) -> Vec<Unit> {
        match self {
            Corpus::Small => sources::small(),
            Corpus::Medium | Corpus::MediumTwo => sources::medium(),
            Corpus::Large | Corpus::LargeTwo => sources::large(),
            Corpus::Flat => sources::flat(),
            Corpus::Changed => vec![sources::changed()],
            Corpus::Scale => [shared(), scale()].concat(),
            Corpus::Hip => sources::hip(),
            Corpus::HipDirect => sources::hip_direct(),
        }
    }

    fn variant(self) -> &'static str {
        match self {
            Corpus::Small => SMALL,
            Corpus::Changed => VERSION,
            Corpus::HipDirect => DIRECT,
            _ => "",
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
    let changed = if targets == Targets::Amd { sources::as_hip(sources::changed()) } else { sources::changed() };
    let changed = compiler.objects(progress, &[changed], targets, VERSION)?;
    let replaced = |object: &PathBuf| {
        let same = |changed: &&PathBuf| changed.file_name() == object.file_name();
        changed.iter().find(same).unwrap_or(object).clone()
    };
    Ok(objects.iter().map(replaced).collect())
}
