//! Reports on a link.

use crate::cli::flags::flag::{Flag, Reproduced, Topic, assign, set};
use crate::cli::values::{self, OffloadReport, PlanRequest, StatsFormat};

pub const TOPIC: Topic = Topic {
    title: "Reports",
    flags: &[
        Flag::joined(
            &["--offload-report="],
            "text|json[:<file>]|html:<file>",
            "Say what went into the image, and what each GPU will run of it; html: draw this, the bytes, the \
             kernels and the link's timeline",
            |options, value| set(&mut options.report, OffloadReport::parse(value.text)),
        )
        .reproduced(Reproduced::WrittenBehindForm),
        Flag::joined(
            &["--offload-plan="],
            "text|full|json[:<file>]",
            "Print, before they run, who defines which symbol, and the members, jobs and tools of the device \
             links; full: all of a long plan",
            |options, value| set(&mut options.plan, PlanRequest::parse(value.text)),
        )
        .reproduced(Reproduced::WrittenBehindForm),
        Flag::joined(
            &["--wrapper-time-trace="],
            "<file>",
            "Write a time trace for Chrome's viewer",
            |options, value| assign(&mut options.time_trace, value.path()),
        )
        .reproduced(Reproduced::Written),
        Flag::joined(
            &["--wrapper-time-trace-granularity="],
            "<us>",
            "Shortest phase in the trace, in microseconds (default: 500)",
            |options, value| set(&mut options.time_trace_granularity, values::granularity(value.text)),
        ),
        Flag::switch(&["--offload-stats"], "Print where time and memory of the device link went", |options, value| {
            set(&mut options.stats, StatsFormat::parse(value.text))
        }),
        Flag::joined(&["--offload-stats="], "text|json", "The same, as text or JSON", |options, value| {
            set(&mut options.stats, StatsFormat::parse(value.text))
        }),
    ],
};
