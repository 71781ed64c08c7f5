//! The image that goes into the program: its container, its compression, and the report of it.

pub mod compression;
pub mod fatbin;
pub mod report;
