//! What users read: errors, warnings, progress, and the names and sizes in them.

pub mod byte_size;
pub mod color;
pub mod demangle;
pub mod error;
pub mod messages;
pub mod progress;
pub mod served;
