//! The host's processors as the machine of a link, their targets, and the code that is made for them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::device::targets::TargetImages;
use crate::plan::link_context::LinkContext;

/// Processors of the host, in a link.
pub struct Host<'a> {
    /// The request and the resources of the link.
    pub link: &'a LinkContext<'a>,
}

/// A target.
#[derive(Debug, Clone)]
pub struct HostArch {
    /// The triple, as the images spell it: "x86_64-pc-linux-gnu".
    pub triple: String,
    /// The processor, as the images spell it: "generic".
    pub processor: String,
}

/// The images of a target.
pub type HostImages<'a> = TargetImages<'a, HostArch>;

/// An object or a shared library; empty if there is none.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct HostCode {
    /// Its bytes.
    #[serde(with = "serde_bytes")]
    pub bytes: Vec<u8>,
}

impl fmt::Display for HostArch {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} {}", self.triple, self.processor)
    }
}

impl HostArch {
    /// The beginning of the names of intermediate files: "x86_64.generic".
    pub fn stem(&self) -> String {
        format!("{}.{}", self.triple.split('-').next().unwrap_or(&self.triple), self.processor)
    }
}
