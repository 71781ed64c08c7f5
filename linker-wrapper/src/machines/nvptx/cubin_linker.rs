//! Chooses what links the cubins of a target where ptxas makes the machine code: fatlink, in its own process, or nvlink. Pure.

use std::fmt;

use offload_bundle::arch::GpuArch;

use crate::cli::values::CubinLinker;

/// The GPUs for which `auto` chooses fatlink: those on which its cubins have been run beside nvlink's.
const PROVEN_GPUS: &[u32] = &[90];

/// What links cubins, with the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Linker {
    /// fatlink, as the user selected. What it does not know is an error.
    Fatlink,
    /// fatlink, but nvlink for code that fatlink does not know, which is found when it reads the cubins.
    FatlinkIfKnown,
    /// nvlink.
    Nvlink(Reason),
}

/// Why nvlink links cubins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// `--offload-device-linker=nvlink`.
    Selected,
    /// fatlink's linker is not proven for the GPU.
    Unproven(GpuArch),
    /// Only nvlink can do it.
    Needed(NvlinkOnly),
    /// A cubin has something that fatlink does not know: where and what.
    Unknown(String),
}

/// What nvlink does and fatlink does not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NvlinkOnly {
    /// It links LTO-IR.
    LtoIr,
    /// The result is relocatable.
    Relocatable,
    /// The result is for a debugger.
    Debug,
    /// The user passes arguments to nvlink.
    Arguments,
    /// It removes kernels that the partitions of a program still have.
    RemovedKernels,
}

impl fmt::Display for NvlinkOnly {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            NvlinkOnly::LtoIr => "there is LTO-IR",
            NvlinkOnly::Relocatable => "the result is relocatable code",
            NvlinkOnly::Debug => "-g requires machine code for a debugger",
            NvlinkOnly::Arguments => "there are arguments for nvlink",
            NvlinkOnly::RemovedKernels => "--offload-gc leaves out kernels of compiled partitions",
        })
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::Selected => formatter.write_str("--offload-device-linker= selects it"),
            Reason::Unproven(arch) => write!(formatter, "fatlink's linker is not proven for {arch}"),
            Reason::Needed(what) => what.fmt(formatter),
            Reason::Unknown(what) => write!(formatter, "fatlink's linker does not know all of {what}"),
        }
    }
}

impl fmt::Display for Linker {
    /// "nvlink links the cubins: --offload-device-linker= selects it"
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Linker::Fatlink => formatter.write_str("fatlink links the cubins: --offload-device-linker= selects it"),
            Linker::FatlinkIfKnown => formatter
                .write_str("fatlink links the cubins, or nvlink if there is something that fatlink does not know"),
            Linker::Nvlink(reason) => write!(formatter, "nvlink links the cubins: {reason}"),
        }
    }
}

/// Whether `auto` chooses fatlink for code that it knows.
pub fn is_proven(arch: GpuArch) -> bool {
    cubin_link::knows(arch) && PROVEN_GPUS.contains(&arch.number)
}

/// Chooses the linker of a target. `nvlink_only` is what the link needs of nvlink.
///
/// # Errors
/// The user selected fatlink, and it cannot link for the target, for this reason.
pub fn choose(arch: GpuArch, choice: CubinLinker, nvlink_only: Option<NvlinkOnly>) -> Result<Linker, Reason> {
    let needed = nvlink_only.map(Reason::Needed);
    let unproven = |is_proven: bool| (!is_proven).then_some(Reason::Unproven(arch));
    match choice {
        CubinLinker::Nvlink => Ok(Linker::Nvlink(Reason::Selected)),
        CubinLinker::Fatlink => needed.or_else(|| unproven(cubin_link::knows(arch))).map_or(Ok(Linker::Fatlink), Err),
        CubinLinker::Auto => {
            let reason = needed.or_else(|| unproven(is_proven(arch)));
            Ok(reason.map_or(Linker::FatlinkIfKnown, Linker::Nvlink))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fatlink_links_what_it_is_proven_for() {
        let (known, unknown) = (GpuArch::plain(90), GpuArch::plain(70));
        assert_eq!(choose(known, CubinLinker::Auto, None), Ok(Linker::FatlinkIfKnown));
        assert_eq!(choose(unknown, CubinLinker::Auto, None), Ok(Linker::Nvlink(Reason::Unproven(unknown))));
        assert_eq!(choose(known, CubinLinker::Nvlink, None), Ok(Linker::Nvlink(Reason::Selected)));
        assert_eq!(choose(known, CubinLinker::Fatlink, None), Ok(Linker::Fatlink));
    }

    #[test]
    fn selected_fatlink_is_never_replaced() {
        let (known, unknown, debug) = (GpuArch::plain(90), GpuArch::plain(70), NvlinkOnly::Debug);
        assert_eq!(choose(unknown, CubinLinker::Fatlink, None), Err(Reason::Unproven(unknown)));
        assert_eq!(choose(known, CubinLinker::Fatlink, Some(debug)), Err(Reason::Needed(debug)));
        assert_eq!(choose(known, CubinLinker::Auto, Some(debug)), Ok(Linker::Nvlink(Reason::Needed(debug))));
    }
}
