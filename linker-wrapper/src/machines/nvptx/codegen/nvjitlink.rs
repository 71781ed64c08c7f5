//! Links with libnvJitLink: PTX, relocatable cubins and LTO-IR become one finished cubin in one call.

use std::ffi::{CString, c_int};

use offload_bundle::arch::{CudaRelease, GpuArch};
use offload_bundle::fatbin;
use offload_bundle::ptx::DebugInfo;

use crate::diag::error::Errors;
use crate::machines::nvptx::codegen::device_object::Form;
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::library_link;
use crate::machines::nvptx::codegen::library_link::{LinkInput, LinkOptions, c_string};
use crate::sys::mapped_file::Mapped;
use crate::toolchain::libraries::NvJitLink;

/// The names of `nvJitLinkResult`, in order (nvJitLink.h of 13.0).
const RESULTS: [&str; 19] = [
    "SUCCESS",
    "ERROR_UNRECOGNIZED_OPTION",
    "ERROR_MISSING_ARCH",
    "ERROR_INVALID_INPUT",
    "ERROR_PTX_COMPILE",
    "ERROR_NVVM_COMPILE",
    "ERROR_INTERNAL",
    "ERROR_THREADPOOL",
    "ERROR_UNRECOGNIZED_INPUT",
    "ERROR_FINALIZE",
    "ERROR_NULL_INPUT",
    "ERROR_INCOMPATIBLE_OPTIONS",
    "ERROR_INCORRECT_INPUT_TYPE",
    "ERROR_ARCH_MISMATCH",
    "ERROR_OUTDATED_LIBRARY",
    "ERROR_MISSING_FATBIN",
    "ERROR_UNRECOGNIZED_ARCH",
    "ERROR_UNSUPPORTED_ARCH",
    "ERROR_LTO_NOT_ENABLED",
];

/// `NVJITLINK_INPUT_LIBRARY`.
const LIBRARY: c_int = 6;

