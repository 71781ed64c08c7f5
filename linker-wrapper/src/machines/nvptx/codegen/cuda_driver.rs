//! Links with the linker inside the CUDA driver (`cuLink…`), which needs the driver and a GPU of any kind.

use std::ffi::c_int;

use offload_bundle::arch::{ArchFeature, GpuArch};
use offload_bundle::ptx::DebugInfo;

use crate::diag::error::Errors;
use crate::diag::messages::warn;
use crate::machines::nvptx::codegen::device_object::Form;
use crate::machines::nvptx::codegen::error::Error;
use crate::machines::nvptx::codegen::library_link;
use crate::machines::nvptx::codegen::library_link::{LinkInput, LinkOptions, c_string};
use crate::toolchain::libraries::CudaDriver;

/// Options of `CUjit_option` (cuda.h of 13.0).
const MAX_REGISTERS: c_int = 0;
const OPTIMIZATION_LEVEL: c_int = 7;
const TARGET: c_int = 9;
const DEBUG_INFO: c_int = 11;
const LOG_VERBOSE: c_int = 12;
const LINE_INFO: c_int = 13;
/// `CUjit_target` adds these to the number of `sm_90a` and of `sm_100f`.
const ACCELERATED: usize = 0x10000;
const FAMILY: usize = 0x20000;

/// Links to a finished cubin.
///
/// # Errors
/// There is no GPU, or the driver rejects an input or fails.
pub fn link(
    driver: &CudaDriver,
    arch: GpuArch,
    inputs: &[LinkInput<'_>],
    options: &LinkOptions<'_>,
) -> Result<Vec<u8>, Errors> {
    library_link::require_relocatable(inputs, "the driver's linker")?;
    let context = driver.context().map_err(|code| {
        let (path, code) = (driver.path().to_owned(), driver.error_name(code));
        Error::NoContext { path, code }
    })?;
    let failed = |code: c_int, log: String| Error::Driver { arch, code: driver.error_name(code), log };
    let values = values(arch, inputs, options);
    let mut linking = driver.create(context, &values).map_err(|code| failed(code, String::new()))?;
    for input in inputs {
        let added = linking.add(kind(input.form), &input.text(), &c_string(input.name)?);
        added.map_err(|code| failed(code, format!("{}: {}", input.name, linking.error_log())))?;
    }
    let cubin = linking.complete().map_err(|code| failed(code, linking.error_log()))?;
    library_link::show_log(&linking.info_log());
    drop(linking);
    Ok(library_link::require_cubin(cubin, "the driver's linker", arch)?)
}

/// `CUjitInputType`; the plan never chooses the driver for LTO-IR.
fn kind(form: Form) -> c_int {
    match form {
        Form::Cubin => 0,
        Form::Ptx => 1,
        Form::LtoIr => 5,
    }
}

/// The driver's options and their values.
fn values(arch: GpuArch, inputs: &[LinkInput<'_>], options: &LinkOptions<'_>) -> Vec<(c_int, usize)> {
    let base = match arch.feature {
        ArchFeature::Plain => 0,
        ArchFeature::Accelerated => ACCELERATED,
        ArchFeature::Family => FAMILY,
    };
    let mut values = vec![(TARGET, base + arch.number as usize)];
    match options.debug_info(inputs) {
        DebugInfo::Full => values.extend([(DEBUG_INFO, 1), (OPTIMIZATION_LEVEL, 0)]),
        // The driver's default is 4, which corresponds to 3 of ptxas.
        debug => {
            let level = if options.level >= 3 { 4 } else { usize::from(options.level) };
            values.push((OPTIMIZATION_LEVEL, level));
            values.extend((debug == DebugInfo::Lines).then_some((LINE_INFO, 1)));
        }
    }
    values.extend(options.ptxas_arguments.iter().filter_map(|word| value_of(word)));
    values
}

/// The option that corresponds to an argument of ptxas.
fn value_of(word: &str) -> Option<(c_int, usize)> {
    let plain = word.trim_start_matches('-');
    if plain == "v" || plain == "verbose" {
        return Some((LOG_VERBOSE, 1));
    }
    let count = plain.strip_prefix("maxrregcount=")?;
    Some((MAX_REGISTERS, count.parse().ok()?))
}

/// Warns about arguments for ptxas that the driver has no option for.
pub fn warn_about(program: &str, words: &[String]) {
    for word in words.iter().filter(|word| value_of(word).is_none()) {
        warn(
            program,
            format_args!("-Xcuda-ptxas {word} has no effect on the driver's linker (--offload-backend=driver)"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_as_numbers() {
        let words = ["-v", "--maxrregcount=32", "--other"].map(str::to_owned);
        let options = LinkOptions { level: 3, debug: false, ptxas_arguments: &words, device_runtime: None };
        let full = LinkInput { name: "a", form: Form::Ptx, bytes: b".version 8.0\n.target sm_90, debug\n" };
        for (arch, inputs, expected) in [
            ("sm_90", &[][..], vec![(TARGET, 90), (OPTIMIZATION_LEVEL, 4), (LOG_VERBOSE, 1), (MAX_REGISTERS, 32)]),
            ("sm_90a", &[], vec![(TARGET, 0x1005a), (OPTIMIZATION_LEVEL, 4), (LOG_VERBOSE, 1), (MAX_REGISTERS, 32)]),
            (
                "sm_100f",
                &[full],
                vec![
                    (TARGET, 0x20064),
                    (DEBUG_INFO, 1),
                    (OPTIMIZATION_LEVEL, 0),
                    (LOG_VERBOSE, 1),
                    (MAX_REGISTERS, 32),
                ],
            ),
        ] {
            assert_eq!(values(arch.parse().unwrap(), inputs, &options), expected, "{arch}");
        }
    }
}
