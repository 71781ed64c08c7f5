//! The words by which users name GPUs: targets, products, ranges, and all that are supported.

use std::str::FromStr;

use super::hip::{AmdGpu, UnknownAmdGpu};
use super::needed::Gpus;
use crate::amdgpu::GPUS;
use crate::arch::table::KNOWN;
use crate::arch::{GpuArch, arch_of_product, product_names};

/// The word for all of NVIDIA's GPUs that the newest CUDA release supports.
const ALL_SUPPORTED: &str = "all-supported";

/// A GPU of either vendor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gpu {
    /// One of NVIDIA's.
    Nvidia(GpuArch),
    /// One of AMD's.
    Amd(AmdGpu),
}

impl FromStr for Gpu {
    type Err = String;

    /// Reads the name of a target or product. A target that no table has must be one of a later GPU.
    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with("gfx") {
            return text.parse().map(Gpu::Amd).map_err(|error: UnknownAmdGpu| error.to_string());
        }
        let named = text.parse().ok().or_else(|| arch_of_product(text));
        named.filter(|gpu| KNOWN.has_target(*gpu) || is_later(*gpu)).map(Gpu::Nvidia).ok_or_else(|| unknown(text))
    }
}

/// Whether a GPU may be newer than all in the table.
fn is_later(gpu: GpuArch) -> bool {
    /// Twice the major version of today's newest.
    const FURTHEST: u32 = 250;
    KNOWN.all_gpus().all(|known| known.number < gpu.number) && gpu.number < FURTHEST
}

/// The message for a name that is none, with the nearest one.
fn unknown(text: &str) -> String {
    /// So many typing errors leave a name recognizable.
    const MOST_ERRORS: usize = 2;
    const WANTED: &str = "no GPU has this name: expected a target such as sm_90 or gfx90a, or a product such as H100";
    if let Some(near) = near_number(text) {
        return format!("{WANTED}; did you mean {near}?");
    }
    let targets = KNOWN.all_gpus().map(|gpu| gpu.to_string());
    let names = targets.chain(product_names().map(str::to_uppercase));
    let written = text.to_uppercase();
    // Of equally near names, one with a letter too few or too many at its end.
    let distance = |name: &String| {
        let name = name.to_uppercase();
        let is_other = !(name.starts_with(&written) || written.starts_with(&name));
        (strsim::damerau_levenshtein(&name, &written), is_other)
    };
    let nearest = names.map(|name| (distance(&name), name)).min_by_key(|(distance, _)| *distance);
    let near = nearest.filter(|((distance, _), _)| *distance <= MOST_ERRORS);
    let hint = near.map(|(_, name)| format!("; did you mean {name}?"));
    format!("{WANTED}{}", hint.unwrap_or_default())
}

/// The known GPU whose number is nearest to that of `sm_91`, `compute_91a` or `91`.
fn near_number(text: &str) -> Option<GpuArch> {
    /// Further numbers are typing errors.
    const FURTHEST: u32 = 5;
    let number = text.strip_prefix("sm_").or_else(|| text.strip_prefix("compute_")).unwrap_or(text);
    let number: u32 = number.trim_end_matches(['a', 'f']).parse().ok().filter(|number| (10..1000).contains(number))?;
    let nearest = KNOWN.all_gpus().min_by_key(|gpu| gpu.number.abs_diff(number));
    nearest.filter(|gpu| gpu.number.abs_diff(number) <= FURTHEST)
}

/// One word of a list of GPUs: a GPU, a range (`sm_75..sm_121`), a generic processor of AMD's (`gfx11-generic`), or `all-supported`.
///
/// ```
/// use offload_bundle::coverage::{GpuWord, Gpus};
///
/// let words: Vec<GpuWord> = ["sm_86..sm_90", "T4"].iter().map(|word| word.parse().expect("GPUs")).collect();
/// let names: Vec<String> = Gpus::of_words(&words).nvidia.iter().map(ToString::to_string).collect();
/// assert_eq!(names, ["sm_75", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90"]);
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GpuWord {
    gpus: Vec<Gpu>,
    /// Whether it is the name of one GPU.
    is_name: bool,
}

impl FromStr for GpuWord {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == ALL_SUPPORTED {
            return Ok(Self::several(KNOWN.current_gpus().map(Gpu::Nvidia).collect()));
        }
        if let Some((first, last)) = text.split_once("..") {
            return range(first, last).map(Self::several);
        }
        let generic: Vec<Gpu> = GPUS
            .iter()
            .filter(|gpu| gpu.generic.is_some_and(|(name, _)| name == text))
            .filter_map(|gpu| gpu.processor.parse().ok().map(Gpu::Amd))
            .collect();
        if !generic.is_empty() {
            return Ok(Self::several(generic));
        }
        text.parse().map(|gpu| Self { gpus: vec![gpu], is_name: true })
    }
}

