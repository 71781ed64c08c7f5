//! Selects device images of a file: `sm_90`, `ptx`, `ptx:sm_90`.

use std::fmt;
use std::str::FromStr;

use crate::listing::Row;

/// Selects images by kind, by target, or by both.
///
/// Written as a kind (`ptx`, `cubin`, `ltoir`, `bitcode`, …), as a target (`sm_90`, `gfx90a`), or as both with a colon between them
/// (`ptx:sm_90`). `compute_90` is the PTX of `sm_90`, as in nvcc's `-gencode`. A target alone means all of its images, PTX too.
///
/// Targets are compared literally: `gfx906` does not select `gfx906:xnack-`, which is a target of its own, nor `sm_90` `sm_90a`.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Selector {
    image: Option<String>,
    target: Option<String>,
}

/// The kinds of [`Row::image`], each with the other names it goes by.
const KINDS: [(&str, &[&str]); 11] = [
    ("cubin", &["elf", "sass"]),
    ("ptx", &[]),
    ("ltoir", &["nvvm", "lto"]),
    ("bitcode", &["bc"]),
    ("object", &["o"]),
    ("fatbin", &[]),
    ("spirv", &["spv"]),
    ("relocatable ptx", &["relocatable-ptx"]),
    ("tile ir", &["tileir"]),
    ("index", &[]),
    ("old cubin", &["old-cubin"]),
];

/// The name of a kind in [`Row::image`], given any of its names.
fn kind(name: &str) -> Option<&'static str> {
    let row = KINDS.iter().find(|(kind, others)| *kind == name || others.contains(&name));
    row.map(|(kind, _)| *kind)
}

/// Why a word selects no images.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SelectorError {
    /// A word that is not the name of a kind.
    #[error("'{0}' is no kind of image; the kinds are: {kinds}", kinds = KINDS.map(|(kind, _)| kind).join(", "))]
    UnknownKind(String),
    /// What follows the colon is not a target.
    #[error("'{0}' is no target; write one such as ptx:sm_90")]
    NotATarget(String),
    /// An empty word.
    #[error("an empty word means no image; write a target such as sm_90, or a kind such as ptx")]
    Empty,
    /// A word that is neither a kind nor looks like a target.
    #[error("'{0}' is neither a target such as sm_90 nor a kind of image such as ptx")]
    Unknown(String),
}

impl Selector {
    /// Selects all images of a kind.
    ///
    /// # Errors
    /// A word that is not the name of a kind.
    pub fn of_kind(name: &str) -> Result<Self, SelectorError> {
        let image = kind(name).ok_or_else(|| SelectorError::UnknownKind(name.to_owned()))?;
        Ok(Self { image: Some(image.to_owned()), target: None })
    }

    /// Whether it selects this image.
    pub fn matches(&self, row: &Row) -> bool {
        let is_kind = self.image.as_ref().is_none_or(|image| *image == row.image);
        is_kind && self.target.as_ref().is_none_or(|target| *target == row.target)
    }
}

impl FromStr for Selector {
    type Err = SelectorError;

    fn from_str(text: &str) -> Result<Self, SelectorError> {
        if let Some((image, target)) = text.split_once(':').filter(|(word, _)| !is_processor(word)) {
            let selector = Self::of_kind(image)?;
            return match Self::from_str(target)? {
                Self { image: None, target } => Ok(Self { target, ..selector }),
                _ => Err(SelectorError::NotATarget(target.to_owned())),
            };
        }
        if text.is_empty() {
            return Err(SelectorError::Empty);
        }
        if let Some(number) = text.strip_prefix("compute_") {
            return Ok(Self { image: Some("ptx".to_owned()), target: Some(format!("sm_{number}")) });
        }
        if kind(text).is_some() {
            return Self::of_kind(text);
        }
        // Otherwise `all` and misspelt kinds would be targets that silently match nothing.
        if !text.bytes().any(|byte| byte.is_ascii_digit()) {
            return Err(SelectorError::Unknown(text.to_owned()));
        }
        Ok(Self { image: None, target: Some(text.to_owned()) })
    }
}

/// Whether a word in front of a colon is a target with features behind it, `gfx906:xnack-`, and no kind. No kind has a number.
fn is_processor(word: &str) -> bool {
    word.bytes().any(|byte| byte.is_ascii_digit())
}

impl fmt::Display for Selector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.image, &self.target) {
            (Some(image), Some(target)) => write!(f, "{image}:{target}"),
            (Some(word), None) | (None, Some(word)) => f.write_str(word),
            (None, None) => f.write_str("all"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{listing, samples};

    fn matched(selector: &str) -> Vec<String> {
        let rows = listing::list(&samples::fatbin(true), crate::archive::reject_thin_members).expect("a sound fatbin");
        let selector: Selector = selector.parse().expect("a selector");
        rows.iter().filter(|row| selector.matches(row)).map(|row| format!("{} {}", row.image, row.target)).collect()
    }

    #[test]
    fn kinds_targets_and_both() {
        assert_eq!(matched("sm_90"), ["cubin sm_90", "ptx sm_90"]);
        assert_eq!(matched("elf"), ["cubin sm_90", "cubin sm_100"]);
        assert_eq!(matched("cubin:sm_100"), ["cubin sm_100"]);
        assert_eq!(matched("compute_90"), ["ptx sm_90"]);
        assert_eq!(matched("sm_90a"), [""; 0]);
    }

    #[test]
    fn targets_may_have_features() {
        let row = |target| listing::row_of_id(&format!("hipv4-amdgcn-amd-amdhsa--{target}"), 0);
        let matches = |word: &str, target| word.parse::<Selector>().expect("a selector").matches(&row(target));
        for word in ["gfx906:xnack-", "object:gfx906:xnack-"] {
            assert!(matches(word, "gfx906:xnack-"), "{word}");
            assert!(!matches(word, "gfx906") && !matches(word, "gfx906:xnack+"), "{word}");
        }
        assert!(matches("gfx906", "gfx906"));
        assert!(!matches("gfx906", "gfx906:xnack-"));
        // As bundlers of old wrote it.
        let old = listing::row_of_id("hip-amdgcn-amd-amdhsa-gfx906:xnack-", 0);
        assert_eq!(old.target, "gfx906:xnack-");
    }

    #[test]
    fn words_that_mean_nothing() {
        for text in ["", "all", "pxt", "pxt:sm_90", "ptx:cubin", "ptx:compute_90"] {
            assert!(text.parse::<Selector>().is_err(), "{text}");
        }
        assert_eq!("sass:sm_90".parse::<Selector>().map(|s| s.to_string()), Ok("cubin:sm_90".to_owned()));
    }
}
