//! Machine code by the linker inside the CUDA driver (`cuLink…`): needs the driver and a GPU, of whatever kind.

use std::ffi::{CString, c_int};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use offload_bundle::arch::{ArchFeature, CudaRelease, GpuArch};
use offload_bundle::ptx::DebugInfo;

use crate::codegen::device_object::Form;
use crate::codegen::ffi::{Context, Cuda};
use crate::codegen::library_link;
use crate::codegen::library_link::{LinkInput, LinkOptions, c_string};
use crate::diag::error::Errors;
use crate::diag::messages::warn;

/// Options of `CUjit_option` (cuda.h of 13.0).
const MAX_REGISTERS: c_int = 0;
const OPTIMIZATION_LEVEL: c_int = 7;
const TARGET: c_int = 9;
const DEBUG_INFO: c_int = 11;
const LOG_VERBOSE: c_int = 12;
const LINE_INFO: c_int = 13;
/// What `CUjit_target` adds to an architecture's number for `sm_90a` and `sm_100f`.
const ACCELERATED: usize = 0x10000;
const FAMILY: usize = 0x20000;

/// The driver of this machine.
#[derive(Debug)]
pub struct CudaDriver {
    library: Cuda,
    path: PathBuf,
    context: OnceLock<Result<Context, Errors>>,
}

/// Returns the release of CUDA that the driver's library in `path` is for, if it can be loaded and reports one.
pub fn release_of(path: &Path) -> Option<CudaRelease> {
    CudaDriver::open(path).ok()?.release()
}

impl CudaDriver {
    /// Loads its library. No GPU is touched yet.
    ///
    /// # Errors
    /// It is no such library.
    pub fn open(path: &Path) -> Result<Self, Errors> {
        let library = Cuda::load(path)
            .map_err(|why| Errors::one(format_args!("{} cannot be used as the CUDA driver: {why}", path.display())))?;
        Ok(CudaDriver { library, path: path.to_owned(), context: OnceLock::new() })
    }

    /// The release of CUDA that it is for; none if it does not say.
    pub fn release(&self) -> Option<CudaRelease> {
        self.library.release()
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Links to a finished cubin.
    ///
    /// # Errors
    /// There is no GPU; what the driver says.
    pub fn link(&self, arch: GpuArch, inputs: &[LinkInput<'_>], options: &LinkOptions<'_>) -> Result<Vec<u8>, Errors> {
        library_link::require_relocatable(inputs, "the driver's linker")?;
        let context = self.context.get_or_init(|| self.start()).clone()?;
        let failed = |code: c_int, log: &str| self.failure(arch, code, log);
        let values = values(arch, inputs, options);
        let mut linking = self.library.create(context, &values).map_err(|code| failed(code, ""))?;
        for input in inputs {
            let added = linking.add(kind(input.form), &input.text(), &name(input)?);
            added.map_err(|code| failed(code, &format!("{}: {}", input.name, linking.error_log())))?;
        }
        let cubin = linking.complete().map_err(|code| failed(code, &linking.error_log()))?;
        library_link::show_log(&linking.info_log());
        drop(linking);
        library_link::require_cubin(cubin, "the driver's linker", arch)
    }

    fn start(&self) -> Result<Context, Errors> {
        self.library.context().map_err(|code| {
            Errors::one(format_args!(
                "the CUDA driver ({}) cannot be used: {}; --offload-backend=driver needs a GPU on this machine, ptxas and nvjitlink \
                 need none",
                self.path.display(),
                self.library.error_name(code)
            ))
        })
    }

    fn failure(&self, arch: GpuArch, code: c_int, log: &str) -> Errors {
        let name = self.library.error_name(code);
        let separator = if log.is_empty() { "" } else { ": " };
        Errors::one(format_args!(
            "the driver's linker failed for {arch} ({name}){separator}{log}; --save-temps keeps its inputs"
        ))
    }
}

fn name(input: &LinkInput<'_>) -> Result<CString, Errors> {
    c_string(input.name)
}

/// `CUjitInputType`; LTO-IR never comes here, see `choose`.
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
        // The driver's default is 4, which is ptxas' 3.
        debug => {
            let level = if options.level >= 3 { 4 } else { usize::from(options.level) };
            values.push((OPTIMIZATION_LEVEL, level));
            values.extend((debug == DebugInfo::Lines).then_some((LINE_INFO, 1)));
        }
    }
    values.extend(options.ptxas_arguments.iter().filter_map(|word| value_of(word)));
    values
}

/// The option that a word for ptxas means.
fn value_of(word: &str) -> Option<(c_int, usize)> {
    let plain = word.trim_start_matches('-');
    if plain == "v" || plain == "verbose" {
        return Some((LOG_VERBOSE, 1));
    }
    let count = plain.strip_prefix("maxrregcount=")?;
    Some((MAX_REGISTERS, count.parse().ok()?))
}

/// Names the words for ptxas that the driver has no option for.
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
        let options = LinkOptions { level: 3, debug: false, ptxas_arguments: &words };
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
