//! Runs the host linker, with the registration objects among its inputs.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use offload_bundle::audit::{MissingSymbol, ReadImages};

use crate::device::{host_hints, host_words};
use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::host::{dependency_file, folded_stubs, host_linker, host_lto, image_section, linker_kind, relocatable};
use crate::link::audit;
use crate::link::inputs::Files;
use crate::link::modes::Output;
use crate::link::selection::Selected;
use crate::plan::link_context::{LinkContext, Request};
use crate::profile::span;
use crate::sys::temp_files::{self, FileState};

/// A host link whose device code is linked.
pub struct HostLink<'a> {
    /// The request, the host linker and the temporary files.
    pub context: &'a LinkContext<'a>,
    /// What the link reads.
    pub files: Files<'a>,
    /// What the selected code requires of the host linker.
    pub selected: &'a Selected<'a>,
    /// What the host linker writes.
    pub output: Output,
}

/// How a host link ended.
#[derive(Default)]
pub struct Ended {
    /// The linker's exit code.
    pub code: u8,
    /// The kernels and variables that the program registers and no image has.
    pub missing: Vec<MissingSymbol>,
}

/// The host linker's command line.
struct Line {
    words: Vec<OsString>,
    /// Files that the linker reads and the user knows nothing about.
    own_files: Vec<PathBuf>,
    /// What the linker writes.
    written: PathBuf,
}

impl HostLink<'_> {
    /// Runs the host linker with these registration objects, and audits the program. The images that were read before are not read again.
    ///
    /// # Errors
    /// There is no host linker, it was killed, or its output cannot be completed.
    pub fn run(&self, linker: &Path, objects: &[PathBuf], read: &ReadImages) -> Result<Ended, Errors> {
        let LinkContext { request: Request { program, options, output, mode, .. }, temp_files, .. } = *self.context;
        let line = self.line(linker, objects)?;
        let _linking = span::traced("Execute host linker", || linker.display().to_string());
        self.files.check_unchanged(&self.context.request)?;
        let before = FileState::of(output);
        let size = self.files.host.size().saturating_add(sizes(objects));
        let link =
            || host_linker::run(linker, &line.words, &line.written, size, temp_files, &options.environment, mode);
        let code = self.context.recorder.phase("host linker", link)?;
        if code != 0 {
            let hints = host_hints::after_failure(self.files.host, options, objects);
            host_lto::hint(self.files.host).into_iter().chain(hints).for_each(|hint| warn(program, hint));
        }
        // The host linker has read the inputs again.
        if let Err(changed) = self.files.check_unchanged(&self.context.request) {
            temp_files::remove_if_changed(output, &before);
            return Err(changed);
        }
        let missing = if code == 0 && !mode.dry { self.complete(linker, &line, read)? } else { Vec::new() };
        Ok(Ended { code, missing })
    }

    /// The line, which writes a relocatable object to a temporary file: it has to be completed.
    fn line(&self, linker: &Path, objects: &[PathBuf]) -> Result<Line, Errors> {
        let LinkContext { request: Request { program, options, output, mode, .. }, temp_files, .. } = *self.context;
        let raw = self.output.is_relocatable_object().then(|| temp_files.file("relocatable.o"));
        let mut words = host_linker::line_with(options, objects, raw.as_deref());
        words.extend(host_linker::keeping_entries(linker, &words));
        if self.output == Output::Merged {
            words.extend(relocatable::keeping_units_apart(linker_kind::of(linker, mode)));
        }
        words.extend_from_slice(&self.selected.host_words.words);
        if folded_stubs::folds(&words) {
            let others = host_words::foreign_stubs(&self.selected.images);
            words.extend(folded_stubs::keeping_apart(linker, mode, self.files.host, &self.selected.host, others)?);
        }
        let placing = image_section::linker_words(linker, options, temp_files, mode, program)?;
        let own_files = objects.iter().cloned().chain(placing.iter().map(PathBuf::from)).collect();
        words.extend(placing);
        Ok(Line { words, own_files, written: raw.unwrap_or_else(|| output.to_owned()) })
    }

    /// Completes what the host linker has written. A relocatable link (`-r`) is a final device link: its output must link with other such
    /// objects, and without a wrapper. Returns the kernels and variables that a program registers and no image has.
    fn complete(&self, linker: &Path, line: &Line, read: &ReadImages) -> Result<Vec<MissingSymbol>, Errors> {
        let output = self.context.request.output;
        if let Some(file) = dependency_file::of_line(&line.words) {
            dependency_file::clean(&file, &line.own_files, (&line.written, output))?;
        }
        match self.output {
            Output::Merged => relocatable::seal_merged(&line.written, output, linker)?,
            Output::Relocatable => {
                relocatable::seal(&line.written, output, linker, &self.selected.host_words.stub_aliases)?;
            }
            Output::Program => return audit::missing_symbols(&self.context.request, read),
            Output::DeviceObject { .. } | Output::Bundle { .. } => {}
        }
        Ok(Vec::new())
    }
}

/// The size of these files.
fn sizes(files: &[PathBuf]) -> u64 {
    files.iter().filter_map(|file| file.metadata().ok()).map(|found| found.len()).sum()
}
