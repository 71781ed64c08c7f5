//! Findings as SARIF 2.1.0 (OASIS), which code hosts and editors show.

use std::path::{Path, PathBuf};

use offload_bundle::coverage::gate::GateReport;
use offload_bundle::coverage::{CheckReport, Finding, FindingCode, OfFile, Severity};
use serde_json::{Value, json};

use crate::error::Result;
use crate::{files, output};

const SCHEMA: &str = "https://json.schemastore.org/sarif-2.1.0.json";

/// A finding with the file that it is about, if that is one, and its place in there.
struct Located<'f> {
    file: Option<&'f str>,
    place: Option<String>,
    finding: &'f Finding,
}

/// Writes the findings of the gate.
pub fn write_gate(path: &Path, report: &GateReport, arguments: &[PathBuf]) -> Result<()> {
    let findings = report.findings.iter();
    let located = findings.map(|of| Located { file: of.file.as_deref(), place: None, finding: &of.finding });
    write(path, located, &report.unreadable, arguments)
}

/// Writes the findings of `check` without GPUs.
pub fn write_check(
    path: &Path,
    reports: &[OfFile<CheckReport>],
    unreadable: &[String],
    arguments: &[PathBuf],
) -> Result<()> {
    write(path, reports.iter().flat_map(of_report), unreadable, arguments)
}

fn of_report(of: &OfFile<CheckReport>) -> impl Iterator<Item = Located<'_>> {
    let file = Some(of.file.as_str());
    let inside = of.report.containers.iter().flat_map(move |container| {
        let place = &container.place;
        let member = place.member.as_ref().map(|member| format!("member {member}, ")).unwrap_or_default();
        let place = format!("{member}container {} at offset {:#x}", place.container, place.offset);
        container.findings.iter().map(move |finding| Located { file, place: Some(place.clone()), finding })
    });
    inside.chain(of.report.findings.iter().map(move |finding| Located { file, place: None, finding }))
}

fn write<'f>(
    path: &Path,
    all: impl Iterator<Item = Located<'f>>,
    unreadable: &[String],
    arguments: &[PathBuf],
) -> Result<()> {
    let results: Vec<Value> = all.map(|located| result(&located, arguments)).collect();
    let log = json!({
        "$schema": SCHEMA,
        "version": "2.1.0",
        "runs": [{
            "tool": { "driver": {
                "name": "offload-bundle",
                "version": env!("CARGO_PKG_VERSION"),
                "rules": FindingCode::ALL.map(rule).to_vec(),
            } },
            "invocations": [{
                "executionSuccessful": unreadable.is_empty(),
                "toolExecutionNotifications": unreadable.iter().map(notification).collect::<Vec<_>>(),
            }],
            "columnKind": "unicodeCodePoints",
            "results": results,
        }],
    });
    files::write(path, output::json(&log)?.as_bytes())
}

/// A file that cannot be read is no finding about its code.
fn notification(error: &String) -> Value {
    json!({ "level": "error", "message": { "text": error } })
}

fn rule(code: FindingCode) -> Value {
    let name = format!("{code:?}");
    json!({
        "id": code.name(),
        "name": name,
        "shortDescription": { "text": code.title() },
        "help": { "text": sentence(code.advice()) },
    })
}

/// With a capital letter and a full stop.
fn sentence(text: &str) -> String {
    let mut chars = text.chars();
    let first = chars.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    format!("{first}{}.", chars.as_str())
}

fn result(located: &Located<'_>, arguments: &[PathBuf]) -> Value {
    let Located { file, place, finding } = located;
    let gpus = if finding.gpus.is_empty() { String::new() } else { format!(" (on {})", finding.gpus.join(", ")) };
    let index = FindingCode::ALL.iter().position(|code| *code == finding.code);
    // A log without a place is shown nowhere: what is about all files is said of the first.
    let first = arguments.first().map(|path| path.display().to_string()).unwrap_or_default();
    let (artifact, inside) = split(file.unwrap_or(&first), arguments);
    let names: Vec<Value> =
        [inside, place.clone()].into_iter().flatten().map(|name| json!({ "fullyQualifiedName": name })).collect();
    let mut location = json!({ "physicalLocation": { "artifactLocation": { "uri": uri(&artifact) } } });
    if !names.is_empty() {
        location["logicalLocations"] = Value::Array(names);
    }
    json!({
        "ruleId": finding.code.name(),
        "ruleIndex": index,
        "level": level(finding.severity),
        "message": { "text": format!("{}{gpus}", finding.message) },
        "locations": [location],
    })
}

fn level(severity: Severity) -> &'static str {
    match severity {
        Severity::Note => "note",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

/// The file on disk, and what it is in there: `x.whl` and `lib/libx.so` of `x.whl:lib/libx.so`.
fn split(file: &str, arguments: &[PathBuf]) -> (String, Option<String>) {
    let inside = |path: &PathBuf| {
        let name = path.display().to_string();
        let inside = file.strip_prefix(name.as_str())?.strip_prefix(':')?.to_owned();
        Some((name, Some(inside)))
    };
    arguments.iter().find_map(inside).unwrap_or_else(|| (file.to_owned(), None))
}

/// A path as a reference of RFC 3986.
fn uri(path: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-._~+".contains(byte);
    let escape = |byte: u8| if plain(&byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") };
    let escaped: String = path.bytes().map(escape).collect();
    if path.starts_with('/') { format!("file://{escaped}") } else { escaped }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_in_packages_are_places_in_them() {
        let arguments = ["a dir", "x.whl"].map(PathBuf::from);
        assert_eq!(split("x.whl:lib/x.so", &arguments), ("x.whl".to_owned(), Some("lib/x.so".to_owned())));
        assert_eq!(split("a dir/x.so", &arguments), ("a dir/x.so".to_owned(), None));
        assert_eq!(uri("a dir/x%.so"), "a%20dir/x%25.so");
        assert_eq!(uri("/tmp/x:y"), "file:///tmp/x%3Ay");
        assert_eq!(sentence("say it"), "Say it.");
    }

    #[test]
    fn each_rule_has_id_name_and_help() {
        let mut ids = Vec::new();
        for rule in FindingCode::ALL.map(rule) {
            let text = |key: &str| rule[key]["text"].as_str().unwrap_or_default().to_owned();
            assert!(text("help").ends_with('.') && !text("shortDescription").is_empty(), "{rule}");
            ids.push(rule["id"].as_str().unwrap_or_default().to_owned());
        }
        assert!(ids.is_sorted() && ids[0] == "FB001");
    }
}
