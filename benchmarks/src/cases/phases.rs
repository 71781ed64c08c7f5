//! Where the time of a large link goes, from its trace in the format of Chrome's viewer.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::Deserialize;

use super::{Outcome, link_of};
use crate::bench::Bench;
use crate::corpus::{Corpus, Targets};
use crate::link::{Host, Side};
use crate::measure::Memory;
use xtask::failure::{Failure, Result};
use xtask::repository::read_text;
use xtask::step::Progress;

/// Links large once with a time trace.
pub fn run(bench: &mut Bench, progress: &Progress) -> Result<Outcome> {
    let trace = bench.folder.join("trace.json");
    let objects = Corpus::Large.objects(&bench.compiler, progress, Targets::One)?;
    let options = vec![format!("--wrapper-time-trace={}", trace.display())];
    let sample = bench.link(Side::Ours, &link_of(objects, Host::Program, options), Memory::Ignored)?;
    let text = read_text(&trace)?;
    let events = serde_json::from_str(&text)
        .map_err(|error| Failure::new(format!("{} is not a time trace: {error}", trace.display())))?;
    let phases = of_trace(&events);
    if phases.is_empty() {
        return Err(Failure::new(format!("{} has no events", trace.display())));
    }
    let wall = sample.wall.as_secs_f64();
    let mut details =
        format!("Wall {wall:.1} s. Phases run side by side and within each other: they need not add up.\n\n");
    details += "| phase | times | in all, s | longest, s |\n|---|---|---|---|\n";
    for phase in phases.iter().filter(|phase| phase.total > 0.001 * wall) {
        let _ = writeln!(details, "| {} | {} | {:.2} | {:.2} |", phase.name, phase.times, phase.total, phase.longest);
    }
    let longest: Vec<String> =
        phases.iter().take(3).map(|phase| format!("{} {:.1} s", phase.name, phase.total)).collect();
    Ok(Outcome { brief: format!("wall {wall:.1} s; {}", longest.join(", ")), details, ..Outcome::default() })
}

#[derive(Deserialize)]
struct Trace {
    #[serde(rename = "traceEvents")]
    events: Vec<Event>,
}

#[derive(Deserialize)]
struct Event {
    name: String,
    /// Microseconds; metadata has none.
    #[serde(rename = "dur")]
    duration: Option<f64>,
}

/// All events of one name.
#[derive(Clone, Debug, Default, PartialEq)]
struct Phase {
    name: String,
    times: usize,
    /// Seconds.
    total: f64,
    /// Seconds.
    longest: f64,
}

/// Sums the events up by name, the largest sum first.
fn of_trace(trace: &Trace) -> Vec<Phase> {
    let mut phases: BTreeMap<&str, Phase> = BTreeMap::new();
    for event in &trace.events {
        let Some(microseconds) = event.duration else { continue };
        let seconds = microseconds / 1e6;
        let phase = phases.entry(&event.name).or_insert_with(|| Phase { name: event.name.clone(), ..Phase::default() });
        phase.times += 1;
        phase.total += seconds;
        phase.longest = phase.longest.max(seconds);
    }
    let mut phases: Vec<Phase> = phases.into_values().collect();
    phases.sort_by(|a, b| b.total.total_cmp(&a.total));
    phases
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
        let phases = of_trace(&serde_json::from_str(trace).unwrap());
        assert_eq!(phases.len(), 2);
        assert_eq!((phases[0].name.as_str(), phases[0].total), ("optimize", 2.5));
        assert_eq!(phases[1], Phase { name: "ptxas".into(), times: 2, total: 2.0, longest: 1.5 });
    }
}
