//! The library of links: one program, because each would be linked for itself and compile the samples.

mod api;
mod cancellation;
mod common;
mod crashes;
mod examples;
mod links;
mod protocol;
