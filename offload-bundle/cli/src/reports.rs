//! The reports of a command that inspects several files.

use std::path::PathBuf;

use offload_bundle::coverage::OfFile;
use serde::Serialize;

use crate::error::{Error, Result};
use crate::output;
use crate::packages::{self, Content, Parts};

/// The reports on the files that a command was given, or that folders and packages hold.
pub struct Reports<R> {
    /// In the order of the files.
    pub reports: Vec<OfFile<R>>,
    /// Whether there may be several, so that each needs its name.
    pub are_several: bool,
    /// The files that could not be read, if there may be several.
    pub errors: Vec<Error>,
}

impl<R: Serialize> Reports<R> {
    /// Calls `report` for each file. A file without a report is passed over; if that are all, the error says that there is `nothing`.
    pub fn of_each(
        files: &[PathBuf],
        parts: Parts,
        nothing: &'static str,
        mut report: impl FnMut(&Content<'_>) -> Result<Option<R>>,
    ) -> Result<Self> {
        let mut reports = Vec::new();
        let mut errors = packages::visit(files, parts, &mut |content| {
            let file = content.name.clone();
            reports.extend(report(content)?.map(|report| OfFile { file, report }));
            Ok(())
        });
        if reports.is_empty() && errors.is_empty() {
            let file = files.first().cloned().unwrap_or_default();
            errors.push(Error::NothingInside { file, others: files.len().saturating_sub(1), nothing });
        }
        if reports.is_empty() {
            Error::all(std::mem::take(&mut errors))?;
        }
        Ok(Self { reports, are_several: packages::are_several(files), errors })
    }

    /// The report on the only file, unless there may be several.
    pub fn one(&self) -> Option<&R> {
        self.reports.first().map(|of| &of.report).filter(|_| !self.are_several)
    }

    /// The report as a JSON object; those on several files as an array of objects with the key `file`.
    pub fn json(&self) -> Result<String> {
        self.one().map_or_else(|| output::json(&self.reports), output::json)
    }
}
