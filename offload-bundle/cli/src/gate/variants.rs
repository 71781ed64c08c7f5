//! What the properties of a variant wheel claim (PEP 825, a draft): `variant.json` in its `.dist-info`, with the properties of NVIDIA's
//! provider, `nvidia :: sm_arch :: 90_real` (as CMake writes targets) and `nvidia :: cuda_version_lower_bound :: 12.8`.

use std::collections::{BTreeMap, BTreeSet};

use offload_bundle::coverage::gate::Claims;
use offload_bundle::{CudaRelease, GpuArch};
use serde::Deserialize;

/// The file, as far as it is read: the variant of a wheel by its label, its namespaces, their features, and the values of those.
#[derive(Deserialize)]
struct VariantFile {
    variants: BTreeMap<String, BTreeMap<String, BTreeMap<String, Vec<String>>>>,
}

/// What the text of a `variant.json` claims; `None` if it says nothing of CUDA.
///
/// # Errors
/// What is wrong with the text, in a sentence.
pub fn claims(text: &str) -> Result<Option<Claims>, String> {
    let file: VariantFile = serde_json::from_str(text).map_err(|error| format!("variant.json: {error}"))?;
    let mut variants = file.variants.into_iter();
    let (Some((label, properties)), None) = (variants.next(), variants.next()) else {
        return Err("variant.json: not one variant, as a wheel is".to_owned());
    };
    let Some(nvidia) = properties.get("nvidia") else { return Ok(None) };
    let values = |feature: &str| nvidia.get(feature).into_iter().flatten();
    let targets = |suffix: &str| -> Result<BTreeSet<GpuArch>, String> {
        let of_suffix = values("sm_arch").filter_map(|value| Some((value, value.strip_suffix(suffix)?)));
        of_suffix
            .map(|(value, number)| {
                format!("sm_{number}")
                    .parse()
                    .map_err(|_| format!("variant.json: nvidia :: sm_arch :: {value} is no target"))
            })
            .collect()
    };
    let release = |value: &String| {
        // `13` is 13.0.
        let parsed = value.parse::<CudaRelease>().or_else(|_| format!("{value}.0").parse());
        parsed.map_err(|error| format!("variant.json: nvidia :: cuda_version_lower_bound: {error}"))
    };
    let oldest = values("cuda_version_lower_bound").map(release).collect::<Result<BTreeSet<_>, _>>()?;
    let has_targets = values("sm_arch").next().is_some();
    Ok(Some(Claims {
        source: format!("the wheel's variant {label}"),
        package: None,
        cuda: oldest.first().map(|release| release.major),
        machine_code: has_targets.then(|| targets("_real")).transpose()?,
        ptx: has_targets.then(|| targets("_virtual")).transpose()?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn properties_of_nvidia() {
        let text = r#"{"$schema": "x", "default-priorities": {"namespace": ["nvidia"]}, "variants": {"cu129": {"nvidia": {
            "cuda_version_lower_bound": ["12.9"], "cuda_version_upper_bound": ["13"],
            "sm_arch": ["75_real", "90a_real", "120_virtual"]}}}}"#;
        let claims = claims(text).expect("a variant").expect("claims");
        let names = |targets: &Option<BTreeSet<GpuArch>>| -> Vec<String> {
            targets.iter().flatten().map(GpuArch::to_string).collect()
        };
        assert_eq!((claims.source.as_str(), claims.cuda), ("the wheel's variant cu129", Some(12)));
        assert_eq!(
            (names(&claims.machine_code), names(&claims.ptx)),
            (vec!["sm_75".into(), "sm_90a".into()], vec!["sm_120".into()])
        );
    }

    #[test]
    fn variants_that_claim_nothing_or_are_wrong() {
        assert_eq!(claims(r#"{"variants": {"v3": {"x86_64": {"level": ["v3"]}}}}"#), Ok(None));
        let bound =
            claims(r#"{"variants": {"c": {"nvidia": {"cuda_version_lower_bound": ["13"]}}}}"#).expect("a variant");
        assert_eq!(bound.map(|claims| (claims.cuda, claims.machine_code)), Some((Some(13), None)));
        for (text, why) in [
            ("{", "variant.json: EOF"),
            (r#"{"variants": {}}"#, "not one variant"),
            (r#"{"variants": {"x": {"nvidia": {"sm_arch": ["9x_real"]}}}}"#, "sm_arch :: 9x_real is no target"),
            (r#"{"variants": {"x": {"nvidia": {"cuda_version_lower_bound": ["x"]}}}}"#, "not a CUDA version"),
        ] {
            let error = claims(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
