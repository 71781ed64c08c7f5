//! The names of NVIDIA GPU architectures.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// The instruction set that a target may use beyond the plain one of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArchFeature {
    /// `sm_90`: runs on later GPUs too.
    Plain,
    /// `sm_100f`: runs on the GPUs of its family.
    Family,
    /// `sm_90a`: runs on exactly this GPU.
    Accelerated,
}

/// A GPU architecture such as `sm_90a`.
///
/// Ordered by number, then plain < family < accelerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GpuArch {
    /// Major version times ten plus minor version: 90, 103.
    pub number: u32,
    /// The suffix.
    pub feature: ArchFeature,
}

/// A text that does not name a GPU architecture.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a GPU architecture such as sm_90a")]
pub struct UnknownArch(pub String);

impl GpuArch {
    /// The architecture of that number without a suffix.
    pub const fn plain(number: u32) -> Self {
        Self { number, feature: ArchFeature::Plain }
    }

    /// 10 of `sm_103`.
    pub fn major(self) -> u32 {
        self.number / 10
    }

    /// 3 of `sm_103`.
    pub fn minor(self) -> u32 {
        self.number % 10
    }

    /// `a`, `f` or nothing.
    pub fn suffix(self) -> &'static str {
        match self.feature {
            ArchFeature::Plain => "",
            ArchFeature::Family => "f",
            ArchFeature::Accelerated => "a",
        }
    }

    /// The name of the PTX target in compiler options: `compute_90a`.
    pub fn virtual_name(self) -> String {
        format!("compute_{}{}", self.number, self.suffix())
    }
}

impl fmt::Display for GpuArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, self.suffix())
    }
}

impl FromStr for GpuArch {
    type Err = UnknownArch;

    /// Parses `sm_90a` and `compute_90a`.
    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        let rest = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"));
        rest.and_then(parse_number_and_suffix).ok_or_else(|| UnknownArch(name.to_owned()))
    }
}

impl Serialize for GpuArch {
    /// As its name.
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for GpuArch {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// Parses `90a`, the form that `fatbinary` accepts.
fn parse_number_and_suffix(text: &str) -> Option<GpuArch> {
    let (digits, feature) = match text.as_bytes().last()? {
        b'a' => (text.strip_suffix('a')?, ArchFeature::Accelerated),
        b'f' => (text.strip_suffix('f')?, ArchFeature::Family),
        _ => (text, ArchFeature::Plain),
    };
    let plausible = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plausible)?;
    Some(GpuArch { number, feature })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> GpuArch {
        name.parse().expect("an architecture")
    }

    #[test]
    fn names_round_trip() {
        for name in ["sm_75", "sm_90a", "sm_100f", "sm_121a"] {
            assert_eq!(arch(name).to_string(), name);
            assert_eq!(arch(&arch(name).virtual_name()), arch(name));
        }
        assert_eq!((arch("sm_103a").major(), arch("sm_103a").minor()), (10, 3));
        for name in ["", "sm_", "sm_a", "90", "sm_90b", "sm_90aa", "sm_+90", "gfx90a", "sm_12345", "SM_90"] {
            assert!(name.parse::<GpuArch>().is_err(), "{name}");
        }
    }

    #[test]
    fn order_is_number_then_feature() {
        let mut archs = ["sm_100a", "sm_90", "sm_100", "sm_90a", "sm_100f"].map(arch);
        archs.sort();
        assert_eq!(archs, ["sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a"].map(arch));
    }
}