/// Links to a finished cubin. `explain` turns messages of the library into errors, if it knows them.
///
/// # Errors
/// The library rejects an input or fails, or it would drop an input without a diagnostic.
pub fn link(
    library: &NvJitLink,
    arch: GpuArch,
    inputs: &[LinkInput<'_>],
    options: &LinkOptions<'_>,
    explain: &dyn Fn(&str) -> Option<Errors>,
) -> Result<Vec<u8>, Errors> {
    library_link::require_relocatable(inputs, "nvJitLink")?;
    let words = arguments(arch, inputs, options, library.release());
    let words = words.iter().map(|word| c_string(word)).collect::<Result<Vec<CString>, Error>>()?;
    let failed = |code: c_int, log: String| failure(library, arch, code, log);
    let mut linking = library.create(&words).map_err(|code| {
        let words = words.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ");
        failed(code, format!("it does not take these options: {words}"))
    })?;
    for input in inputs {
        let added = linking.add(kind(input), &input.text(), c_string(input.name)?);
        let hint = if input.form == Form::Cubin { " (is it of a newer CUDA than the library?)" } else { "" };
        added.map_err(|code| failed(code, format!("{}{hint}: {}", input.name, linking.error_log())))?;
    }
    if let Some(library) = options.device_runtime {
        let name = library.display().to_string();
        let content = Mapped::open(library).map_err(|source| Error::Read { file: library.to_owned(), source })?;
        let added = linking.add(LIBRARY, content.bytes(), c_string(&name)?);
        added.map_err(|code| failed(code, format!("{name}: {}", linking.error_log())))?;
    }
    linking.complete().map_err(|code| {
        let log = linking.error_log();
        explain(&log).unwrap_or_else(|| failed(code, log).into())
    })?;
    library_link::show_log(&linking.info_log());
    let cubin = linking.cubin().map_err(|code| failed(code, linking.error_log()))?;
    Ok(library_link::require_cubin(cubin, "nvJitLink", arch)?)
}

fn failure(library: &NvJitLink, arch: GpuArch, code: c_int, log: String) -> Error {
    let name = usize::try_from(code).ok().and_then(|code| RESULTS.get(code)).copied();
    let code = name.map_or_else(|| format!("error {code}"), |name| format!("NVJITLINK_{name}"));
    Error::NvJitLink { path: library.path().to_owned(), release: library.release(), arch, code, log }
}

/// `nvJitLinkInputType`.
fn kind(input: &LinkInput<'_>) -> c_int {
    match input.form {
        Form::Cubin => 1,
        Form::Ptx => 2,
        Form::LtoIr if fatbin::read(input.bytes).is_ok() => 4,
        Form::LtoIr => 3,
    }
}

/// The options of the library.
pub fn arguments(
    arch: GpuArch,
    inputs: &[LinkInput<'_>],
    options: &LinkOptions<'_>,
    release: CudaRelease,
) -> Vec<String> {
    let mut words = vec![format!("-arch={arch}")];
    let lto = inputs.iter().any(|input| input.form == Form::LtoIr);
    if lto {
        words.push("-lto".to_owned());
        // 12.9 and 13.0 accept -O0 and -O3, their default; 12.2 accepts -O1 and -O2 too and then fails.
        words.extend((options.level == 0 && release >= CudaRelease::new(12, 9)).then(|| "-O0".to_owned()));
    }
    match options.debug_info(inputs) {
        DebugInfo::Full => words.push("-g".to_owned()),
        debug => {
            // The library's own -O differs from release to release; its ptxas accepts every level in all of them.
            words.push(format!("-Xptxas=-O{}", options.level));
            words.extend((debug == DebugInfo::Lines).then(|| "-lineinfo".to_owned()));
        }
    }
    words.extend(options.ptxas_arguments.iter().map(|word| format!("-Xptxas={word}")));
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_by_release_and_input() {
        let input = |form, bytes| LinkInput { name: "a", form, bytes };
        let ptx = [input(Form::Ptx, &b".version 8.0\n.target sm_90\n"[..])];
        let lines = [input(Form::Ptx, &b".version 8.0\n.target sm_90\n.file 1 \"a\"\n"[..])];
        let full = [input(Form::Ptx, &b".version 8.0\n.target sm_90, debug\n"[..])];
        let lto = [input(Form::LtoIr, &b""[..])];
        let registers = ["--maxrregcount=32".to_owned()];
        for (inputs, level, release, expected) in [
            (&ptx, 3, CudaRelease::new(13, 0), "-arch=sm_90 -Xptxas=-O3 -Xptxas=--maxrregcount=32"),
            (&ptx, 2, CudaRelease::new(12, 2), "-arch=sm_90 -Xptxas=-O2 -Xptxas=--maxrregcount=32"),
            (&lines, 2, CudaRelease::new(12, 9), "-arch=sm_90 -Xptxas=-O2 -lineinfo -Xptxas=--maxrregcount=32"),
            (&full, 0, CudaRelease::new(13, 0), "-arch=sm_90 -g -Xptxas=--maxrregcount=32"),
            (&lto, 2, CudaRelease::new(12, 2), "-arch=sm_90 -lto -Xptxas=-O2 -Xptxas=--maxrregcount=32"),
            (&lto, 2, CudaRelease::new(12, 9), "-arch=sm_90 -lto -Xptxas=-O2 -Xptxas=--maxrregcount=32"),
            (&lto, 0, CudaRelease::new(12, 2), "-arch=sm_90 -lto -Xptxas=-O0 -Xptxas=--maxrregcount=32"),
            (&lto, 0, CudaRelease::new(13, 0), "-arch=sm_90 -lto -O0 -Xptxas=-O0 -Xptxas=--maxrregcount=32"),
        ] {
            let options = LinkOptions { level, debug: false, ptxas_arguments: &registers, device_runtime: None };
            assert_eq!(arguments(GpuArch::plain(90), inputs, &options, release).join(" "), expected);
        }
    }
}
