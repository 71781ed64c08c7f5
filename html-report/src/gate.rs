//! The matrices of the gate: on which GPUs and with which drivers files run.

use offload_bundle::coverage::gate::{Cell as GateCell, CellVerdict, GateReport, SetCell};
use offload_bundle::printable;
use serde::Serialize;

/// A matrix of GPUs and drivers. The field names are the keys of the page's JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateMatrix {
    /// Its heading.
    pub title: String,
    /// What is below the heading.
    pub note: String,
    /// What stands above the columns.
    pub columns: Vec<String>,
    /// One for each GPU.
    pub rows: Vec<GateRow>,
}

/// A row of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateRow {
    /// What stands in front of it: a GPU, or a file.
    pub name: String,
    /// Its cells.
    pub cells: Vec<GateTile>,
}

/// A cell of a matrix.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GateTile {
    /// `runs`, `jit`, `partly`, `unknown`, `fails` or `-`.
    pub verdict: &'static str,
    /// Whether that is what was required.
    pub passes: bool,
    /// What the verdict stands on; empty where there is none.
    pub rung: &'static str,
    /// What it says.
    pub text: String,
    /// The reason, in lines.
    pub why: String,
}

/// The values of a key in the order in which they come.
fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut found = Vec::new();
    for value in values {
        if !found.contains(&value) {
            found.push(value);
        }
    }
    found
}

fn column(driver: Option<u32>) -> String {
    driver.map_or("any driver".to_owned(), |branch| format!("driver {branch}"))
}

/// The worst of all files, for each GPU and driver.
pub(crate) fn together(report: &GateReport) -> GateMatrix {
    let drivers = distinct(report.together.iter().map(|cell| cell.driver));
    let gpus = distinct(report.together.iter().map(|cell| &cell.gpu));
    let row = |gpu: &&String| {
        let cell =
            |driver: &Option<u32>| report.together.iter().find(|cell| cell.gpu == **gpu && cell.driver == *driver);
        GateRow {
            name: (*gpu).clone(),
            cells: drivers.iter().map(|driver| tile_of_all(report, cell(driver))).collect(),
        }
    };
    GateMatrix {
        title: "GPUs and drivers".to_owned(),
        note: "The worst of all files, which one process needs together. A dash is a machine that does not exist."
            .to_owned(),
        columns: drivers.iter().map(|driver| column(*driver)).collect(),
        rows: gpus.iter().map(row).collect(),
    }
}

/// More files than these are counted in the reason of a cell.
const MOST_REASONS: usize = 8;

fn tile_of_all(report: &GateReport, cell: Option<&SetCell>) -> GateTile {
    let Some(cell) = cell else { return tile(CellVerdict::Absent, true, "", String::new(), String::new()) };
    let own = |of: &&GateCell| of.gpu == cell.gpu && of.driver == cell.driver;
    let files = report.files.iter().filter_map(|of| Some((&of.file, of.report.cells.iter().find(own)?)));
    let worst: Vec<_> = files.filter(|(_, own)| own.verdict == cell.verdict).collect();
    let mut lines: Vec<String> =
        worst.iter().take(MOST_REASONS).map(|(file, own)| format!("{}: {}", short(file), why(own))).collect();
    lines.extend((worst.len() > MOST_REASONS).then(|| format!("and {} files more", worst.len() - MOST_REASONS)));
    let outcome = match worst.as_slice() {
        [(_, own)] if report.files.len() == 1 => own.outcome.clone(),
        _ if cell.failing > 0 => format!("{} of {} files", cell.failing, report.files.len()),
        _ => String::new(),
    };
    let time = cell.compile_ms.map(|ms| format!("{}.{} s", ms / 1000, ms % 1000 / 100));
    let text =
        [Some(outcome), time].into_iter().flatten().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ");
    tile(cell.verdict, cell.passes, cell.rung.word(), text, lines.join("\n"))
}

/// Each file, with a column for each GPU and driver.
pub(crate) fn by_file(report: &GateReport) -> GateMatrix {
    let first = report.files.first().map(|of| of.report.cells.as_slice()).unwrap_or_default();
    let heading = |cell: &GateCell| match cell.driver {
        Some(branch) => format!("{} {branch}", cell.gpu),
        None => cell.gpu.clone(),
    };
    let own = |cell: &GateCell| tile(cell.verdict, cell.passes, cell.rung.word(), String::new(), why(cell));
    let row = |of: &offload_bundle::coverage::OfFile<offload_bundle::coverage::gate::FileGate>| GateRow {
        name: short(&of.file),
        cells: of.report.cells.iter().map(own).collect(),
    };
    GateMatrix {
        title: "Files".to_owned(),
        note: "Each file by itself.".to_owned(),
        columns: first.iter().map(heading).collect(),
        rows: report.files.iter().map(row).collect(),
    }
}

/// The last part of a file's name.
fn short(file: &str) -> String {
    printable::name(file.rsplit(['/', ':']).next().unwrap_or(file)).into_owned()
}

fn why(cell: &GateCell) -> String {
    let mut parts = vec![cell.outcome.clone(), cell.reason.clone()];
    if cell.lacking > 0 {
        parts.push(format!("{} kernels do not run: {}", cell.lacking, cell.kernels.join(", ")));
    }
    parts.retain(|part| !part.is_empty());
    printable::name(&parts.join("; ")).into_owned()
}

fn tile(verdict: CellVerdict, passes: bool, rung: &'static str, text: String, why: String) -> GateTile {
    let rung = if verdict == CellVerdict::Absent { "" } else { rung };
    GateTile { verdict: verdict.word(), passes, rung, text, why }
}
