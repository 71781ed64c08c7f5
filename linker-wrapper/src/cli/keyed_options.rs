//! The options that results depend on, for the keys of caches.
//!
//! Every option is named here, so that a new one does not compile until somebody has decided: with a forgotten one, a link would take the
//! result of another.

#![expect(dead_code, reason = "keys have what `Debug` prints of these")]

use llvm_passes::pipeline::OptLevel;
use offload_bundle::arch::PtxVersion;
use offload_bundle::coverage::Driver;
use offload_bundle::coverage::gate::Requirement;

use crate::cli::device_options::DeviceOptions;
use crate::cli::options::Options;
use crate::cli::values::{CubinLinker, ImageCompression, KernelFolding, LlvmRules, LtoIrRule, Partitioning};

/// What linked code and containers depend on.
#[derive(Debug, Clone, Copy)]
pub struct KeyedOptions<'o> {
    /// Linked targets of all machines.
    pub target: TargetOptions,
    /// Fatbins.
    pub fatbin: FatbinOptions<'o>,
    /// HIP bundles.
    pub hip_bundle: HipBundleOptions,
}

/// What the linked code of a target depends on besides the options of its device link.
#[derive(Debug, Clone, Copy)]
pub struct TargetOptions {
    /// How device code is cut into jobs.
    pub partitioning: Partitioning,
    /// What is done with equal kernels.
    pub kernel_folding: KernelFolding,
    /// The PTX's `.version`.
    pub ptx_version: Option<PtxVersion>,
    /// What links cubins.
    pub cubin_linker: CubinLinker,
}

/// What a fatbin depends on besides the code in it.
#[derive(Debug, Clone, Copy)]
pub struct FatbinOptions<'o> {
    /// How it is compressed.
    pub compress: ImageCompression,
    /// The oldest driver that has to load it.
    pub driver: Option<Driver>,
    /// What it has to serve.
    pub require: Option<&'o Requirement>,
}

/// What a HIP bundle depends on besides the code in it.
#[derive(Debug, Clone, Copy)]
pub struct HipBundleOptions {
    /// It is compressed.
    pub compress_hip: bool,
    /// With which level.
    pub compression_level: Option<i32>,
    /// Which LLVM's rules decide about target ids.
    pub llvm_rules: LlvmRules,
}

/// What code for NVIDIA's GPUs depends on.
#[derive(Debug, Clone, Copy)]
pub struct KeyedDeviceOptions<'o> {
    /// Optimization of the merged IR.
    pub level: OptLevel,
    /// `-O` of ptxas.
    pub ptxas_level: u8,
    /// Debuggable, unoptimized machine code.
    pub debug: bool,
    /// Whether NVIDIA's LTO-IR is linked.
    pub lto_ir: LtoIrRule,
    /// The result is relocatable code.
    pub relocatable: bool,
    /// The program is not cut.
    pub is_whole: bool,
    /// Further arguments for ptxas.
    pub ptxas_arguments: &'o [String],
    /// Arguments for nvlink.
    pub nvlink_arguments: &'o [String],
    /// LLVM's own options.
    pub llvm_options: &'o [String],
}

impl Options {
    /// The options that belong into keys.
    #[rustfmt::skip]
    pub fn keyed(&self) -> KeyedOptions<'_> {
        let Options {
            partitioning, kernel_folding, ptx_version, cubin_linker, compress, driver, require, compress_hip, compression_level, llvm_rules,
            // Files and triples: keys have the contents of the images, their targets, and the hashes of the tools.
            linker_path: _, cuda_path: _, parts: _, should_extract: _, host_triple: _, override_image: _, sysroot: _, output: _,
            library_paths: _, inputs: _, inputs_before_output: _, host_line: _, insertion: _, output_words: _,
            // Their words are options of the device link, of LLVM or of AMD's linker, which keys have as such.
            device_linker: _, device_compiler: _, llvm_options: _,
            // Keys have the targets of machine code and PTX that follow from these, and the names that the host registers.
            sass_policy: _, ptx_policy: _, include_ptx: _, kernel_gc: _, roots: _,
            // Code of other backends than ptxas and nvlink is not cached.
            backend: _,
            // What the link writes beside the image, or instead of a program.
            embed_bitcode: _, emit_image_only: _, code_object: _, image_copy: _, dlink: _, image_section: _, relocatable: _, relocatable_code: _,
            // Messages and reports. Those of the compiler are kept with its results.
            help: _, version: _, print_toolchain: _, reproduce: _, dry_run: _, color: _, diagnosing: _, verbose: _,
            print_wrapped_module: _, save_temps: _, temps_folder: _, stats: _, report: _, plan: _, checks: _, time_trace: _,
            time_trace_granularity: _, linker_query: _,
            // Where and when jobs run, and where their results are.
            cache: _, cache_size: _, remote_cache: _, distributor: _, distributor_arguments: _, memory: _, jobs: _, environment: _,
        } = self;
        KeyedOptions {
            target: TargetOptions {
                partitioning: *partitioning,
                kernel_folding: *kernel_folding,
                ptx_version: *ptx_version,
                cubin_linker: *cubin_linker,
            },
            fatbin: FatbinOptions { compress: *compress, driver: *driver, require: require.as_ref() },
            hip_bundle: HipBundleOptions {
                compress_hip: *compress_hip,
                compression_level: *compression_level,
                llvm_rules: *llvm_rules,
            },
        }
    }
}

impl DeviceOptions {
    /// The options that belong into keys.
    #[rustfmt::skip]
    pub fn keyed(&self) -> KeyedDeviceOptions<'_> {
        let DeviceOptions {
            level, ptxas_level, debug, lto_ir, relocatable, is_whole, ptxas_arguments, nvlink_arguments, llvm_options,
            // Keys have the contents of the images and the names that stay visible.
            inputs: _, library_paths: _, roots: _, cuda_path: _,
            // How many jobs run does not change their code.
            jobs: _,
            // Checked before anything is compiled.
            processors: _, refused: _, unknown: _,
            // Messages and intermediate files.
            verbose: _, saves_temps: _,
        } = self;
        KeyedDeviceOptions {
            level: *level,
            ptxas_level: *ptxas_level,
            debug: *debug,
            lto_ir: *lto_ir,
            relocatable: *relocatable,
            is_whole: *is_whole,
            ptxas_arguments,
            nvlink_arguments,
            llvm_options,
        }
    }
}
