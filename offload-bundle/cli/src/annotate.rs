//! `offload-bundle annotate`.

use std::path::PathBuf;

use clap::Args;
use offload_bundle::arch::UnknownArch;
use offload_bundle::{GpuArch, annotate};

use crate::error::{Error, Result};
use crate::output::CommandOutput;
use crate::{files, input};

/// The key of the string that records the requested PTX for linkers.
const KEY: &str = "cuda-include-ptx";

#[derive(Args)]
pub struct AnnotateArguments {
    /// An ELF object with device code, an offload binary, or an archive of those
    file: PathBuf,
    /// Request PTX for this target, or for all
    #[arg(long, value_name = "all|ARCH", value_parser = target, required_unless_present = "no_cuda_include_ptx")]
    cuda_include_ptx: Vec<String>,
    /// Request no PTX for this target, or for all
    #[arg(long, value_name = "all|ARCH", value_parser = target)]
    no_cuda_include_ptx: Vec<String>,
    /// Write to this file; by default, FILE is replaced
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

fn target(text: &str) -> std::result::Result<String, UnknownArch> {
    match text {
        "all" => Ok(text.to_owned()),
        _ => text.parse::<GpuArch>().map(|arch| arch.to_string()),
    }
}

pub fn run(arguments: &AnnotateArguments) -> Result<CommandOutput> {
    let file = &arguments.file;
    let value = value(arguments)?;
    let data = input::bytes(file)?;
    let annotated =
        annotate::annotate(&data, KEY, &value).map_err(|source| Error::Annotate { file: file.clone(), source })?;
    let output = arguments.output.as_ref().unwrap_or(file);
    files::replace(output, &annotated.bytes, file)?;
    let text = format!("{}: {KEY}={value} in {} device images\n", output.display(), annotated.images);
    Ok(CommandOutput::success(text))
}

/// Builds the string's value. `all` comes first, since the last word that applies to a target prevails.
fn value(arguments: &AnnotateArguments) -> Result<String> {
    let requests = arguments.cuda_include_ptx.iter().map(|target| (target, String::new()));
    let refusals = arguments.no_cuda_include_ptx.iter().map(|target| (target, "no-".to_owned()));
    let mut words: Vec<(&String, String)> = requests.chain(refusals).collect();
    words.sort_by_key(|(target, _)| target.as_str() != "all");
    let contradicted = arguments.cuda_include_ptx.iter().find(|target| arguments.no_cuda_include_ptx.contains(target));
    if let Some(target) = contradicted {
        return Err(Error::ContradictingFlags { target: target.clone() });
    }
    Ok(words.into_iter().map(|(target, prefix)| format!("{prefix}{target}")).collect::<Vec<_>>().join(","))
}
