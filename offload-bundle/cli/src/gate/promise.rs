//! That a changed file runs wherever it ran before.

use std::path::Path;

use offload_bundle::archive::reject_thin_members;
use offload_bundle::coverage::gate::{FileCode, FileGate, Requirement};
use offload_bundle::host_object::Search;

use crate::error::{Error, Result};

/// Fails if less runs on one of the GPUs with one of the drivers than before.
pub fn still_runs(file: &Path, before: &[u8], after: &[u8], requirement: &Requirement) -> Result<()> {
    let judged = |data| {
        let code = FileCode::read(data, reject_thin_members, Search::Sections);
        let code = code.map_err(|source| Error::Parse { file: file.to_owned(), source })?;
        Ok::<_, Error>(FileGate::new(&code, requirement))
    };
    let cells = judged(after)?.worse_than(&judged(before)?);
    if cells.is_empty() { Ok(()) } else { Err(Error::Worse { file: file.to_owned(), cells }) }
}
