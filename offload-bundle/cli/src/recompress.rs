//! `offload-bundle recompress`.

use std::path::{Path, PathBuf};

use clap::Args;
use offload_bundle::arch::table::KNOWN;
use offload_bundle::archive::reject_thin_members;
use offload_bundle::coverage::gate::Requirement;
use offload_bundle::coverage::{self, Driver, DriverNeeds, FoundContainer, GpuWord, Gpus, driver_needs};
use offload_bundle::fatbin::StoreMode;
use offload_bundle::host_object::Search;
use offload_bundle::recompress;

use crate::edit::{self, EditArguments};
use crate::error::{Error, Result};
use crate::file_change::Edited;
use crate::gate::promise::still_runs;
use crate::output::CommandOutput;
use crate::words::{Word, one_of};

const MODES: &[Word<StoreMode>] = &[
    ("size", StoreMode::Size, "Zstandard, as small as possible, which takes long"),
    ("balance", StoreMode::Balance, "Zstandard, as nvcc of CUDA 13 does by default"),
    ("speed", StoreMode::Speed, "LZ4, which drivers before 550 read, too"),
    ("none", StoreMode::None, "Not compressed"),
];

#[derive(Args)]
pub struct RecompressArguments {
    /// A fatbin, an object, executable or shared library with fatbins, or a wheel of those
    file: PathBuf,
    /// The form in which all images are stored
    #[arg(long, value_parser = one_of(MODES))]
    mode: StoreMode,
    /// Compress the PTX of each fatbin as one, and its machine code, as `fatbinary --concat` of CUDA 13.5 does: drivers up to 580 do not
    /// load what is stored so
    #[arg(long)]
    concat: bool,
    /// Reject a form that would run on fewer of these GPUs with --driver than before, such as sm_80,H100, sm_80..sm_90 or all-supported
    #[arg(long = "for", id = "gpus", value_name = "GPU,...", value_delimiter = ',')]
    gpus: Vec<GpuWord>,
    /// The drivers that must run it as before, such as 535,580; without --for, on all supported GPUs
    #[arg(long, value_name = "DRIVER,...", value_delimiter = ',')]
    driver: Vec<Driver>,
    #[command(flatten)]
    edit: EditArguments,
    /// Print a JSON object instead of text
    #[arg(long)]
    json: bool,
}

impl RecompressArguments {
    /// Where it must run as before, if that is said.
    fn requirement(&self) -> Option<Requirement> {
        let mut gpus = Gpus::of_words(&self.gpus);
        if gpus.is_empty() {
            gpus.nvidia = KNOWN.current_gpus().collect();
        }
        let drivers = self.driver.clone();
        let is_given = !self.gpus.is_empty() || !drivers.is_empty();
        is_given.then(|| Requirement { gpus, drivers, ..Requirement::default() })
    }
}

pub fn run(arguments: &RecompressArguments) -> Result<CommandOutput> {
    if arguments.concat && arguments.mode == StoreMode::None {
        return Err(Error::UncompressedConcatenation);
    }
    let requirement = arguments.requirement();
    let recompress = |file: &Path, data: &[u8]| {
        let failed = |source| Error::Parse { file: file.to_owned(), source };
        let form = if arguments.concat { recompress::concatenate } else { recompress::recompress };
        let new = form(data, arguments.mode).map_err(failed)?;
        if new.changed == 0 {
            return Ok(None);
        }
        if let Some(requirement) = &requirement {
            still_runs(file, data, &new.bytes, requirement)?;
        }
        let before = coverage::containers(data, reject_thin_members, Search::Sections).map_err(failed)?;
        let after = coverage::containers(&new.bytes, reject_thin_members, Search::Sections).map_err(failed)?;
        let notes = note(&before, &after).into_iter().chain(concatenated(&before, &after)).collect();
        Ok(Some(Edited { bytes: new.bytes, zeroed: new.zeroed, notes }))
    };
    let destination = arguments.edit.destination(&arguments.file)?;
    let stored_so = || Error::StoredSo { file: arguments.file.clone() };
    edit::run(&arguments.file, &destination, arguments.json, &recompress, &|| Ok(()), stored_so)
}

/// What becomes of images that were or are compressed as one.
fn concatenated(before: &[FoundContainer], after: &[FoundContainer]) -> Option<String> {
    let count =
        |all: &[FoundContainer]| all.iter().flat_map(|found| &found.codes).filter(|c| c.is_concatenated).count();
    match (count(before), count(after)) {
        (0, 0) => None,
        (parts, 0) => Some(format!("{parts} images were concatenated: drivers up to 580 passed over them")),
        (_, parts) => Some(format!(
            "{parts} images are concatenated: drivers up to 580 pass over them, and no newer one is known to load them"
        )),
    }
}

/// Which drivers cannot load the result.
fn note(before: &[FoundContainer], after: &[FoundContainer]) -> Option<String> {
    let needs =
        |all: &[FoundContainer]| all.iter().map(|found| driver_needs(&found.codes)).collect::<Vec<DriverNeeds>>();
    let (before, after) = (needs(before), needs(after));
    let newest = |needs: &[DriverNeeds]| needs.iter().filter_map(|needs| needs.branch).max();
    let (old, new) = (newest(&before), newest(&after)?);
    let stricter = before.iter().zip(&after).filter(|(before, after)| before.branch < after.branch).count();
    let of = format!("{stricter} of {} fatbins", after.len());
    Some(match (stricter, old) {
        (0, _) => {
            format!("drivers before branch {new} cannot load all of it, as before, because of what the images are")
        }
        (_, Some(old)) if old == new => {
            format!(
                "{of} need a newer driver than before; drivers before branch {new} cannot load all of it, as before"
            )
        }
        (_, Some(old)) => {
            format!("drivers before branch {new} cannot load {of}, which drivers from branch {old} on could")
        }
        (_, None) => format!("drivers before branch {new} cannot load {of}, which any driver could"),
    })
}
