//! The timeline of a link.

use serde::Serialize;

/// Where the time of a link went. Times are in microseconds since its beginning.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Timeline {
    /// The end of the link.
    pub end: u64,
    /// The threads that did something, in the order of their numbers.
    pub lanes: Vec<Lane>,
    /// Memory of the link and its tools in bytes: time, value.
    pub memory: Vec<(u64, u64)>,
    /// Jobs that run: time, value.
    pub running: Vec<(u64, u64)>,
    /// How many jobs may run at a time.
    pub slots: u64,
    /// What the end of the link waited for, backwards: lane and place of each span.
    pub critical: Vec<(usize, usize)>,
}

/// The spans of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Lane {
    /// Its name.
    pub name: String,
    /// In the order of their beginnings; a span that begins within another one ends within it.
    pub spans: Vec<Span>,
}

/// A span of a thread.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Span {
    /// The phase.
    pub name: String,
    /// What it works on.
    pub detail: String,
    /// When it begins.
    pub start: u64,
    /// How long it takes.
    pub duration: u64,
    /// How many spans it is in.
    pub depth: u32,
    /// Whether it is a pass of LLVM within a phase, which the page shows on request.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub is_pass: bool,
}
