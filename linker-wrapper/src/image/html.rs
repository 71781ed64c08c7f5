//! `--offload-report=html:FILE`: the timeline of the link, its jobs and inputs, and what `offload-bundle report` says of the output.

use std::path::Path;

use html_report::table::CellKind::{Bytes, Name, Number, Seconds, Text};
use html_report::table::{Cell, Column, Table, Texts};
use html_report::timeline::Timeline;
use html_report::{Fact, FileContents, Page, PageKind, files};
use offload_bundle::archive::reject_thin_members;
use offload_bundle::demangle::readable;
use offload_bundle::host_object::Search;
use offload_bundle::printable;

use crate::cli::values::OffloadReport;
use crate::diag::error::{self, Errors};
use crate::image::error::Error;
use crate::image::report::ImageReport;
use crate::profile::recorder::Recorder;
use crate::profile::stats::JobStat;
use crate::profile::timeline;
use crate::sys::mapped_file::Mapped;
use crate::sys::temp_files;

/// What was measured of a link.
#[derive(Clone, Copy)]
pub struct Measured<'r> {
    /// The figures.
    pub recorder: &'r Recorder,
    /// Whether device code was linked; otherwise the output is still to be written.
    pub has_device_code: bool,
}

/// Prints the report, or writes it to its file.
///
/// # Errors
/// The file cannot be written, or the output not be read.
pub fn emit(
    report: &ImageReport,
    request: &OffloadReport,
    program: &str,
    measured: Measured<'_>,
) -> Result<(), Errors> {
    match request {
        OffloadReport::Printed(request) => report.emit(request, program),
        OffloadReport::Html(file) => {
            let page = page(report, measured)?;
            let html = page.html().map_err(|source| Error::Page { file: file.clone(), reason: source.to_string() })?;
            temp_files::write_output(file, html.as_bytes())
        }
    }
}

fn page(report: &ImageReport, measured: Measured<'_>) -> Result<Page, Errors> {
    let Measured { recorder, has_device_code } = measured;
    let output = Path::new(&report.output);
    let title = output.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let title = format!("link of {}", printable::name(&title));
    let mut page = Page::new(PageKind::Link, title, concat!("fatlink ", env!("CARGO_PKG_VERSION")));
    let timeline = timeline::so_far(recorder);
    let jobs = recorder.jobs();
    page.facts = facts(report, has_device_code, &timeline, &jobs);
    // A dry run has no output.
    if has_device_code && output.is_file() {
        let unreadable =
            |error: std::io::Error| Error::Unreadable { file: output.to_owned(), reason: error::reason(&error) };
        let bytes = Mapped::open(output).map_err(unreadable)?;
        let file = FileContents::read(&report.output, bytes.bytes(), &mut reject_thin_members, Search::Sections)
            .map_err(|error| Error::NoContents { file: output.to_owned(), reason: error.to_string() })?;
        files::add(&mut page, &[file], &readable);
    }
    let of_link = [
        job_table(&jobs, &mut page.texts),
        path_table(&timeline, &mut page.texts),
        input_table(report, &mut page.texts),
        choice_table(report, &mut page.texts),
    ];
    // Behind the table of kernels.
    let place = page.tables.len().min(1);
    page.tables.splice(place..place, of_link.into_iter().filter(|table| !table.rows.is_empty()));
    page.timeline = Some(timeline);
    Ok(page)
}

fn facts(report: &ImageReport, has_device_code: bool, timeline: &Timeline, jobs: &[JobStat]) -> Vec<Fact> {
    let mut facts = vec![Fact::new("seconds", format!("{:.2}", timeline.end as f64 / 1e6))];
    if !has_device_code {
        return facts;
    }
    let cached = jobs.iter().filter(|job| job.cached).count();
    let peak = timeline.memory.iter().map(|(_, bytes)| *bytes).max().unwrap_or_default();
    facts.push(Fact::new("peak memory in bytes, of samples", peak.to_string()));
    facts.push(Fact::new("jobs", jobs.len().to_string()));
    if cached > 0 {
        facts.push(Fact::new("jobs with a result in the cache", cached.to_string()));
    }
    let policy = &report.policy;
    facts.push(Fact::new("machine code", policy.sass.clone()));
    facts.push(Fact::new("PTX", policy.ptx.clone()));
    facts.push(Fact::new("compression", policy.compress));
    facts
}

