//! Reads how an image was compiled.

use llvm_passes::module_flags::{AmdFlags, DebugKind, ModuleFlags};
use llvm_passes::unit::Unit;
use offload_bundle::ptx::DebugInfo;
use offload_bundle::{amdgpu, cubin};

use crate::cli::values::Check;

/// What the properties of an image are read from.
#[derive(Clone, Copy)]
pub enum Source<'a> {
    /// Bitcode.
    Unit(&'a Unit<'a>),
    /// NVIDIA's machine code.
    Cubin(&'a [u8]),
    /// PTX.
    Ptx(&'a [u8]),
    /// An object for AMD's GPUs.
    AmdObject(&'a [u8]),
    /// Code that records none of the properties.
    Unknown,
}

impl Source<'_> {
    /// The properties, each with its value. An unreadable image has none; the link reports it.
    pub fn properties(self) -> Vec<(Check, String)> {
        match self {
            Source::Unit(unit) => unit.module_flags().map(of_bitcode).unwrap_or_default(),
            Source::Cubin(bytes) => of_cubin(bytes),
            Source::Ptx(text) => vec![(Check::Debug, debug(of_ptx(text)).to_owned())],
            Source::AmdObject(bytes) => of_amd_object(bytes),
            Source::Unknown => Vec::new(),
        }
    }
}

/// The values of all functions of a unit.
fn joined(values: impl Iterator<Item = String>) -> Option<String> {
    let values: Vec<String> = values.collect();
    (!values.is_empty()).then(|| values.join(" and "))
}

fn of_bitcode(flags: &ModuleFlags) -> Vec<(Check, String)> {
    let fast = flags.fast_math.iter().map(|fast| if *fast { "fast" } else { "exact" }.to_owned());
    let denormals = flags.denormals.iter().map(|mode| match mode.as_str() {
        "ieee" => "kept".to_owned(),
        "preserve-sign" | "positive-zero" => "flushed to zero".to_owned(),
        other => other.to_owned(),
    });
    let common = [
        (Check::Producer, flags.producer.as_ref().map(|producer| producer.replacen("LLVM", "LLVM ", 1))),
        (Check::Features, joined(flags.ptx.iter().map(|feature| ptx_version(feature)))),
        (Check::FastMath, joined(fast)),
        (Check::Denormals, joined(denormals)),
        (Check::Debug, Some(debug(flags.debug).to_owned())),
    ];
    let all = common.into_iter().chain(of_amd(&flags.amd));
    all.filter_map(|(check, value)| Some((check, value?))).collect()
}

fn of_amd(flags: &AmdFlags) -> [(Check, Option<String>); 4] {
    let places = flags.cu_mode.iter().map(|is_set| if *is_set { "in one compute unit" } else { "in a pair of them" });
    let split = flags.threadgroup_split.contains(&true).then_some("in any (-mtgsplit)");
    let ieee = flags.ieee.iter().map(|is_set| if *is_set { "quieted" } else { "left as they are" }.to_owned());
    let atomics = flags.relaxed_atomics.map(|is_relaxed| if is_relaxed { "-munsafe-fp-atomics" } else { "as usual" });
    [
        (Check::WaveSize, joined(flags.lanes.iter().copied().map(lanes))),
        (Check::WorkgroupMode, joined(places.chain(split).map(str::to_owned))),
        (Check::IeeeMode, joined(ieee)),
        (Check::Atomics, atomics.map(str::to_owned)),
    ]
}

fn lanes(lanes: u32) -> String {
    format!("{lanes} lanes")
}

fn of_amd_object(bytes: &[u8]) -> Vec<(Check, String)> {
    let kernels = amdgpu::Code::parse(bytes).and_then(|code| code.kernels()).unwrap_or_default();
    let mut sizes: Vec<u32> = kernels.iter().map(|kernel| kernel.metadata.wavefront).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let sizes = joined(sizes.into_iter().map(lanes));
    sizes.map(|sizes| (Check::WaveSize, sizes)).into_iter().collect()
}

/// Formats the feature `+ptx88` as `PTX 8.8`.
fn ptx_version(feature: &str) -> String {
    let digits = feature.trim_start_matches("+ptx");
    match digits.split_at_checked(digits.len().saturating_sub(1)) {
        Some((major, minor)) if !major.is_empty() => format!("PTX {major}.{minor}"),
        _ => feature.to_owned(),
    }
}

fn of_ptx(text: &[u8]) -> DebugKind {
    match DebugInfo::of(text) {
        DebugInfo::Full => DebugKind::Full,
        DebugInfo::Lines => DebugKind::Lines,
        DebugInfo::None => DebugKind::None,
    }
}

fn of_cubin(bytes: &[u8]) -> Vec<(Check, String)> {
    let Ok(cubin) = cubin::parse(bytes) else { return Vec::new() };
    let kind = match (cubin.has_debug_info(), cubin.has_line_info()) {
        (true, _) => DebugKind::Full,
        (_, true) => DebugKind::Lines,
        _ => DebugKind::None,
    };
    let toolkit = cubin.toolkit().map(|release| (Check::Toolkit, format!("CUDA {}", release.major)));
    toolkit.into_iter().chain([(Check::Debug, debug(kind).to_owned())]).collect()
}

fn debug(kind: DebugKind) -> &'static str {
    match kind {
        DebugKind::None => "none",
        DebugKind::Lines => "lines alone",
        DebugKind::Full => "full",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ptx_features_are_formatted_as_versions() {
        for (feature, version) in
            [("+ptx88", "PTX 8.8"), ("+ptx90", "PTX 9.0"), ("+ptx100", "PTX 10.0"), ("+ptx", "+ptx")]
        {
            assert_eq!(ptx_version(feature), version);
        }
    }

    #[test]
    fn flags_of_amd_gpus_are_words() {
        let flags = AmdFlags {
            lanes: [32, 64].into(),
            cu_mode: [true].into(),
            threadgroup_split: [true].into(),
            ieee: [false].into(),
            relaxed_atomics: Some(true),
        };
        let values = of_amd(&flags).map(|(_, value)| value.unwrap_or_default());
        assert_eq!(
            values,
            [
                "32 lanes and 64 lanes",
                "in one compute unit and in any (-mtgsplit)",
                "left as they are",
                "-munsafe-fp-atomics"
            ]
        );
        assert!(of_amd(&AmdFlags::default()).iter().all(|(_, value)| value.is_none()));
        assert_eq!(of_amd_object(b"nothing"), []);
    }
}
