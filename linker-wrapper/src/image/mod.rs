//! The fatbin that goes into the program, its compression, and the report about it.

pub mod compression;
pub mod error;
pub mod fatbin;
pub mod html;
pub mod report;
pub mod requirement;
