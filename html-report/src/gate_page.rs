//! The page of the gate.

use offload_bundle::coverage::gate::GateReport;

use crate::gate::{by_file, together};
use crate::page::{Fact, Page, PageKind};
use crate::table::{Cell, CellKind, Column, Table};

/// A page about what `check --gpus` found. `title` is what it is about; `producer` is the program that writes it.
pub fn page(report: &GateReport, title: &str, producer: &str) -> Page {
    let mut page = Page::new(PageKind::Gate, title, producer);
    page.facts = facts(report);
    page.gate.push(together(report));
    if report.files.len() > 1 {
        page.gate.push(by_file(report));
    }
    let findings = findings(report, &mut page);
    page.tables.extend((!findings.rows.is_empty()).then_some(findings));
    page
}

fn facts(report: &GateReport) -> Vec<Fact> {
    let verdict = if report.passes { "passes" } else { "does not pass" };
    let served = if report.serves.is_empty() { "none".to_owned() } else { report.serves.join(" ") };
    let mut facts = vec![
        Fact::new("verdict", verdict),
        Fact::new("files", report.files.len().to_string()),
        Fact::new("GPUs served as required", served),
        Fact::new("PTX compiled by the driver", if report.jit_allowed { "allowed" } else { "not allowed" }),
    ];
    if !report.assemblers.is_empty() {
        facts.push(Fact::new("PTX assembled by", report.assemblers.join(", ")));
    }
    facts
}

fn findings(report: &GateReport, page: &mut Page) -> Table {
    let columns = vec![
        Column::new("code", "Code", CellKind::Text, "The kind of the finding"),
        Column::new("file", "File", CellKind::Text, "The file, if it is one"),
        Column::new("gpus", "GPUs", CellKind::Text, "Where"),
        Column::new("what", "What", CellKind::Text, "What is wrong"),
        Column::new("advice", "Advice", CellKind::Text, "What to do"),
    ];
    let row = |of: &offload_bundle::coverage::gate::GateFinding| -> Vec<Cell> {
        let finding = &of.finding;
        let texts = [
            finding.code.name(),
            of.file.as_deref().unwrap_or("all"),
            &finding.gpus.join(" "),
            &finding.message,
            finding.advice,
        ];
        texts.map(|text| page.texts.text(text)).to_vec()
    };
    let rows = report.findings.iter().map(row).collect();
    Table { id: "findings", title: "What is wrong", note: String::new(), columns, rows, sorted_by: None }
}

#[cfg(test)]
mod tests {
    use offload_bundle::coverage::OfFile;
    use offload_bundle::coverage::gate::{FileCode, FileGate, Requirement};
    use offload_bundle::fatbin::{BuilderOptions, FatbinBuilder};

    use super::*;

    #[test]
    fn a_page_has_a_cell_for_each_gpu_and_driver() {
        let mut builder = FatbinBuilder::new(BuilderOptions::default());
        let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
        builder.add_ptx(offload_bundle::GpuArch::plain(80), ptx.as_bytes(), "k.cu", "").expect("sound PTX");
        let data = builder.finish().expect("a fatbin");
        let requirement: Requirement = "sm_75,sm_90@535,580".parse().expect("a requirement");
        let read = || {
            FileCode::read(
                &data,
                offload_bundle::archive::reject_thin_members,
                offload_bundle::host_object::Search::Sections,
            )
        };
        let file = |name: &str| OfFile {
            file: name.to_owned(),
            report: FileGate::new(&read().expect("a fatbin"), &requirement),
        };
        let report = GateReport::new(vec![file("x.whl:a.so"), file("x.whl:<b>.so")], &requirement, &[], 0);
        let page = page(&report, "x.whl", "test");
        let verdicts: Vec<&str> =
            page.gate[0].rows.iter().flat_map(|row| &row.cells).map(|tile| tile.verdict).collect();
        // The builder compresses with Zstandard, which driver 535 does not read.
        assert_eq!(verdicts, ["fails", "fails", "fails", "jit"]);
        assert_eq!(page.gate[1].rows[1].name, "<b>.so");
        assert!(page.gate[0].rows[0].cells[0].why.contains("a.so: no-binary: PTX is for sm_80"));
        assert_eq!(page.tables.len(), 1);
        let html = page.html().expect("a page");
        assert!(!html.contains("<b>.so"), "names stay data");
    }
}
