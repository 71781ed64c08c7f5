//! Target ids: a processor with the settings of its features, such as `gfx90a:sramecc+:xnack-`.

use std::fmt;
use std::str::FromStr;

/// What code is compiled for, or what a GPU is set to.
///
/// Displayed in the canonical form, in which the features are sorted.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TargetId {
    /// `gfx90a`, `gfx9-4-generic`, `amdgcnspirv`.
    pub processor: String,
    /// Whether memory is protected by error correction; code without a setting runs either way.
    pub sramecc: FeatureSetting,
    /// Whether page faults are replayed; code without a setting runs either way.
    pub xnack: FeatureSetting,
}

/// The setting of one feature.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FeatureSetting {
    /// The code runs with the feature on or off.
    #[default]
    Any,
    /// `-`
    Off,
    /// `+`
    On,
}

/// A text that is no target id.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TargetIdError {
    /// There is no processor in front of the features, or it has characters that no processor's name has.
    #[error("'{0}' does not begin with a processor such as gfx90a")]
    Processor(String),
    /// A feature other than `sramecc` and `xnack`, one without a sign, or one that is given twice.
    #[error("'{0}' is not one of the features sramecc+, sramecc-, xnack+ and xnack-, each given once")]
    Feature(String),
}

impl FeatureSetting {
    fn parse(sign: &str) -> Option<Self> {
        match sign {
            "+" => Some(FeatureSetting::On),
            "-" => Some(FeatureSetting::Off),
            _ => None,
        }
    }

    fn sign(self) -> Option<char> {
        match self {
            FeatureSetting::Any => None,
            FeatureSetting::Off => Some('-'),
            FeatureSetting::On => Some('+'),
        }
    }

    /// Whether one of the two is on where the other is off.
    fn contradicts(self, other: Self) -> bool {
        self != other && self != FeatureSetting::Any && other != FeatureSetting::Any
    }
}

impl TargetId {
    /// The features as LLVM's code generator takes them: `-sramecc,+xnack`.
    pub fn llvm_features(&self) -> String {
        let signed = self.features().filter_map(|(name, setting)| Some(format!("{}{name}", setting.sign()?)));
        signed.collect::<Vec<_>>().join(",")
    }

    /// How many features have a setting.
    pub fn settings(&self) -> usize {
        self.features().filter(|(_, setting)| *setting != FeatureSetting::Any).count()
    }

    /// Whether code for the two can be linked: the processors are the same, and no feature is on in one and off in the other.
    pub fn links_with(&self, other: &Self) -> bool {
        self.processor == other.processor
            && !self.sramecc.contradicts(other.sramecc)
            && !self.xnack.contradicts(other.xnack)
    }

    fn features(&self) -> impl Iterator<Item = (&'static str, FeatureSetting)> {
        [("sramecc", self.sramecc), ("xnack", self.xnack)].into_iter()
    }
}

impl FromStr for TargetId {
    type Err = TargetIdError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let mut parts = text.split(':');
        let processor = parts.next().unwrap_or_default();
        let is_name = |c: char| c.is_ascii_alphanumeric() || c == '-';
        if processor.is_empty() || !processor.chars().all(is_name) {
            return Err(TargetIdError::Processor(text.to_owned()));
        }
        let (mut sramecc, mut xnack) = (None, None);
        for part in parts {
            let failed = || TargetIdError::Feature(part.to_owned());
            let (place, sign) = match (part.strip_prefix("sramecc"), part.strip_prefix("xnack")) {
                (Some(sign), _) => (&mut sramecc, sign),
                (_, Some(sign)) => (&mut xnack, sign),
                _ => return Err(failed()),
            };
            let setting = FeatureSetting::parse(sign).ok_or_else(failed)?;
            if place.replace(setting).is_some() {
                return Err(failed());
            }
        }
        Ok(TargetId {
            processor: processor.to_owned(),
            sramecc: sramecc.unwrap_or_default(),
            xnack: xnack.unwrap_or_default(),
        })
    }
}

impl fmt::Display for TargetId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.processor)?;
        for (name, setting) in self.features() {
            if let Some(sign) = setting.sign() {
                write!(formatter, ":{name}{sign}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TargetId {
        text.parse().unwrap()
    }

    #[test]
    fn features_are_read_in_any_order_and_written_sorted() {
        assert_eq!(id("gfx90a:xnack-:sramecc+").to_string(), "gfx90a:sramecc+:xnack-");
        assert_eq!(id("gfx90a:xnack-:sramecc+").llvm_features(), "+sramecc,-xnack");
        assert_eq!(id("gfx9-4-generic").to_string(), "gfx9-4-generic");
        assert_eq!((id("gfx90a").llvm_features(), id("gfx90a:xnack+").settings()), (String::new(), 1));
    }

    #[test]
    fn what_is_no_target_id_is_rejected() {
        for text in ["", ":xnack+", "gfx90a:", "gfx90a:xnack", "gfx90a:xnack+:xnack+", "gfx90a:tgsplit+", "gfx 90a"] {
            assert!(text.parse::<TargetId>().is_err(), "{text}");
        }
    }

    #[test]
    fn only_contradictions_keep_code_apart() {
        assert!(id("gfx90a").links_with(&id("gfx90a:xnack+")));
        assert!(id("gfx90a:sramecc-").links_with(&id("gfx90a:xnack+")));
        assert!(!id("gfx90a:xnack-").links_with(&id("gfx90a:xnack+")));
        assert!(!id("gfx90a").links_with(&id("gfx908")));
    }
}
