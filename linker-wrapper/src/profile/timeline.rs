//! The timeline of a link for its report as HTML.

use html_report::timeline::{Lane, Span, Timeline};

use crate::profile::recorder::Recorder;
use crate::profile::recording::{Recorded, RecordedSpan, Recording};

/// Phases that wait for other threads, and are no work of their own.
const WAITING: [&str; 4] =
    ["Execute linker wrapper", "Handle all device input", "Link device input", "Distribute jobs"];

/// Shorter passes of LLVM are left out, in microseconds: there are many times more of them than of phases.
const SHORTEST_PASS: u64 = 1000;

/// How far apart in microseconds the end of a span and the beginning of one that waited for it may be at most, beyond which the time
/// between them belongs to the path, too.
const SLACK: u64 = 50;

/// The timeline so far.
pub fn so_far(recorder: &Recorder) -> Timeline {
    let (recorded, end) = recorder.recording().map(Recording::so_far).unwrap_or_default();
    of(recorded, end)
}

fn of(recorded: Recorded, end: u64) -> Timeline {
    let lanes = lanes(&recorded);
    let critical = critical(&lanes, end);
    Timeline { end, lanes, memory: recorded.memory, running: recorded.running, slots: recorded.slots, critical }
}

/// The spans of threads; those of threads of the same name that ran one after the other are one lane.
fn lanes(recorded: &Recorded) -> Vec<Lane> {
    let mut threads: Vec<(String, Vec<&RecordedSpan>)> = Vec::new();
    for (number, name) in &recorded.threads {
        let is_shown = |span: &&RecordedSpan| !span.is_pass || span.duration >= SHORTEST_PASS;
        let mut spans: Vec<_> = recorded.spans.iter().filter(|span| span.thread == *number).filter(is_shown).collect();
        if spans.is_empty() {
            continue;
        }
        spans.sort_by_key(|span| (span.start, std::cmp::Reverse(span.duration)));
        threads.push((name.clone(), spans));
    }
    threads.sort_by_key(|(name, spans)| (order(name), spans.first().map(|span| span.start)));
    let mut lanes: Vec<Lane> = Vec::new();
    for (name, spans) in threads {
        let begin = spans.first().map_or(0, |span| span.start);
        let is_free = |lane: &&mut Lane| lane.name == name && lane.spans.iter().all(|span| end_of(span) <= begin);
        let spans = with_depths(&spans);
        match lanes.iter_mut().find(is_free) {
            Some(lane) => lane.spans.extend(spans),
            None => lanes.push(Lane { name, spans }),
        }
    }
    lanes
}

/// The main thread first, then jobs by their number, then the others.
fn order(name: &str) -> (u8, usize, String) {
    let number = name.rsplit(' ').next().and_then(|number| number.parse().ok()).unwrap_or(0);
    let kind = if name == "link" { 0 } else { 1 + u8::from(!name.starts_with("job")) };
    (kind, number, name.to_owned())
}

fn with_depths(spans: &[&RecordedSpan]) -> Vec<Span> {
    let mut open: Vec<u64> = Vec::new();
    let mut found = Vec::with_capacity(spans.len());
    for span in spans {
        let RecordedSpan { name, detail, start, duration, is_pass, .. } = span;
        open.retain(|end| end > start);
        let depth = u32::try_from(open.len()).unwrap_or(u32::MAX);
        let (name, detail) = (name.clone(), detail.clone());
        found.push(Span { name, detail, start: *start, duration: *duration, depth, is_pass: *is_pass });
        open.push(start.saturating_add(*duration));
    }
    found
}

fn end_of(span: &Span) -> u64 {
    span.start.saturating_add(span.duration)
}

