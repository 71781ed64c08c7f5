//! Generates the outputs of a job for NVIDIA's GPUs from the PTX that LLVM emitted. A thread does this with the backend of the link, a worker with ptxas.

use offload_bundle::ptx;

use crate::diag::error::{Errors, collect};
use crate::machines::nvptx::codegen::{self, DeviceObject, PtxBackend, PtxSource};
use crate::machines::nvptx::job_code::{NvptxCode, NvptxText};
use crate::machines::nvptx::outputs::{Emission, ImagePtx, ImagePtxVersion, MachineCode, Relocatable};
use crate::machines::nvptx::products::CompiledCode;
use crate::profile::span;
use crate::sys::temp_files;

/// Generates all outputs of the job of this name. The files of emissions that become machine code have been written.
///
/// # Errors
/// Errors of the backend.
pub fn generate(
    name: &str,
    code: &NvptxCode,
    emitted: &mut [NvptxText],
    backend: &dyn PtxBackend,
) -> Result<CompiledCode, Errors> {
    let mut objects = Vec::with_capacity(code.outputs.machine_code.len());
    for machine_code in &code.outputs.machine_code {
        let emission = machine_code.emission;
        objects.push(assemble(machine_code, &code.emissions[emission], &emitted[emission], backend)?);
    }
    let ptx = collect(code.outputs.ptx.iter().map(|ptx| {
        let emission = &code.emissions[ptx.emission];
        let text = emitted[ptx.emission].text.take();
        let text = text.map_or_else(|| temp_files::read_file(&emission.path), Ok)?;
        Ok((emission.arch, with_image_version(text, ptx, name, code, backend)?))
    }))?;
    // All emissions are of one module.
    let kernels = emitted.first().map_or_else(Vec::new, |text| text.facts.kernels.clone());
    Ok(CompiledCode::new(objects, ptx, kernels))
}

/// Turns emitted PTX into machine code.
fn assemble(
    code: &MachineCode,
    emission: &Emission,
    emitted: &NvptxText,
    backend: &dyn PtxBackend,
) -> Result<DeviceObject, Errors> {
    let relocatable = match (code.relocatable, &emitted.text) {
        (Relocatable::Always, _) => true,
        (Relocatable::Never, _) => false,
        (Relocatable::WithFunctions, Some(text)) => ptx::defines_functions(text),
        (Relocatable::WithFunctions, None) => ptx::defines_functions(&temp_files::read_file(&emission.path)?),
    };
    let (arch, input, name) = (emission.arch, emission.path.clone(), code.name.clone());
    let _assembling = span::traced("ptxas", || input.display().to_string());
    backend.assemble(PtxSource { arch, input, debug_info: emitted.facts.debug_info, relocatable, name })
}

/// Gives PTX the version that it has in the image.
fn with_image_version(
    text: Vec<u8>,
    ptx: &ImagePtx,
    name: &str,
    code: &NvptxCode,
    backend: &dyn PtxBackend,
) -> Result<Vec<u8>, Errors> {
    let Emission { arch, version: own, .. } = code.emissions[ptx.emission];
    match code.outputs.ptx_version {
        ImagePtxVersion::Unchanged => Ok(text),
        ImagePtxVersion::Fixed(version) => Ok(ptx::with_version(&text, version).unwrap_or(text)),
        ImagePtxVersion::Lowest => {
            let _probing = span::traced("Find lowest PTX version", || format!("{name} {arch}"));
            codegen::lower_version(text, arch, own, &|text| backend.attempt(text, arch, &ptx.probe))
        }
    }
}
