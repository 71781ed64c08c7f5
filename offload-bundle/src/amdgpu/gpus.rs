//! AMD's GPUs, and which code each of them runs (LLVM's "User Guide for AMDGPU Backend": "Processors", "Generic Processor Versioning",
//! "Target Features").
//!
//! The features are those that clang 22 accepts in target ids. None of this was seen on a GPU.

use super::{CodeHeader, FeatureSetting, TargetId};

/// A GPU, by the processor that code for it alone is compiled for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gpu {
    /// The value of `EF_AMDGPU_MACH` in code objects for it.
    pub machine: u32,
    /// `gfx90a`.
    pub processor: &'static str,
    /// The generic processor whose code it runs, too, with the version of that code which introduced it.
    pub generic: Option<(&'static str, u8)>,
    /// Whether it can replay page faults, or not, as the process chooses (`HSA_XNACK`).
    pub has_xnack: bool,
    /// Whether its memory may be protected by error correction, or not.
    pub has_sramecc: bool,
}

/// Where the name of the target for SPIR-V, which the runtime compiles for its GPU, stands in place of a processor.
pub const SPIRV_PROCESSOR: &str = "amdgcnspirv";

const fn gpu(machine: u32, processor: &'static str, generic: &'static str, has_xnack: bool, has_sramecc: bool) -> Gpu {
    let generic = if generic.is_empty() { None } else { Some((generic, 1)) };
    Gpu { machine, processor, generic, has_xnack, has_sramecc }
}

/// All GPUs that LLVM 22 generates code for.
pub const GPUS: &[Gpu] = &[
    gpu(0x20, "gfx600", "", false, false),
    gpu(0x21, "gfx601", "", false, false),
    gpu(0x3a, "gfx602", "", false, false),
    gpu(0x22, "gfx700", "", false, false),
    gpu(0x23, "gfx701", "", false, false),
    gpu(0x24, "gfx702", "", false, false),
    gpu(0x25, "gfx703", "", false, false),
    gpu(0x26, "gfx704", "", false, false),
    gpu(0x3b, "gfx705", "", false, false),
    gpu(0x28, "gfx801", "", true, false),
    gpu(0x29, "gfx802", "", false, false),
    gpu(0x2a, "gfx803", "", false, false),
    gpu(0x3c, "gfx805", "", false, false),
    gpu(0x2b, "gfx810", "", true, false),
    gpu(0x2c, "gfx900", "gfx9-generic", true, false),
    gpu(0x2d, "gfx902", "gfx9-generic", true, false),
    gpu(0x2e, "gfx904", "gfx9-generic", true, false),
    gpu(0x2f, "gfx906", "gfx9-generic", true, true),
    gpu(0x30, "gfx908", "", true, true),
    gpu(0x31, "gfx909", "gfx9-generic", true, false),
    gpu(0x3f, "gfx90a", "", true, true),
    gpu(0x32, "gfx90c", "gfx9-generic", true, false),
    gpu(0x4c, "gfx942", "gfx9-4-generic", true, true),
    gpu(0x4f, "gfx950", "gfx9-4-generic", true, true),
    gpu(0x33, "gfx1010", "gfx10-1-generic", true, false),
    gpu(0x34, "gfx1011", "gfx10-1-generic", true, false),
    gpu(0x35, "gfx1012", "gfx10-1-generic", true, false),
    gpu(0x42, "gfx1013", "gfx10-1-generic", true, false),
    gpu(0x36, "gfx1030", "gfx10-3-generic", false, false),
    gpu(0x37, "gfx1031", "gfx10-3-generic", false, false),
    gpu(0x38, "gfx1032", "gfx10-3-generic", false, false),
    gpu(0x39, "gfx1033", "gfx10-3-generic", false, false),
    gpu(0x3e, "gfx1034", "gfx10-3-generic", false, false),
    gpu(0x3d, "gfx1035", "gfx10-3-generic", false, false),
    gpu(0x45, "gfx1036", "gfx10-3-generic", false, false),
    gpu(0x41, "gfx1100", "gfx11-generic", false, false),
    gpu(0x46, "gfx1101", "gfx11-generic", false, false),
    gpu(0x47, "gfx1102", "gfx11-generic", false, false),
    gpu(0x44, "gfx1103", "gfx11-generic", false, false),
    gpu(0x43, "gfx1150", "gfx11-generic", false, false),
    gpu(0x4a, "gfx1151", "gfx11-generic", false, false),
    gpu(0x55, "gfx1152", "gfx11-generic", false, false),
    gpu(0x58, "gfx1153", "gfx11-generic", false, false),
    gpu(0x48, "gfx1200", "gfx12-generic", false, false),
    gpu(0x4e, "gfx1201", "gfx12-generic", false, false),
    gpu(0x49, "gfx1250", "", false, false),
    gpu(0x5a, "gfx1251", "", false, false),
];

