//! What an edit makes of one file.

use std::path::Path;

use offload_bundle::archive::reject_thin_members;
use offload_bundle::listing::{self, Row};
use serde::Serialize;

use crate::error::{Error, Result};

/// A file with its images changed.
pub struct Edited {
    pub bytes: Vec<u8>,
    /// Bytes that are no longer used and stay in the file, as zeros.
    pub zeroed: u64,
    /// What a reader should know of the result.
    pub notes: Vec<String>,
}

/// Changes the bytes of a file, of which the name is for messages; `None` if they stay.
pub type Edit<'e> = dyn Fn(&Path, &[u8]) -> Result<Option<Edited>> + 'e;

/// What was changed in one file.
#[derive(Serialize)]
pub struct FileChange {
    pub file: String,
    pub size_before: u64,
    pub size_after: u64,
    pub zeroed: u64,
    pub notes: Vec<String>,
    #[serde(skip)]
    pub before: Vec<Row>,
    #[serde(skip)]
    pub after: Vec<Row>,
}

impl FileChange {
    /// The change of a file, whose images are read before and afterwards.
    pub fn new(name: &str, data: &[u8], edited: &Edited) -> Result<Self> {
        let rows = |data: &[u8]| {
            let mut rows = Vec::new();
            let visited = listing::visit(data, reject_thin_members, |found| {
                rows.push(found.row.clone());
                Ok(())
            });
            visited.map(|()| rows).map_err(|source| Error::Parse { file: name.into(), source })
        };
        Ok(Self {
            file: name.to_owned(),
            size_before: data.len() as u64,
            size_after: edited.bytes.len() as u64,
            zeroed: edited.zeroed,
            notes: edited.notes.clone(),
            before: rows(data)?,
            after: rows(&edited.bytes)?,
        })
    }
}