/// What the end of the link waited for: from the end backwards, the span that ended last before the next one began. A job waits for the
/// one that had its thread before. The passes of LLVM belong to their phase.
fn critical(lanes: &[Lane], end: u64) -> Vec<(usize, usize)> {
    let mut work: Vec<(u64, usize, usize)> = Vec::new();
    for (number, lane) in lanes.iter().enumerate() {
        for (place, span) in lane.spans.iter().enumerate() {
            let next = lane.spans.iter().skip(place + 1).find(|next| !next.is_pass);
            let has_inner = next.is_some_and(|next| next.depth > span.depth);
            if !has_inner && !span.is_pass && !WAITING.contains(&span.name.as_str()) {
                work.push((end_of(span), number, place));
            }
        }
    }
    work.sort_unstable();
    let mut path = Vec::new();
    let mut until = end;
    while let Some((ended, lane, place)) = work.pop() {
        if ended > until.saturating_add(SLACK) {
            continue;
        }
        let Some(span) = lanes.get(lane).and_then(|lane| lane.spans.get(place)) else { continue };
        path.push((lane, place));
        until = span.start;
    }
    path
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(thread: u64, name: &str, start: u64, end: u64) -> RecordedSpan {
        RecordedSpan {
            name: name.to_owned(),
            detail: String::new(),
            thread,
            start,
            duration: end - start,
            is_pass: false,
        }
    }

    fn recorded(spans: Vec<RecordedSpan>) -> Recorded {
        let threads = [(1, "link"), (2, "job 1"), (3, "job 2"), (4, "job 1")];
        let threads = threads.map(|(number, name)| (number, name.to_owned())).into();
        Recorded { spans, threads, memory: vec![(0, 7)], running: vec![(0, 1)], slots: 2 }
    }

    #[test]
    fn lanes_nest_spans_and_reuse_names() {
        let spans = vec![
            span(2, "Optimize", 110, 150),
            span(2, "Compile partition", 100, 200),
            span(2, "ptxas", 200, 300),
            span(4, "Compile partition", 300, 400),
            span(3, "Compile partition", 100, 900),
            span(1, "Handle all device input", 100, 910),
        ];
        let timeline = of(recorded(spans), 1000);
        let lanes: Vec<_> = timeline.lanes.iter().map(|lane| (lane.name.as_str(), lane.spans.len())).collect();
        assert_eq!(lanes, [("link", 1), ("job 1", 4), ("job 2", 1)]);
        let depths: Vec<u32> = timeline.lanes[1].spans.iter().map(|span| span.depth).collect();
        assert_eq!(depths, [0, 1, 0, 0]);
    }

    fn pass(thread: u64, start: u64, end: u64) -> RecordedSpan {
        RecordedSpan { is_pass: true, ..span(thread, "SROAPass", start, end) }
    }

    #[test]
    fn passes_are_within_their_phase_and_not_on_the_critical_path() {
        let spans = vec![
            pass(2, 200, 1400),
            pass(2, 150, 1500),
            pass(2, 1600, 1700),
            span(2, "Optimize", 100, 2000),
            span(2, "Generate PTX", 2000, 3000),
            span(2, "Compile partition", 100, 3000),
            span(2, "ptxas", 3000, 4000),
        ];
        let timeline = of(recorded(spans), 4000);
        let lane = &timeline.lanes[0].spans;
        let shown: Vec<_> = lane.iter().map(|span| (span.name.as_str(), span.depth, span.is_pass)).collect();
        let expected = [
            ("Compile partition", 0, false),
            ("Optimize", 1, false),
            ("SROAPass", 2, true),
            ("SROAPass", 3, true),
            ("Generate PTX", 1, false),
            ("ptxas", 0, false),
        ];
        assert_eq!(shown, expected);
        let path: Vec<_> = timeline.critical.iter().map(|(_, place)| lane[*place].name.as_str()).collect();
        assert_eq!(path, ["ptxas", "Generate PTX", "Optimize"]);
    }

    #[test]
    fn the_critical_path_is_what_the_end_waited_for() {
        let spans = vec![
            span(1, "Read symbols", 0, 100),
            span(2, "ptxas", 100, 500),
            span(3, "ptxas", 100, 300),
            span(3, "Optimize", 300, 890),
            span(1, "Execute host linker", 900, 1000),
            span(1, "Handle all device input", 100, 900),
        ];
        let timeline = of(recorded(spans), 1000);
        let name = |(lane, place): &(usize, usize)| timeline.lanes[*lane].spans[*place].name.clone();
        let path: Vec<String> = timeline.critical.iter().map(name).collect();
        assert_eq!(path, ["Execute host linker", "Optimize", "ptxas", "Read symbols"]);
    }
}
