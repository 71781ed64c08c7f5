//! Options of LLVM's LTO plugins, which the arguments of device links hold for the whole link.

use llvm_passes::amdgpu::TRIPLE;

use crate::cli::amd_options::{self, AmdOptions};
use crate::cli::device_options::DeviceOptions;
use crate::cli::options::Options;
use crate::cli::values::{Jobs, Partitioning};

/// The options, with those of the LTO plugin (`--plugin-opt=jobs=`, `lto-partitions=`, `save-temps`) where fatlink's own do not say
/// otherwise.
pub fn added_to(options: &Options, device: &DeviceOptions) -> Options {
    let mut options = options.clone();
    let amd = AmdOptions::read(&options, TRIPLE);
    options.save_temps |= (device.saves_temps || amd.saves_temps) && !options.diagnosing;
    if let (Jobs::Cores, Some(jobs)) = (options.jobs, device.jobs.or(amd.jobs)) {
        options.jobs = Jobs::Number(jobs);
    }
    if options.partitioning == Partitioning::Usual && device.is_whole {
        options.partitioning = Partitioning::Whole;
    }
    options
}

/// The options of LLVM that apply to any target of the link.
pub fn of_llvm(options: &Options, device: &DeviceOptions) -> Vec<String> {
    amd_options::all_llvm_options(options, device)
}
