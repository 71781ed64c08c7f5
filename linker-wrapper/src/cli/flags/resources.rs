//! Processors and memory.

use crate::cli::flags::flag::{Flag, Topic, set};
use crate::cli::values::{Jobs, MemoryChoice};

pub const TOPIC: Topic = Topic {
    title: "Processors and memory",
    flags: &[
        Flag::joined(
            &["--wrapper-jobs="],
            "<n>|jobserver",
            "Number of device link jobs at a time (default: one per core)",
            |options, value| set(&mut options.jobs, Jobs::parse(value.text)),
        ),
        Flag::joined(
            &["--offload-memory="],
            "<size>|<percent>%",
            "Memory that device link jobs may use at a time, such as 8G or 50% of what is free (default: 80%)",
            |options, value| set(&mut options.memory, MemoryChoice::parse(value.text)),
        ),
    ],
};