fn job_table(jobs: &[JobStat], texts: &mut Texts) -> Table {
    let columns = vec![
        Column::new("name", "Largest kernel", Name, "The largest kernel of the job"),
        Column::new("target", "Target", Text, "What it is compiled for"),
        Column::new("llvm", "LLVM", Seconds, "Time of reading, optimization and code generation"),
        Column::new("ptxas", "ptxas", Seconds, "Time of ptxas"),
        Column::new("llvmpeak", "LLVM's peak", Bytes, "Peak memory of LLVM's process"),
        Column::new("ptxaspeak", "ptxas' peak", Bytes, "Peak memory of ptxas"),
        Column::new("ptx", "PTX", Bytes, "Bytes of PTX"),
        Column::new("code", "Machine code", Bytes, "Bytes of the cubin or code object"),
        Column::new("cache", "Cache", Text, "hit: an earlier link had the result"),
    ];
    let row = |job: &JobStat| {
        vec![
            Cell::Number(texts.name(&job.label, &readable) as u64),
            texts.text(&job.target),
            Cell::Seconds(job.llvm_seconds),
            Cell::Seconds(job.tool_seconds),
            job.llvm_peak.into(),
            job.tools_peak.into(),
            job.text_bytes.into(),
            job.code_bytes.into(),
            if job.cached { texts.text("hit") } else { Cell::None },
        ]
    };
    Table { sorted_by: Some(2), ..table("jobs", "Jobs", columns, jobs.iter().map(row)) }
}

fn table(id: &'static str, title: &'static str, columns: Vec<Column>, rows: impl Iterator<Item = Vec<Cell>>) -> Table {
    Table { id, title, note: String::new(), columns, rows: rows.collect(), sorted_by: None }
}

fn path_table(timeline: &Timeline, texts: &mut Texts) -> Table {
    let columns = vec![
        Column::new("step", "Step", Number, "Counted from the beginning of the link"),
        Column::new("start", "From", Seconds, "When it began"),
        Column::new("time", "Time", Seconds, "How long it took"),
        Column::new("phase", "Phase", Text, "What was done"),
        Column::new("detail", "Of", Text, "What it was done with"),
        Column::new("thread", "Thread", Text, "Where it ran"),
    ];
    let steps = timeline.critical.iter().rev().filter_map(|(lane, span)| {
        let lane = timeline.lanes.get(*lane)?;
        Some((lane, lane.spans.get(*span)?))
    });
    let rows = steps.enumerate().map(|(step, (lane, span))| {
        vec![
            Cell::Number(step as u64 + 1),
            Cell::Seconds(span.start as f64 / 1e6),
            Cell::Seconds(span.duration as f64 / 1e6),
            texts.text(&span.name),
            texts.text(&span.detail),
            texts.text(&lane.name),
        ]
    });
    let note = "What the end of the link waited for, step by step.".to_owned();
    Table { note, ..table("path", "Critical path", columns, rows) }
}

fn input_table(report: &ImageReport, texts: &mut Texts) -> Table {
    let columns = vec![
        Column::new("target", "Target", Text, "What it was linked for"),
        Column::new("image", "Image", Text, "What was linked"),
        Column::new("offset", "Offset", Number, "Where it is in the file"),
        Column::new("flag", "PTX flag", Text, "The PTX that the file requests"),
        Column::new("file", "File", Text, "The file, with the archive member in parentheses"),
    ];
    let rows = report.targets.iter().flat_map(|target| target.images.iter().map(move |image| (target, image)));
    let rows = rows.map(|(target, image)| {
        let flag = target.ptx_flags.iter().find(|flag| flag.file == image.file);
        vec![
            texts.text(&target.target),
            texts.text(image.code),
            image.offset.into(),
            flag.map_or(Cell::None, |flag| texts.text(flag.ptx)),
            texts.text(&image.file),
        ]
    });
    table("inputs", "Linked images", columns, rows)
}

fn choice_table(report: &ImageReport, texts: &mut Texts) -> Table {
    let columns = vec![
        Column::new("target", "Target", Text, "The target of the device link"),
        Column::new("backend", "Backend", Text, "What generated the machine code"),
        Column::new("cuda", "CUDA", Text, "Its release"),
        Column::new("reason", "Reason", Text, "Why it was chosen"),
        Column::new("file", "File", Text, "Its program or library"),
    ];
    let chosen = report.targets.iter().filter_map(|target| Some((target, target.backend.as_ref()?)));
    let rows = chosen.map(|(target, backend)| {
        vec![
            texts.text(&target.target),
            texts.text(backend.name),
            backend.cuda.as_ref().map_or(Cell::None, |cuda| texts.text(cuda)),
            texts.text(&backend.reason),
            texts.text(&backend.file),
        ]
    });
    table("backends", "Backends", columns, rows)
}
