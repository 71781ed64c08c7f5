//! Reads which passes LLVM ran when, as its time profiler records them.

use serde::Deserialize;

/// Maximum length of the name of what a pass works on, in characters. LLVM names all functions of a cycle of calls.
const LONGEST_DETAIL: usize = 200;

/// A pass that has ended. Times are in microseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pass {
    /// Its name, as LLVM has it.
    pub name: String,
    /// The function or module that it works on.
    pub detail: String,
    /// Its beginning, since the beginning of the phase.
    pub start: u64,
    /// How long it took.
    pub duration: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Document {
    trace_events: Vec<Event>,
}

/// The field names are the keys of the JSON form.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Event {
    args: Detail,
    dur: u64,
    name: String,
    /// "X" if the event has a beginning and a duration.
    ph: String,
    ts: u64,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Detail {
    detail: String,
    /// How many passes a sum is of.
    count: Option<u64>,
}

/// The passes of a phase that has lasted `end` microseconds so far. What is not LLVM's has none.
pub fn within(json: &str, end: u64) -> Vec<Pass> {
    let document = serde_json::from_str::<Document>(json);
    let events = document.map(|document| document.trace_events).unwrap_or_default();
    events.into_iter().filter(is_pass).filter_map(|event| pass(event, end)).collect()
}

/// Not names of the process, not sums over all passes of a name, and not what only runs other passes.
fn is_pass(event: &Event) -> bool {
    let runs_others = event.name.starts_with("PassManager<") || event.name.ends_with("PassAdaptor");
    event.ph == "X" && event.args.count.is_none() && !runs_others
}

fn pass(event: Event, end: u64) -> Option<Pass> {
    let Event { args: Detail { detail, .. }, dur, name, ts: start, .. } = event;
    let duration = dur.min(end.saturating_sub(start));
    // The code generator's passes have their names there.
    let (name, detail) = if name == "RunPass" { (detail, String::new()) } else { (name, shortened(detail)) };
    (duration > 0).then_some(Pass { name, detail, start, duration })
}

fn shortened(detail: String) -> String {
    match detail.char_indices().nth(LONGEST_DETAIL) {
        Some((end, _)) => format!("{}…", &detail[..end]),
        None => detail,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pass(name: &str, detail: &str, start: u64, duration: u64) -> Pass {
        Pass { name: name.to_owned(), detail: detail.to_owned(), start, duration }
    }

    fn document(events: &str) -> String {
        format!(r#"{{"traceEvents":[{events}],"beginningOfTime":1790000000000000}}"#)
    }

    /// By LLVM 22.
    const EVENTS: &str = r#"
        {"pid":7,"tid":7,"ph":"X","ts":20,"dur":70,"name":"SROAPass","args":{"detail":"kernel"}},
        {"pid":7,"tid":7,"ph":"X","ts":10,"dur":90,"name":"PassManager<Function>","args":{"detail":"kernel"}},
        {"pid":7,"tid":7,"ph":"X","ts":5,"dur":100,"name":"ModuleToFunctionPassAdaptor","args":{"detail":"[module]"}},
        {"pid":7,"tid":7,"ph":"X","ts":200,"dur":50,"name":"RunPass","args":{"detail":"Machine Outliner"}},
        {"pid":7,"tid":8,"ph":"X","ts":0,"dur":70,"name":"Total SROAPass","args":{"count":1,"avg ms":0}},
        {"cat":"","pid":7,"tid":7,"ts":0,"ph":"M","name":"process_name","args":{"name":""}}"#;

    #[test]
    fn passes_are_those_that_do_something() {
        let expected = [pass("SROAPass", "kernel", 20, 70), pass("Machine Outliner", "", 200, 50)];
        assert_eq!(within(&document(EVENTS), 1000), expected);
    }

    #[test]
    fn no_pass_reaches_beyond_its_phase() {
        assert_eq!(within(&document(EVENTS), 60), [pass("SROAPass", "kernel", 20, 40)]);
    }

    #[test]
    fn names_of_many_functions_are_cut() {
        let all = "ä".repeat(LONGEST_DETAIL + 1);
        let event = format!(r#"{{"ph":"X","ts":1,"dur":2,"name":"InlinerPass","args":{{"detail":"{all}"}}}}"#);
        let expected = format!("{}…", "ä".repeat(LONGEST_DETAIL));
        assert_eq!(within(&document(&event), 10), [pass("InlinerPass", &expected, 1, 2)]);
    }

    #[test]
    fn other_text_has_no_passes() {
        for text in ["", "[]", "{}", r#"{"traceEvents":[{"ts":-1}]}"#] {
            assert_eq!(within(text, 1000), [], "{text}");
        }
    }
}
