//! Formats LLVM's messages: each text once, with a kernel, a source line and the number of further places.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fs::OpenOptions;
use std::path::PathBuf;

use llvm_passes::session::{Message, MessageKind};

use crate::cli::plugin_options;
use crate::diag::demangle;
use crate::diag::error::{Errors, reason};
use crate::diag::messages::{self, warn};
use crate::lto::error::Error;
use crate::plan::link_context::{LinkContext, Request};
use crate::profile::recorder::Recorder;
use crate::sys::temp_files;

/// Longest name of a kernel in a warning, in characters.
const NAME_WIDTH: usize = 100;

/// The places and functions that one text was reported for.
type Places = BTreeSet<(Option<String>, Option<String>)>;

/// Prints the messages of one target, remarks as LLVM's own tools do. Records of remarks are kept for [`write_records`].
pub fn print(context: &LinkContext<'_>, target: &str, all: &[Message]) {
    let of_kind = |kind| all.iter().filter(move |message| message.kind == kind);
    of_kind(MessageKind::Remark).for_each(|remark| messages::show(format_args!("remark: {}", remark.text)));
    for text in lines(of_kind(MessageKind::Warning).cloned()) {
        warn(context.request.program, format_args!("{target}: {text}"));
    }
    context.recorder.remarks(of_kind(MessageKind::Record).map(|record| record.text.as_str()));
}

/// Checks that the file of remarks that the options of LLVM name can be written, before the long work begins.
///
/// # Errors
/// The file cannot be written.
pub fn check_records(request: Request<'_>) -> Result<(), Errors> {
    let Some(path) = records_file(request) else { return Ok(()) };
    let is_new = !path.exists();
    let opened = OpenOptions::new().append(true).create(true).open(&path);
    if is_new && opened.is_ok() {
        // A link that fails leaves no file.
        let _ = std::fs::remove_file(&path);
    }
    opened
        .map(drop)
        .map_err(|error| Error::RemarksFile { path: path.display().to_string(), reason: reason(&error) }.into())
}

/// Writes the records of all targets, after a link that succeeded.
///
/// # Errors
/// The file cannot be written.
pub fn write_records(request: Request<'_>, recorder: &Recorder) -> Result<(), Errors> {
    let Some(path) = records_file(request) else { return Ok(()) };
    temp_files::write_output(&path, recorder.take_remarks().as_bytes())
}

fn records_file(request: Request<'_>) -> Option<PathBuf> {
    let llvm_options = plugin_options::of_llvm(request.options, request.device);
    llvm_passes::remarks_file(&llvm_options).filter(|_| !request.mode.dry).map(PathBuf::from)
}

/// Joins the messages of partitions. Where several partitions have a copy of a function, the remarks on it are those of the first.
pub fn join(partitions: impl IntoIterator<Item = Vec<Message>>) -> Vec<Message> {
    let is_remark = |message: &Message| message.kind != MessageKind::Warning;
    let (mut joined, mut reported): (Vec<Message>, HashSet<(MessageKind, Option<String>)>) = Default::default();
    let key = |message: &Message| (message.kind, message.function.clone());
    for partition in partitions {
        let start = joined.len();
        joined.extend(partition.into_iter().filter(|message| !is_remark(message) || !reported.contains(&key(message))));
        reported.extend(joined[start..].iter().filter(|message| is_remark(message)).map(key));
    }
    joined
}

/// Formats one line for each text: the first place by name, and the number of further ones. The result does not depend on the order
/// of the warnings.
fn lines(warnings: impl IntoIterator<Item = Message>) -> Vec<String> {
    let mut places: BTreeMap<String, Places> = BTreeMap::new();
    for warning in warnings {
        places.entry(warning.text).or_default().insert((warning.place, warning.function));
    }
    places.into_iter().map(|(text, places)| line(&text, &places)).collect()
}

fn line(text: &str, places: &Places) -> String {
    let known: BTreeSet<&str> = places.iter().filter_map(|(place, _)| place.as_deref()).collect();
    let functions: BTreeSet<&str> = places.iter().filter_map(|(_, function)| function.as_deref()).collect();
    // Prefer a warning with a place: those without one sort first.
    let Some((place, function)) = places.iter().find(|(place, _)| place.is_some()).or(places.first()) else {
        return text.to_owned();
    };
    let mut line = text.to_owned();
    if let Some(function) = function {
        line.push_str(&format!(": in {}", demangle::shortened(function, NAME_WIDTH)));
    }
    if let Some(place) = place {
        line.push_str(&format!(" at {place}"));
    }
    line.push_str(&match (known.len(), functions.len()) {
        (0, 0) => String::new(),
        (0, 1) => NO_PLACE.to_owned(),
        (0, functions) => format!(" (and {}){NO_PLACE}", more(functions - 1, "function")),
        (1, 0 | 1) => String::new(),
        (1, functions) => format!(" (in {functions} functions)"),
        (places, _) => format!(" (and {})", more(places - 1, "place")),
    });
    line
}

fn more(count: usize, what: &str) -> String {
    format!("{count} more {what}{}", if count == 1 { "" } else { "s" })
}

const NO_PLACE: &str = "; compile with -gline-tables-only to see where";

#[cfg(test)]
mod tests {
    use super::*;

    fn warning(text: &str, function: &str, place: &str) -> Message {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Message { kind: MessageKind::Warning, text: text.to_owned(), function: given(function), place: given(place) }
    }

    #[test]
    fn each_text_is_reported_once() {
        for (warnings, expected) in [
            (vec![("t", "", "")], vec!["t"]),
            (vec![("t", "_Z1ki", "a.cu:1:2"), ("t", "_Z1ki", "a.cu:1:2")], vec!["t: in k(int) at a.cu:1:2"]),
            (
                vec![("t", "_Z1ki", "b.cu:1:2"), ("t", "_Z1ji", "a.cu:3:4"), ("u", "_Z1ji", "a.cu:3:4")],
                vec!["t: in j(int) at a.cu:3:4 (and 1 more place)", "u: in j(int) at a.cu:3:4"],
            ),
            (
                vec![("t", "_Z1ki", "b.h:1:2"), ("t", "_Z1ji", "b.h:1:2")],
                vec!["t: in j(int) at b.h:1:2 (in 2 functions)"],
            ),
            (vec![("t", "_Z1ki", "")], vec!["t: in k(int); compile with -gline-tables-only to see where"]),
            (
                vec![("t", "_Z1ki", ""), ("t", "_Z1ji", "")],
                vec!["t: in j(int) (and 1 more function); compile with -gline-tables-only to see where"],
            ),
            (vec![("t", "_Z1ki", ""), ("t", "_Z1ji", "a.cu:1:1")], vec!["t: in j(int) at a.cu:1:1 (in 2 functions)"]),
        ] {
            let list: Vec<_> = warnings.iter().map(|(text, function, place)| warning(text, function, place)).collect();
            assert_eq!(lines(list.clone()), expected);
            assert_eq!(lines(list.into_iter().rev()), expected);
        }
    }

    #[test]
    fn remarks_on_copies_are_left_out() {
        let remark = |text: &str, function: &str| Message { kind: MessageKind::Remark, ..warning(text, function, "") };
        let first = vec![remark("a", "f"), remark("a", "f"), warning("w", "f", "")];
        let second = vec![remark("a", "f"), remark("a", "g"), warning("w", "f", "")];
        let expected = [&first[..], &second[1..]].concat();
        assert_eq!(join([first, second]), expected);
    }
}
