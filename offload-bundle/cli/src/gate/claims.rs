//! What is claimed of files: in a TOML file, and by the name and the metadata of a wheel.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use offload_bundle::GpuArch;
use offload_bundle::coverage::gate::{Claims, JitRule, KernelClaim, Requirement, cuda_of_name};
use offload_bundle::coverage::{Driver, GpuWord, Gpus};
use serde::Deserialize;

use super::variants;
use crate::error::{Error, Result};

/// The TOML file. The field names are its keys.
#[derive(Deserialize, Default)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct ClaimsFile {
    /// `13`, `13.0`.
    cuda: Option<Text>,
    #[serde(default)]
    gpus: Vec<String>,
    #[serde(default)]
    drivers: Vec<Text>,
    #[serde(default)]
    no_jit: bool,
    machine_code: Option<Vec<String>>,
    ptx: Option<Vec<String>>,
    #[serde(default)]
    kernels: Vec<KernelsOfGpus>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct KernelsOfGpus {
    name: String,
    gpus: Vec<String>,
}

/// A version that may be written as a number.
#[derive(Deserialize)]
#[serde(untagged)]
enum Text {
    Number(u32),
    Text(String),
}

impl Text {
    fn text(&self) -> String {
        match self {
            Text::Number(number) => number.to_string(),
            Text::Text(text) => text.clone(),
        }
    }
}

