//! Versions of CUDA, PTX and LTO-IR.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

/// A release of the CUDA toolkit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct CudaRelease {
    /// 13 of 13.0.
    pub major: u32,
    /// 0 of 13.0.
    pub minor: u32,
}

impl CudaRelease {
    /// The release `major`.`minor`.
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

/// A text that is not a CUDA release.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a CUDA version such as 13.0")]
pub struct UnknownRelease(pub String);

impl FromStr for CudaRelease {
    type Err = UnknownRelease;

    /// Parses `13`, `13.0` and `13.0.88`.
    fn from_str(text: &str) -> Result<Self, UnknownRelease> {
        let parts: Option<Vec<u32>> = text.split('.').map(decimal).collect();
        match parts.as_deref() {
            Some([major, rest @ ..]) if (1..100).contains(major) => {
                Ok(CudaRelease { major: *major, minor: rest.first().copied().unwrap_or(0) })
            }
            _ => Err(UnknownRelease(text.to_owned())),
        }
    }
}

impl fmt::Display for CudaRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// Parses digits alone: no sign.
fn decimal(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

/// A PTX ISA version such as 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PtxVersion {
    /// 9 of 9.0.
    pub major: u8,
    /// 0 of 9.0.
    pub minor: u8,
}

impl PtxVersion {
    /// The name of the feature in LLVM's NVPTX target: `+ptx90`.
    pub fn llvm_feature(self) -> String {
        format!("+ptx{}{}", self.major, self.minor)
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

/// The version of an LTO-IR container: 1.59 from CUDA 12.2, 1.65 from 13.0, 1.67 from 13.5.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct LtoIrVersion {
    /// 1 of 1.65.
    pub major: u8,
    /// 65 of 1.65.
    pub minor: u8,
}

impl fmt::Display for LtoIrVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{}", self.major, self.minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_parsed() {
        assert_eq!("13.0.88".parse(), Ok(CudaRelease::new(13, 0)));
        assert_eq!("12".parse(), Ok(CudaRelease::new(12, 0)));
        for text in ["", "580", "0", "12.", "12.x", "+12"] {
            assert!(text.parse::<CudaRelease>().is_err(), "{text}");
        }
    }
}