/// The generic processors, with their values of `EF_AMDGPU_MACH`.
const GENERIC_PROCESSORS: [(u32, &str); 6] = [
    (0x51, "gfx9-generic"),
    (0x52, "gfx10-1-generic"),
    (0x53, "gfx10-3-generic"),
    (0x54, "gfx11-generic"),
    (0x59, "gfx12-generic"),
    (0x5f, "gfx9-4-generic"),
];

/// The processor that has this value of `EF_AMDGPU_MACH`.
pub(super) fn processor(machine: u32) -> Option<&'static str> {
    let gpus = GPUS.iter().map(|gpu| (gpu.machine, gpu.processor));
    gpus.chain(GENERIC_PROCESSORS).find(|(number, _)| *number == machine).map(|(_, name)| name)
}

/// How close code is to a GPU that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fit {
    /// It was compiled for this processor.
    Native,
    /// It was compiled for a generic processor.
    Generic,
    /// It is SPIR-V, which the runtime compiles for this processor.
    Spirv,
}

/// Why a GPU does not run code.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Misfit {
    /// It was compiled for another processor.
    #[error("is for {0}")]
    Processor(String),
    /// It was compiled with a feature on that is off, or the other way round.
    #[error("needs {feature}{}, and the GPU has it {}", sign(*.code), if *.code == FeatureSetting::On { "off" } else { "on" })]
    Feature {
        /// `xnack` or `sramecc`.
        feature: &'static str,
        /// The code's setting.
        code: FeatureSetting,
    },
}

fn sign(setting: FeatureSetting) -> &'static str {
    match setting {
        FeatureSetting::Any => "",
        FeatureSetting::Off => "-",
        FeatureSetting::On => "+",
    }
}

impl Gpu {
    /// The GPU with this processor.
    pub fn find(processor: &str) -> Option<&'static Gpu> {
        GPUS.iter().find(|gpu| gpu.processor == processor)
    }

    /// All settings that its features can have, as the runtime names them: `gfx90a:sramecc+:xnack-`.
    pub fn modes(&self) -> Vec<TargetId> {
        let settings = |has| match has {
            true => &[FeatureSetting::On, FeatureSetting::Off][..],
            false => &[FeatureSetting::Any],
        };
        let mode = |sramecc, xnack| TargetId { processor: self.processor.to_owned(), sramecc, xnack };
        let of_sramecc = |sramecc: &FeatureSetting| {
            let sramecc = *sramecc;
            settings(self.has_xnack).iter().map(move |xnack| mode(sramecc, *xnack)).collect::<Vec<_>>()
        };
        settings(self.has_sramecc).iter().flat_map(of_sramecc).collect()
    }
}

impl TargetId {
    /// How code for this target fits a GPU, whose features all have a setting.
    ///
    /// # Errors
    /// Why it does not.
    pub fn fit(&self, gpu: &TargetId) -> Result<Fit, Misfit> {
        let generic = Gpu::find(&gpu.processor).and_then(|known| known.generic).map(|(name, _)| name);
        let fit = match self.processor.as_str() {
            SPIRV_PROCESSOR => return Ok(Fit::Spirv),
            own if own == gpu.processor => Fit::Native,
            own if Some(own) == generic => Fit::Generic,
            own => return Err(Misfit::Processor(own.to_owned())),
        };
        for (feature, code, setting) in [("sramecc", self.sramecc, gpu.sramecc), ("xnack", self.xnack, gpu.xnack)] {
            if code != FeatureSetting::Any && code != setting {
                return Err(Misfit::Feature { feature, code });
            }
        }
        Ok(fit)
    }
}