/// What a file claims: the requirement, and what else it says of the content.
pub fn of_file(path: Option<&Path>) -> Result<(Requirement, Vec<Claims>)> {
    let Some(path) = path else { return Ok((Requirement::default(), Vec::new())) };
    let text = std::fs::read_to_string(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    let failed = |what: String| Error::Claims { path: path.to_owned(), what };
    let file: ClaimsFile = toml::from_str(&text).map_err(|error| failed(in_line(&text, &error)))?;
    parsed(&file, &path.display().to_string()).map_err(failed)
}

/// What is wrong with a text, in one line.
fn in_line(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or_default();
    format!("line {}: {}", before.matches('\n').count() + 1, error.message())
}

fn parsed(file: &ClaimsFile, source: &str) -> std::result::Result<(Requirement, Vec<Claims>), String> {
    let drivers = file.drivers.iter().map(|driver| driver.text().parse::<Driver>().map_err(|error| error.to_string()));
    let exception = |of: &KernelsOfGpus| {
        Ok::<_, String>(KernelClaim { name: of.name.clone(), gpus: Gpus::of_words(&words(&of.gpus)?) })
    };
    let words = words(&file.gpus)?;
    let requirement = Requirement {
        gpus: Gpus::of_words(&words),
        named: GpuWord::named(&words),
        drivers: drivers.collect::<std::result::Result<_, _>>()?,
        jit: if file.no_jit { JitRule::Forbidden } else { JitRule::Allowed },
        exceptions: file.kernels.iter().map(exception).collect::<std::result::Result<_, _>>()?,
        ..Requirement::default()
    };
    let cuda = file.cuda.as_ref().map(|cuda| {
        cuda.text()
            .parse::<offload_bundle::CudaRelease>()
            .map(|release| release.major)
            .map_err(|error| error.to_string())
    });
    let claims = Claims {
        source: source.to_owned(),
        package: None,
        cuda: cuda.transpose()?,
        machine_code: file.machine_code.as_deref().map(targets).transpose()?,
        ptx: file.ptx.as_deref().map(targets).transpose()?,
    };
    Ok((requirement, vec![claims]))
}

fn words(words: &[String]) -> std::result::Result<Vec<GpuWord>, String> {
    words.iter().map(|word| word.parse().map_err(|error| format!("gpus: '{word}': {error}"))).collect()
}

fn targets(names: &[String]) -> std::result::Result<BTreeSet<GpuArch>, String> {
    names
        .iter()
        .map(|name| name.parse().map_err(|error: offload_bundle::arch::UnknownArch| error.to_string()))
        .collect()
}

/// What wheels claim: the CUDA of their name (`torch-2.9.0+cu130-…`), and of the packages of NVIDIA's that they require
/// (`nvidia-cuda-runtime-cu12`), and the properties of their variant.
pub fn of_wheels(files: &[PathBuf]) -> Result<Vec<Claims>> {
    let mut claims = Vec::new();
    for path in files.iter().filter(|path| path.extension().is_some_and(|end| end == "whl") && path.is_file()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let by_name = cuda_of_name(&name).map(|(word, cuda)| (format!("the wheel's name ({word})"), cuda));
        let by_requirement = || Ok::<_, Error>(required(&dist_info(path, "METADATA")?.unwrap_or_default()));
        let claim = match by_name {
            Some(claim) => Some(claim),
            None => by_requirement()?,
        };
        let package = Some(path.display().to_string());
        claims.extend(claim.map(|(source, cuda)| Claims {
            source,
            package: package.clone(),
            cuda: Some(cuda),
            ..Claims::default()
        }));
        if let Some(text) = dist_info(path, "variant.json")? {
            let damaged = |error| Error::Package { name: path.display().to_string(), error };
            let of_variant = variants::claims(&text).map_err(damaged)?;
            claims.extend(of_variant.map(|of_variant| Claims { package, ..of_variant }));
        }
    }
    Ok(claims)
}

/// The CUDA whose packages a wheel requires, whatever extra they are required for; `None` if they differ.
fn required(metadata: &str) -> Option<(String, u32)> {
    let requirements = metadata.lines().filter_map(|line| line.strip_prefix("Requires-Dist:"));
    let is_end = |c: char| !(c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'));
    let names = requirements.filter_map(|text| text.trim_start().split(is_end).next());
    let mut found =
        names.filter(|name| name.starts_with("nvidia-")).filter_map(|name| Some((name, cuda_of_name(name)?.1)));
    let (name, cuda) = found.next()?;
    found.all(|(_, other)| other == cuda).then(|| (format!("the wheel's metadata (requires {name})"), cuda))
}

/// A file of a wheel's metadata, if it has that.
fn dist_info(path: &Path, file_name: &str) -> Result<Option<String>> {
    /// More is no metadata.
    const LARGEST: u64 = 16 << 20;
    let failed = |error: std::io::Error| Error::Package { name: path.display().to_string(), error: error.to_string() };
    let file = File::open(path).map_err(failed)?;
    let mut wheel = zip::ZipArchive::new(BufReader::new(file)).map_err(|error| failed(error.into()))?;
    let is_metadata = |name: &str| {
        name.split_once('/').is_some_and(|(folder, file)| folder.ends_with(".dist-info") && file == file_name)
    };
    for index in 0..wheel.len() {
        let entry = wheel.by_index(index).map_err(|error| failed(error.into()))?;
        let name = entry.name().map_err(|error| failed(error.into()))?.into_owned();
        if is_metadata(&name) {
            let mut text = Vec::new();
            entry.take(LARGEST).read_to_end(&mut text).map_err(failed)?;
            return Ok(Some(String::from_utf8_lossy(&text).into_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(text: &str) -> std::result::Result<(Requirement, Vec<Claims>), String> {
        parsed(&toml::from_str(text).map_err(|error| error.to_string())?, "claims.toml")
    }

    #[test]
    fn a_file_claims_gpus_and_content() {
        let text = "cuda = \"13.0\"\ngpus = [\"sm_80..sm_90\"]\ndrivers = [580, \"590\"]\nno-jit = true\nmachine-code = [\"sm_80\", \"sm_90a\"]\n\
                    [[kernels]]\nname = \"*sm90*\"\ngpus = [\"H100\"]\n";
        let (requirement, claims) = file(text).expect("claims");
        assert_eq!(requirement.gpus.names().len(), 6);
        assert_eq!(
            (requirement.drivers.len(), requirement.jit, requirement.exceptions.len()),
            (2, JitRule::Forbidden, 1)
        );
        assert_eq!(
            (claims[0].cuda, claims[0].machine_code.as_ref().map(BTreeSet::len), claims[0].ptx.is_none()),
            (Some(13), Some(2), true)
        );
    }

    #[test]
    fn mistakes_are_named() {
        for (text, why) in [
            ("gpu = [\"sm_90\"]", "unknown field `gpu`"),
            ("gpus = [\"sm_9x\"]", "'sm_9x'"),
            ("cuda = \"x\"", "not a CUDA version"),
            ("drivers = [13]", "not a driver version"),
            ("ptx = [\"90\"]", "not a GPU architecture"),
        ] {
            let error = file(text).expect_err(text);
            assert!(error.contains(why), "{text}: {error}");
        }
    }

    #[test]
    fn requirements_claim_a_toolkit() {
        let of =
            |lines: &[&str]| required(&lines.iter().map(|line| format!("Requires-Dist: {line}\n")).collect::<String>());
        assert_eq!(of(&["numpy", "nvidia-cublas-cu12 (>=12.1)", "nvidia-cudnn-cu12"]).map(|claim| claim.1), Some(12));
        assert_eq!(of(&["nvidia-cublas-cu12; extra == 'a'", "nvidia-cublas-cu13; extra == 'b'"]), None);
        assert_eq!(of(&["nvidia-cublas", "accumulate-cu12"]), None);
    }
}