impl GpuWord {
    fn several(gpus: Vec<Gpu>) -> Self {
        Self { gpus, is_name: false }
    }

    /// The names of the GPUs that words name one by one, and not by a range or as all that are supported.
    pub fn named(words: &[Self]) -> Vec<String> {
        Gpus::of_words(&words.iter().filter(|word| word.is_name).cloned().collect::<Vec<_>>()).names()
    }
}

/// The known GPUs from one to another, both included. A number that CUDA dropped between those that it supports is a former name of
/// another GPU, and is left out.
fn range(first: &str, last: &str) -> Result<Vec<Gpu>, String> {
    let end = |text: &str| match text.parse()? {
        Gpu::Nvidia(gpu) => Ok(gpu.number),
        Gpu::Amd(gpu) => Err(format!(
            "{gpu} is one of AMD's GPUs, which have no order: name each, or a generic processor such as gfx11-generic"
        )),
    };
    let (first, last) = (end(first)?, end(last)?);
    if first > last {
        return Err(format!("the range begins with sm_{first}, behind its end sm_{last}"));
    }
    let is_former = |gpu: &GpuArch| {
        let oldest = KNOWN.current_gpus().next();
        oldest.is_some_and(|oldest| oldest < *gpu) && KNOWN.current_gpus().all(|current| current != *gpu)
    };
    let inside = KNOWN.all_gpus().filter(|gpu| (first..=last).contains(&gpu.number) && !is_former(gpu));
    let mut gpus: Vec<GpuArch> = inside.collect();
    // A GPU that is newer than the table.
    if gpus.last().is_none_or(|gpu| gpu.number < last) {
        gpus.push(GpuArch::plain(last));
    }
    Ok(gpus.into_iter().map(Gpu::Nvidia).collect())
}

impl Gpus {
    /// The GPUs that words name, each once: NVIDIA's in ascending order and without suffixes, AMD's in the order of the words.
    pub fn of_words(words: &[GpuWord]) -> Self {
        let mut gpus = Self::default();
        for gpu in words.iter().flat_map(|word| &word.gpus) {
            match gpu {
                Gpu::Nvidia(gpu) => gpus.nvidia.push(GpuArch::plain(gpu.number)),
                Gpu::Amd(gpu) if gpus.amd.contains(gpu) => {}
                Gpu::Amd(gpu) => gpus.amd.push(gpu.clone()),
            }
        }
        gpus.nvidia.sort();
        gpus.nvidia.dedup();
        gpus
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.nvidia.is_empty() && self.amd.is_empty()
    }

    /// Their names.
    pub fn names(&self) -> Vec<String> {
        let amd = self.amd.iter().map(ToString::to_string);
        self.nvidia.iter().map(ToString::to_string).chain(amd).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(words: &[&str]) -> Vec<String> {
        let words: Vec<GpuWord> = words.iter().map(|word| word.parse().expect("a word")).collect();
        Gpus::of_words(&words).names()
    }

    #[test]
    fn words_name_one_gpu_or_many() {
        assert_eq!(names(&["rtx4090", "sm_90a", "H100", "sm_75"]), ["sm_75", "sm_89", "sm_90"]);
        assert_eq!(names(&["sm_100..sm_110"]), ["sm_100", "sm_103", "sm_107", "sm_110"]);
        assert_eq!(names(&["T4..RTX3090"]), ["sm_75", "sm_80", "sm_86"]);
        assert_eq!(names(&["sm_120..sm_130"]), ["sm_120", "sm_121", "sm_130"]);
        assert_eq!(names(&["sm_50..sm_53"]), ["sm_50", "sm_52", "sm_53"]);
        assert_eq!(names(&["all-supported"]).len(), KNOWN.current_gpus().count());
        assert_eq!(names(&["gfx12-generic", "gfx90a:xnack+"]), ["gfx1200", "gfx1201", "gfx90a:xnack+"]);
    }

    #[test]
    fn bad_words_say_what_is_wrong() {
        for (word, why) in [
            ("sm_90..sm_80", "behind its end"),
            ("sm_75..gfx90a", "AMD's GPUs"),
            ("H10", "did you mean H100"),
            ("sm_91", "did you mean sm_90?"),
            ("90", "did you mean sm_90?"),
            ("compute_104a", "did you mean sm_103?"),
            ("sm_90..", "no GPU has this name"),
            ("all", "no GPU has this name"),
        ] {
            let error = word.parse::<GpuWord>().expect_err(word);
            assert!(error.contains(why), "{word}: {error}");
        }
    }
}