impl CodeHeader {
    /// Why a GPU cannot load this code object, whatever its container calls it.
    pub fn refused_by(&self, gpu: &TargetId) -> Option<String> {
        const FIRST_VERSION: u8 = 3;
        const FIRST_GENERIC: u8 = 6;
        if self.relocatable {
            return Some("it is an object that no linker has made a code object of".to_owned());
        }
        if self.version < FIRST_VERSION {
            return Some(format!("it has code object version {}, which no current runtime loads", self.version));
        }
        let Some(target) = &self.target else {
            return Some("its header names a processor that is not known here".to_owned());
        };
        match target.fit(gpu) {
            Err(misfit) => Some(format!("its header says that it {misfit}")),
            Ok(Fit::Generic) if self.version < FIRST_GENERIC => {
                Some(format!("generic processors need code object version 6, and it has version {}", self.version))
            }
            Ok(Fit::Generic) => {
                let needed =
                    Gpu::find(&gpu.processor).and_then(|known| known.generic).map_or(0, |(_, version)| version);
                (self.generic_version < needed).then(|| {
                    let own = self.generic_version;
                    format!(
                        "{} runs version {needed} of {} or later, and it has version {own}",
                        gpu.processor, target.processor
                    )
                })
            }
            Ok(_) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(text: &str) -> TargetId {
        text.parse().unwrap()
    }

    #[test]
    fn settings_must_be_the_same_where_code_has_them() {
        let gpu = id("gfx90a:sramecc+:xnack-");
        for (code, fits) in [
            ("gfx90a", true),
            ("gfx90a:xnack-", true),
            ("gfx90a:sramecc+", true),
            ("gfx90a:xnack+", false),
            ("gfx90a:sramecc-:xnack-", false),
            ("gfx908", false),
            ("gfx9-generic", false),
        ] {
            assert_eq!(id(code).fit(&gpu).is_ok(), fits, "{code}");
        }
        assert_eq!(id("gfx90a:xnack+").fit(&gpu).unwrap_err().to_string(), "needs xnack+, and the GPU has it off");
    }

    #[test]
    fn generic_code_and_spirv_fit_their_families() {
        assert_eq!(id("gfx9-generic").fit(&id("gfx906:sramecc+:xnack+")), Ok(Fit::Generic));
        assert_eq!(id("gfx9-4-generic:xnack+").fit(&id("gfx942:sramecc+:xnack+")), Ok(Fit::Generic));
        assert_eq!(id("gfx11-generic").fit(&id("gfx1153")), Ok(Fit::Generic));
        assert_eq!(id("gfx12-generic").fit(&id("gfx1100")), Err(Misfit::Processor("gfx12-generic".to_owned())));
        assert_eq!(id("amdgcnspirv").fit(&id("gfx1201")), Ok(Fit::Spirv));
    }

    #[test]
    fn modes_are_all_combinations_of_features() {
        let modes = |name| Gpu::find(name).unwrap().modes().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(modes("gfx1100"), ["gfx1100"]);
        assert_eq!(modes("gfx900"), ["gfx900:xnack+", "gfx900:xnack-"]);
        assert_eq!(modes("gfx90a").len(), 4);
        assert!(Gpu::find("gfx9-generic").is_none());
    }

    #[test]
    fn loaders_check_versions() {
        let header = |version, generic_version, target: &str| CodeHeader {
            version,
            generic_version,
            target: Some(id(target)),
            relocatable: false,
        };
        let gpu = id("gfx1100");
        assert_eq!(header(6, 1, "gfx11-generic").refused_by(&gpu), None);
        assert_eq!(header(4, 0, "gfx1100").refused_by(&gpu), None);
        for (refused, why) in [
            (header(6, 0, "gfx11-generic"), "runs version 1 of gfx11-generic"),
            (header(5, 1, "gfx11-generic"), "code object version 6"),
            (header(2, 0, "gfx1100"), "code object version 2"),
            (header(6, 0, "gfx1101"), "is for gfx1101"),
            (CodeHeader { relocatable: true, ..header(6, 0, "gfx1100") }, "no linker"),
            (CodeHeader { target: None, ..header(6, 0, "gfx1100") }, "not known"),
        ] {
            assert!(refused.refused_by(&gpu).is_some_and(|text| text.contains(why)), "{why}");
        }
    }
}
