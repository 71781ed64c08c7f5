//! The ids of the images in a bundle.

use std::fmt;

/// An id taken apart: `hip-amdgcn-amd-amdhsa--gfx90a:xnack+`.
///
/// Displayed in the form that the bundler writes, with all its parts, empty ones too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct BundleId<'a> {
    /// `host`, `hip`, `hipv4` or `openmp`.
    pub kind: &'a str,
    /// The instruction set, `amdgcn`.
    pub arch: &'a str,
    /// `amd`.
    pub vendor: &'a str,
    /// `amdhsa`.
    pub os: &'a str,
    /// Mostly empty; `gnu` of the host.
    pub environment: &'a str,
    /// The processor with its features, `gfx90a:xnack+`; empty for the host.
    pub target: &'a str,
}

impl<'a> BundleId<'a> {
    /// Takes apart an id in any of the forms that the versions of the bundler wrote: with an environment, an empty or `unknown` one, or
    /// none in front of the target. `None` for a text of less than four parts.
    ///
    /// ```
    /// use offload_bundle::hip_bundle::BundleId;
    ///
    /// let id = BundleId::parse("hip-amdgcn-amd-amdhsa-gfx90a:xnack+").expect("an id");
    /// assert_eq!(id.target, "gfx90a:xnack+");
    /// assert_eq!(id.to_string(), "hip-amdgcn-amd-amdhsa--gfx90a:xnack+");
    /// ```
    pub fn parse(id: &'a str) -> Option<Self> {
        let mut parts = id.splitn(5, '-');
        let [kind, arch, vendor, os] = [parts.next()?, parts.next()?, parts.next()?, parts.next()?];
        let rest = parts.next().unwrap_or_default();
        // A feature that is off ends with a minus, too.
        let (environment, target) =
            if is_processor(rest) { ("", rest) } else { rest.split_once('-').unwrap_or((rest, "")) };
        let environment = if environment == "unknown" { "" } else { environment };
        Some(Self { kind, arch, vendor, os, environment, target })
    }

    /// Whether it is for HIP, in either of its two spellings.
    pub fn is_hip(&self) -> bool {
        matches!(self.kind, "hip" | "hipv4")
    }
}

fn is_processor(text: &str) -> bool {
    ["gfx", "sm_", "amdgcnspirv"].iter().any(|start| text.starts_with(start))
}

impl fmt::Display for BundleId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, arch, vendor, os, environment, target } = self;
        write!(f, "{kind}-{arch}-{vendor}-{os}-{environment}-{target}")
    }
}
