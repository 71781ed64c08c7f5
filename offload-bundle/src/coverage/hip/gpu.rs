//! The GPUs that a prediction is for.

use std::fmt;
use std::str::FromStr;

use crate::amdgpu::{FeatureSetting, GPUS, Gpu, TargetId, TargetIdError};

/// One of AMD's GPUs, with the settings of its features that are of interest: `gfx90a`, `gfx90a:xnack+`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AmdGpu {
    /// The settings of interest; those that can be either way are `Any`.
    settings: TargetId,
    /// All of them that are possible.
    modes: Vec<TargetId>,
}

/// A text that is no GPU.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownAmdGpu {
    /// It is no target id at all.
    #[error(transparent)]
    Syntax(#[from] TargetIdError),
    /// A generic processor.
    #[error("{0} is no GPU, but what several GPUs run; name one such as {1}")]
    Generic(String, &'static str),
    /// A processor that is not known.
    #[error("'{0}' is not one of the processors of AMD's GPUs that LLVM 22 knows, such as gfx90a")]
    Processor(String),
    /// A feature that the GPU does not have.
    #[error("{0} has no such feature; xnack and sramecc exist on some GPUs only")]
    Feature(String),
}

impl AmdGpu {
    /// All GPUs, each with any setting.
    pub fn all() -> Vec<Self> {
        let any = |gpu: &Gpu| TargetId {
            processor: gpu.processor.to_owned(),
            sramecc: FeatureSetting::Any,
            xnack: FeatureSetting::Any,
        };
        GPUS.iter().map(|gpu| AmdGpu { settings: any(gpu), modes: gpu.modes() }).collect()
    }

    /// The settings that its features can have.
    pub(crate) fn modes(&self) -> &[TargetId] {
        &self.modes
    }

    /// The settings for which `outcome` differs, each with the outcome: one if it is the same for all.
    pub(crate) fn distinct<T: PartialEq>(&self, outcome: impl Fn(&TargetId) -> T) -> Vec<(TargetId, T)> {
        let outcomes: Vec<(&TargetId, T)> = self.modes.iter().map(|mode| (mode, outcome(mode))).collect();
        let differs = |only: fn(&TargetId, &TargetId) -> bool| {
            outcomes.iter().any(|(one, first)| outcomes.iter().any(|(two, second)| only(one, two) && first != second))
        };
        let by_xnack = differs(|one, two| one.sramecc == two.sramecc);
        let by_sramecc = differs(|one, two| one.xnack == two.xnack);
        let mut rows: Vec<(TargetId, T)> = Vec::new();
        for (mode, outcome) in outcomes {
            let TargetId { processor, sramecc, xnack } = mode.clone();
            let label = TargetId {
                processor,
                sramecc: if by_sramecc { sramecc } else { self.settings.sramecc },
                xnack: if by_xnack { xnack } else { self.settings.xnack },
            };
            if rows.iter().all(|(known, _)| *known != label) {
                rows.push((label, outcome));
            }
        }
        rows
    }
}

impl FromStr for AmdGpu {
    type Err = UnknownAmdGpu;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let settings: TargetId = text.parse()?;
        let Some(gpu) = Gpu::find(&settings.processor) else {
            let is_of = |gpu: &&Gpu| gpu.generic.is_some_and(|(name, _)| name == settings.processor);
            return Err(match GPUS.iter().find(is_of) {
                Some(gpu) => UnknownAmdGpu::Generic(settings.processor, gpu.processor),
                None => UnknownAmdGpu::Processor(settings.processor),
            });
        };
        let is_meant = |wanted: FeatureSetting, own| wanted == FeatureSetting::Any || wanted == own;
        let mut modes = gpu.modes();
        modes.retain(|mode| is_meant(settings.sramecc, mode.sramecc) && is_meant(settings.xnack, mode.xnack));
        if modes.is_empty() {
            return Err(UnknownAmdGpu::Feature(text.to_owned()));
        }
        Ok(AmdGpu { settings, modes })
    }
}

impl fmt::Display for AmdGpu {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.settings.fmt(formatter)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(gpu: &str, outcome: impl Fn(&TargetId) -> u8) -> Vec<String> {
        let gpu: AmdGpu = gpu.parse().unwrap();
        gpu.distinct(outcome).iter().map(|(label, _)| label.to_string()).collect()
    }

    #[test]
    fn only_settings_that_matter_are_shown() {
        let xnack = |mode: &TargetId| u8::from(mode.xnack == FeatureSetting::On);
        let both = |mode: &TargetId| xnack(mode) * 2 + u8::from(mode.sramecc == FeatureSetting::On);
        assert_eq!(labels("gfx90a", |_| 0), ["gfx90a"]);
        assert_eq!(labels("gfx90a", xnack), ["gfx90a:xnack+", "gfx90a:xnack-"]);
        assert_eq!(labels("gfx90a:xnack+", both), ["gfx90a:sramecc+:xnack+", "gfx90a:sramecc-:xnack+"]);
        assert_eq!(labels("gfx90a", both).len(), 4);
        assert_eq!(labels("gfx90a:xnack+", xnack), ["gfx90a:xnack+"]);
        assert_eq!(labels("gfx1100", both), ["gfx1100"]);
    }

    #[test]
    fn what_is_no_gpu_is_rejected() {
        for (text, why) in [
            ("gfx9-generic", "gfx900"),
            ("gfx9999", "LLVM 22"),
            ("gfx1100:xnack+", "no such feature"),
            ("gfx90a:foo+", "not one of the features"),
        ] {
            let error = text.parse::<AmdGpu>().unwrap_err().to_string();
            assert!(error.contains(why), "{error}");
        }
        assert_eq!(AmdGpu::all().len(), GPUS.len());
    }
}
