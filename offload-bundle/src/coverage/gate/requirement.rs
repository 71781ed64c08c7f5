//! What is required of files.

use std::str::FromStr;

use serde::Serialize;

use super::super::driver::Driver;
use super::super::gpu_words::GpuWord;
use super::super::needed::Gpus;
use crate::arch::GpuArch;

/// What files must do.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Requirement {
    /// Where they must run.
    pub gpus: Gpus,
    /// The names of those GPUs that are in it by themselves: others, of a range, need not be served by files for processors that they do not
    /// go with.
    pub named: Vec<String>,
    /// With which drivers of NVIDIA's; one that is new enough, if there are none.
    pub drivers: Vec<Driver>,
    /// Whether the driver may compile PTX there.
    pub jit: JitRule,
    /// Which kernels of a file must run there.
    pub kernels: KernelRule,
    /// Kernels that need not run on all of the GPUs.
    pub exceptions: Vec<KernelClaim>,
}

/// Kernels that are for some GPUs alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KernelClaim {
    /// Their names, mangled; `*` stands for any characters.
    pub name: String,
    /// The GPUs.
    pub gpus: Gpus,
}

impl KernelClaim {
    /// Whether it says that a kernel need not run on a GPU.
    pub(super) fn excuses(&self, kernel: &str, gpu: GpuArch) -> bool {
        !self.gpus.nvidia.iter().any(|own| own.number == gpu.number) && matches(&self.name, kernel)
    }
}

/// Whether a name is of a pattern.
fn matches(pattern: &str, name: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = name.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some(at) = rest.find(piece) else { return false };
        rest = rest.get(at + piece.len()..).unwrap_or_default();
    }
    rest.ends_with(last)
}

/// Whether kernels may be compiled from PTX when they are first loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum JitRule {
    /// They may.
    #[default]
    Allowed,
    /// Each GPU must have machine code.
    Forbidden,
}

/// Which kernels of a file must run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum KernelRule {
    /// All.
    #[default]
    All,
    /// Any: the library itself chooses kernels for the GPU, as cuBLAS does.
    Any,
}

impl Requirement {
    /// The drivers to judge: one at least.
    pub fn drivers(&self) -> Vec<Driver> {
        let mut drivers = Vec::new();
        for driver in &self.drivers {
            if !drivers.contains(driver) {
                drivers.push(*driver);
            }
        }
        if drivers.is_empty() { vec![Driver::default()] } else { drivers }
    }
}

impl FromStr for Requirement {
    type Err = String;

    /// Reads `GPUS[@DRIVERS][,no-jit]`, the form that a link takes: `sm_75..sm_90,rtx5090@535,580,no-jit`.
    fn from_str(text: &str) -> Result<Self, String> {
        const NO_JIT: &str = "no-jit";
        let (gpus, drivers) = text.split_once('@').unwrap_or((text, ""));
        let (drivers, jit): (Vec<&str>, Vec<&str>) = words(drivers).partition(|word| *word != NO_JIT);
        let (gpus, more): (Vec<&str>, Vec<&str>) = words(gpus).partition(|word| *word != NO_JIT);
        let forbidden = !jit.is_empty() || !more.is_empty();
        let gpus = gpus.into_iter().map(|word| named(word, word.parse::<GpuWord>()));
        let words = gpus.collect::<Result<Vec<_>, _>>()?;
        let gpus = Gpus::of_words(&words);
        if gpus.is_empty() {
            return Err("no GPU is named: expected GPUS@DRIVERS such as sm_80..sm_90,rtx4090@535,580".to_owned());
        }
        let drivers = drivers.into_iter().map(|word| word.parse::<Driver>().map_err(|error| error.to_string()));
        Ok(Self {
            gpus,
            named: GpuWord::named(&words),
            drivers: drivers.collect::<Result<_, _>>()?,
            jit: if forbidden { JitRule::Forbidden } else { JitRule::Allowed },
            kernels: KernelRule::All,
            exceptions: Vec::new(),
        })
    }
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty())
}

fn named(word: &str, parsed: Result<GpuWord, String>) -> Result<GpuWord, String> {
    parsed.map_err(|error| format!("'{word}': {error}"))
}

/// What a cell stands on; later ones are stronger.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Rung {
    /// The rules that the vendor documents, or rules that were observed on other GPUs or drivers.
    Documented,
    /// As documented, and ptxas assembled each PTX that the driver would compile.
    Assembled,
    /// The rules were observed with this driver on this GPU. Only for machine code: whether a PTX compiles is not a matter of rules.
    Observed,
    /// The modules of these very files were loaded by this driver on this GPU.
    Loaded,
}

impl Rung {
    /// Its name in reports.
    pub fn word(self) -> &'static str {
        match self {
            Rung::Documented => "documented",
            Rung::Assembled => "assembled",
            Rung::Observed => "observed",
            Rung::Loaded => "loaded",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, name) in [("k", "k"), ("k*", "kernel"), ("*sm90*", "gemm_sm90_x"), ("a*b*c", "aXbYc"), ("*", "")]
        {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [("k", "kernel"), ("*sm90", "gemm_sm90_x"), ("a*bb*c", "abc"), ("ab*ba", "aba")] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn the_form_of_a_link() {
        let parsed: Requirement = "sm_80..sm_86,H100@535,580.159.04,no-jit".parse().expect("a requirement");
        assert_eq!(parsed.gpus.names(), ["sm_80", "sm_86", "sm_90"]);
        assert_eq!((parsed.drivers, parsed.jit), (vec![Driver::Branch(535), Driver::Branch(580)], JitRule::Forbidden));
        let plain: Requirement = "sm_90".parse().expect("a requirement");
        assert_eq!((plain.drivers(), plain.jit), (vec![Driver::NewEnough], JitRule::Allowed));
        for (text, why) in
            [("@580", "no GPU is named"), ("sm_9x", "'sm_9x': no GPU"), ("sm_90@13.0", "not a driver version")]
        {
            let error = text.parse::<Requirement>().expect_err(text);
            assert!(error.contains(why), "{error}");
        }
    }
}
