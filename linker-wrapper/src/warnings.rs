//! LLVM's warnings for people: each once, with the kernel and the source line, however many places have it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use llvm_passes::session::Warning;

use crate::error::warn;
use crate::symbol_name;

/// The warnings of a link, gathered from all its jobs: each job may meet the same ones.
#[derive(Debug, Default)]
pub struct Warnings(Mutex<BTreeMap<String, Vec<Warning>>>);

impl Warnings {
    /// Adds those of one job for a target ("sm_90").
    pub fn add(&self, target: &str, warnings: Vec<Warning>) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.entry(target.to_owned()).or_default().extend(warnings);
    }

    /// All lines, by target; the same lines in the same order however the jobs ran.
    pub fn lines(&self) -> Vec<String> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let of_target = |(target, warnings): (&String, &Vec<Warning>)| {
            let lines = lines(warnings.iter().cloned());
            lines.into_iter().map(|line| format!("{target}: {line}")).collect::<Vec<_>>()
        };
        all.iter().flat_map(of_target).collect()
    }

    /// Shows them.
    pub fn show(&self, program: &str) {
        self.lines().iter().for_each(|line| warn(program, line));
    }
}

/// Longest name of a kernel in a warning, in characters.
const NAME_WIDTH: usize = 100;

/// Where one text came from: (place, function).
type Places = BTreeSet<(Option<String>, Option<String>)>;

/// One line for each text: the first place, by name, and how many more there are. The order is the same whatever
/// order the warnings came in.
fn lines(warnings: impl IntoIterator<Item = Warning>) -> Vec<String> {
    let mut places: BTreeMap<String, Places> = BTreeMap::new();
    for warning in warnings {
        places.entry(warning.text).or_default().insert((warning.place, warning.function));
    }
    places.into_iter().map(|(text, places)| line(&text, &places)).collect()
}

fn line(text: &str, places: &Places) -> String {
    let known: BTreeSet<&str> = places.iter().filter_map(|(place, _)| place.as_deref()).collect();
    let functions: BTreeSet<&str> = places.iter().filter_map(|(_, function)| function.as_deref()).collect();
    // Warnings with a place come last in the set: one of those says most.
    let Some((place, function)) = places.iter().find(|(place, _)| place.is_some()).or(places.first()) else {
        return text.to_owned();
    };
    let mut line = text.to_owned();
    if let Some(function) = function {
        line.push_str(&format!(": in {}", symbol_name::shortened(function, NAME_WIDTH)));
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

    fn warning(text: &str, function: &str, place: &str) -> Warning {
        let given = |text: &str| (!text.is_empty()).then(|| text.to_owned());
        Warning { text: text.to_owned(), function: given(function), place: given(place) }
    }

    #[test]
    fn jobs_share_their_warnings() {
        let all = Warnings::default();
        all.add("sm_90", vec![warning("t", "_Z1ki", "b.cu:1:2"), warning("t", "_Z1ji", "a.cu:1:2")]);
        all.add("sm_80", vec![warning("t", "_Z1ki", "b.cu:1:2")]);
        all.add("sm_90", vec![warning("t", "_Z1ki", "b.cu:1:2")]);
        let expected = ["sm_80: t: in k(int) at b.cu:1:2", "sm_90: t: in j(int) at a.cu:1:2 (and 1 more place)"];
        assert_eq!(all.lines(), expected);
    }

    #[test]
    fn each_text_comes_once() {
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
}
