//! What a trace for Chrome's viewer says in sum.

use std::collections::BTreeMap;

/// All events of one name.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Phase {
    pub name: String,
    pub times: usize,
    /// Seconds.
    pub total: f64,
    /// Seconds.
    pub longest: f64,
}

/// The greatest sum first.
pub fn of_trace(json: &str) -> Vec<Phase> {
    let mut phases: BTreeMap<String, Phase> = BTreeMap::new();
    for event in events(json) {
        let (Some(name), Some(duration)) = (text(event, "name"), number(event, "dur")) else { continue };
        let seconds = duration / 1e6;
        let phase = phases.entry(name.to_owned()).or_insert_with(|| Phase { name: name.into(), ..Phase::default() });
        phase.times += 1;
        phase.total += seconds;
        phase.longest = phase.longest.max(seconds);
    }
    let mut phases: Vec<Phase> = phases.into_values().collect();
    phases.sort_by(|a, b| b.total.total_cmp(&a.total));
    phases
}

/// The objects in `traceEvents`, that is at the second level of braces, without what is nested in them.
fn events(json: &str) -> impl Iterator<Item = &str> {
    const EVENT: usize = 2;
    let (mut depth, mut start, mut quoted, mut escaped) = (0_usize, 0, false, false);
    json.char_indices().filter_map(move |(index, character)| {
        if quoted {
            quoted = escaped || character != '"';
            escaped = character == '\\' && !escaped;
            return None;
        }
        match character {
            '"' => quoted = true,
            '{' => {
                depth += 1;
                if depth == EVENT {
                    start = index;
                }
            }
            '}' => {
                depth = depth.saturating_sub(1);
                if depth + 1 == EVENT && start < index {
                    return Some(&json[start..=index]);
                }
            }
            _ => {}
        }
        None
    })
}

fn text<'a>(event: &'a str, key: &str) -> Option<&'a str> {
    after(event, key)?.strip_prefix('"')?.split('"').next()
}

fn number(event: &str, key: &str) -> Option<f64> {
    let value = after(event, key)?;
    let end = value.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(value.len());
    value[..end].parse().ok()
}

fn after<'a>(event: &'a str, key: &str) -> Option<&'a str> {
    let key = format!("\"{key}\":");
    Some(event[event.find(&key)? + key.len()..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_of_one_name_are_summed() {
        let trace = r#"{"traceEvents":[
            {"args":{"detail":"a \"}\" {"},"dur":1500000,"name":"ptxas","ph":"X","pid":1,"tid":1,"ts":0},
            {"args":{"detail":"b"},"dur":500000,"name":"ptxas","ph":"X","pid":1,"tid":2,"ts":9},
            {"args":{"name":"main"},"name":"process_name","ph":"M"},
            {"dur": 2500000, "name": "optimize"}]}"#;
        let phases = of_trace(trace);
        assert_eq!(phases.len(), 2);
        assert_eq!((phases[0].name.as_str(), phases[0].total), ("optimize", 2.5));
        assert_eq!(phases[1], Phase { name: "ptxas".into(), times: 2, total: 2.0, longest: 1.5 });
    }

    #[test]
    fn no_trace_has_no_phases() {
        assert_eq!(of_trace(""), []);
        assert_eq!(of_trace("}}}{{"), []);
    }
}
