//! Which tool turns the linked code of one target into machine code. PURE: tested by a table.
//!
//! Capability decides: can this tool read all the inputs, speak their versions and make code for the target? That one
//! library is older or newer than another decides nothing. `auto` takes the first that can, in the order of
//! [`BACKENDS`]; a tool asked for by name is taken or refused, never replaced.

use std::fmt;

use offload_bundle::arch::{GpuArch, PtxVersion};
use offload_bundle::ltoir::LtoIrVersion;

/// A CUDA release: (13, 0).
pub type Release = (u32, u32);

/// What can make machine code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The program ptxas, and nvlink where cubins have to be joined.
    Ptxas,
    /// NVIDIA's library libnvJitLink, in this process.
    NvJitLink,
    /// The linker inside the CUDA driver of this machine.
    Driver,
}

/// In the order of preference. ptxas first: it needs no driver, is what a toolkit always has, and a crash of it is not ours. The
/// driver last: its code depends on the machine that happens to link.
pub const BACKENDS: [Backend; 3] = [Backend::Ptxas, Backend::NvJitLink, Backend::Driver];

impl Backend {
    /// The value of `--offload-backend=` that asks for it.
    pub fn option(self) -> &'static str {
        match self {
            Backend::Ptxas => "ptxas",
            Backend::NvJitLink => "nvjitlink",
            Backend::Driver => "driver",
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Backend::Ptxas => "ptxas",
            Backend::NvJitLink => "nvJitLink",
            Backend::Driver => "the driver's linker",
        })
    }
}

/// `--offload-backend=`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Wish {
    /// Whatever can do the job.
    #[default]
    Auto,
    /// This one or none.
    Only(Backend),
}

impl Wish {
    /// Reads the option's value. `None`: it is none of the four words.
    pub fn parse(text: &str) -> Option<Self> {
        match text {
            "auto" => Some(Wish::Auto),
            _ => BACKENDS.into_iter().find(|backend| backend.option() == text).map(Wish::Only),
        }
    }
}

/// What is to become machine code, for one target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Inputs {
    /// The target.
    pub arch: GpuArch,
    /// LLVM bitcode: becomes PTX of a version that suits the tool.
    pub bitcode: bool,
    /// PTX that came as PTX: its highest version.
    pub ptx: Option<PtxVersion>,
    /// Relocatable cubins.
    pub cubins: bool,
    /// NVIDIA's LTO-IR: its highest version.
    pub lto_ir: Option<LtoIrVersion>,
    /// There is more than one piece, so that they have to be joined.
    pub joins: bool,
}

impl Inputs {
    /// Nothing yet.
    pub fn none(arch: GpuArch) -> Self {
        Inputs { arch, bitcode: false, ptx: None, cubins: false, lto_ir: None, joins: false }
    }
}

/// The programs of the toolkit.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Programs {
    /// ptxas, of this release.
    pub ptxas: Option<Release>,
    /// nvlink is there.
    pub nvlink: bool,
}

/// The CUDA driver of this machine.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Driver {
    /// There is none: normal in a build container.
    #[default]
    Absent,
    /// There is one, and it does not say for which CUDA.
    Unknown,
    /// For this release of CUDA (not its own number, 580).
    Known(Release),
}

/// Why a tool cannot do the job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lack {
    /// It is not there.
    Absent,
    /// Several pieces have to be joined, and there is no nvlink.
    NoNvlink,
    /// It does not read LTO-IR.
    NoLtoIr,
    /// LTO-IR is nothing without link-time optimization, and that is turned off.
    LtoOff,
    /// LTO-IR newer than the tool: (what came, what it knows, its release).
    LtoIrNewer(LtoIrVersion, LtoIrVersion, Release),
    /// PTX newer than the tool: (what came, what it knows, its release).
    PtxNewer(PtxVersion, PtxVersion, Release),
    /// The target needs newer PTX than the tool knows: (target, needed, known, its release).
    TargetNewer(GpuArch, PtxVersion, PtxVersion, Release),
    /// The tool makes no code for a GPU that old any more: (target, oldest that it knows, its release).
    TargetOlder(GpuArch, u32, Release),
}

/// Why there is no backend: what each one that may be used lacks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Why(pub Vec<(Backend, Lack)>);

/// Chooses. `nvjitlink` is the library's release; `lto`: link-time optimization is not turned off.
///
/// Under [`Wish::Auto`], a toolkit that can do the job is taken whatever else there is: nobody has to look for more.
///
/// # Errors
/// No backend that may be used can do the job; for each, why.
pub fn choose_backend(
    inputs: &Inputs,
    toolkit: Programs,
    nvjitlink: Option<Release>,
    driver: Driver,
    lto: bool,
    wish: Wish,
) -> Result<Backend, Why> {
    let allowed = BACKENDS.into_iter().filter(|backend| matches!(wish, Wish::Auto) || wish == Wish::Only(*backend));
    let mut lacks = Vec::new();
    for backend in allowed {
        let lack = match backend {
            Backend::Ptxas => lack_of_ptxas(inputs, toolkit),
            Backend::NvJitLink => lack_of_nvjitlink(inputs, nvjitlink, lto),
            Backend::Driver => lack_of_driver(inputs, driver),
        };
        match lack {
            None => return Ok(backend),
            Some(lack) => lacks.push((backend, lack)),
        }
    }
    Err(Why(lacks))
}

fn lack_of_ptxas(inputs: &Inputs, toolkit: Programs) -> Option<Lack> {
    if inputs.lto_ir.is_some() {
        return Some(Lack::NoLtoIr);
    }
    if inputs.bitcode || inputs.ptx.is_some() {
        let Some(release) = toolkit.ptxas else { return Some(Lack::Absent) };
        if let Some(lack) = lack_of_versions(inputs, release, true) {
            return Some(lack);
        }
    }
    (inputs.joins && !toolkit.nvlink).then_some(Lack::NoNvlink)
}

fn lack_of_nvjitlink(inputs: &Inputs, library: Option<Release>, lto: bool) -> Option<Lack> {
    let Some(release) = library else { return Some(Lack::Absent) };
    if let Some(version) = inputs.lto_ir {
        if !lto {
            return Some(Lack::LtoOff);
        }
        let known = LtoIrVersion::of_cuda(release.0, release.1);
        if let Some(known) = known.filter(|known| version > *known) {
            return Some(Lack::LtoIrNewer(version, known, release));
        }
    }
    lack_of_versions(inputs, release, true)
}

fn lack_of_driver(inputs: &Inputs, driver: Driver) -> Option<Lack> {
    match driver {
        Driver::Absent => Some(Lack::Absent),
        // CU_JIT_INPUT_NVVM took the IR of CUDA 11.4 to 11.8 and is withdrawn.
        _ if inputs.lto_ir.is_some() => Some(Lack::NoLtoIr),
        // Its own words will say what it cannot do.
        Driver::Unknown => None,
        Driver::Known(release) => lack_of_versions(inputs, release, false),
    }
}

/// What a tool lacks that was named by its own option, so that another one in its place would come as a surprise. LTO-IR is no
/// reason: there is only one tool for it.
///
/// # Errors
/// It lacks something, and another version of it may not.
pub fn refuse_named(
    named: Backend,
    inputs: &Inputs,
    toolkit: Programs,
    nvjitlink: Option<Release>,
    lto: bool,
) -> Result<(), Why> {
    let lack = match named {
        Backend::Ptxas => lack_of_ptxas(inputs, toolkit),
        Backend::NvJitLink => lack_of_nvjitlink(inputs, nvjitlink, lto),
        // Nothing takes the driver's place.
        Backend::Driver => None,
    };
    match lack {
        None | Some(Lack::NoNvlink | Lack::NoLtoIr | Lack::LtoOff) => Ok(()),
        Some(lack) => Err(Why(vec![(named, lack)])),
    }
}

/// What PTX and targets ask of a tool. The driver compiles for GPUs that the toolkit of its release has dropped.
fn lack_of_versions(inputs: &Inputs, release: Release, drops_targets: bool) -> Option<Lack> {
    let known = newest_ptx(release);
    if let Some(version) = inputs.ptx.filter(|version| *version > known) {
        return Some(Lack::PtxNewer(version, known, release));
    }
    let needed = inputs.arch.min_ptx();
    if needed > known {
        return Some(Lack::TargetNewer(inputs.arch, needed, known, release));
    }
    let oldest = oldest_target(release);
    (drops_targets && inputs.arch.number < oldest).then_some(Lack::TargetOlder(inputs.arch, oldest, release))
}

/// The newest PTX that a release knows. Of releases that are in no table: older ones know less than all that is in
/// use, newer ones more.
pub fn newest_ptx((major, minor): Release) -> PtxVersion {
    let unknown = if major < 12 { PtxVersion { major: 0, minor: 0 } } else { PtxVersion { major: u8::MAX, minor: 0 } };
    PtxVersion::of_cuda(major, minor).unwrap_or(unknown)
}

/// The oldest GPU that a release still makes code for (release notes of CUDA 12.0 and 13.0).
fn oldest_target((major, _): Release) -> u32 {
    match major {
        13.. => 75,
        12 => 50,
        _ => 0,
    }
}

impl Lack {
    /// What `backend` lacks, after "… cannot do it: ".
    pub fn text(self, backend: Backend) -> String {
        let cuda = |(major, minor): Release| match backend {
            Backend::Driver => format!("this driver (CUDA {major}.{minor})"),
            _ => format!("{backend} {major}.{minor}"),
        };
        match self {
            Lack::Absent => format!("{backend} is not there"),
            Lack::NoNvlink => "several pieces must be joined, and there is no nvlink".to_owned(),
            Lack::NoLtoIr => format!("there is LTO-IR to link, which {backend} does not read"),
            Lack::LtoOff => "there is LTO-IR to link, and link-time optimization is off (-fno-lto)".to_owned(),
            Lack::LtoIrNewer(came, known, release) => {
                format!("LTO-IR {came} is newer than {}, which knows {known}", cuda(release))
            }
            Lack::PtxNewer(came, known, release) => {
                format!("PTX {came} is newer than {}, which knows {known}", cuda(release))
            }
            Lack::TargetNewer(arch, needed, known, release) => {
                let first = needed.cuda_release().map_or_else(String::new, |(a, b)| format!(" (CUDA {a}.{b})"));
                format!("{arch} needs PTX {needed}{first}, and {} knows {known}", cuda(release))
            }
            Lack::TargetOlder(arch, oldest, release) => {
                format!("{} makes no code for {arch}, only from sm_{oldest} on", cuda(release))
            }
        }
    }

    /// What to do about it.
    pub fn advice(self, backend: Backend) -> &'static str {
        match (self, backend) {
            (Lack::Absent, Backend::Ptxas) => "install the CUDA toolkit or name it with --cuda-path=<dir>",
            (Lack::Absent, Backend::NvJitLink) => {
                "install it (the CUDA toolkit has it, and the Python packages nvidia-nvjitlink and nvidia-nvjitlink-cu12) \
                 or name it with --nvjitlink-path=<file>"
            }
            (Lack::Absent, Backend::Driver) => {
                "link where NVIDIA's driver is installed, or choose --offload-backend=ptxas, which needs none"
            }
            (Lack::NoNvlink, _) => {
                "install the whole CUDA toolkit, name nvlink with --nvlink-path=<file>, or choose --offload-backend=nvjitlink"
            }
            (Lack::NoLtoIr, _) => {
                "choose --offload-backend=nvjitlink, or compile with clang -foffload-lto, or to PTX or machine code"
            }
            (Lack::LtoOff, _) => "leave out -fno-lto, or compile the files to PTX or machine code",
            (Lack::LtoIrNewer(..) | Lack::PtxNewer(..), Backend::Driver) => {
                "update the driver, compile with an older CUDA, or choose another --offload-backend"
            }
            (Lack::LtoIrNewer(..) | Lack::PtxNewer(..), _) => "name a newer one, or compile with an older CUDA",
            (Lack::TargetNewer(..), Backend::Driver) => "update the driver, or choose another --offload-backend",
            (Lack::TargetNewer(..), Backend::Ptxas) => "name a newer toolkit with --cuda-path=<dir>",
            (Lack::TargetNewer(..), Backend::NvJitLink) => "name a newer library with --nvjitlink-path=<file>",
            (Lack::TargetOlder(..), _) => "name one of an older CUDA",
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (backend, lack)) in self.0.iter().enumerate() {
            let separator = if index == 0 { "" } else { "; " };
            write!(formatter, "{separator}{}: {}", lack.text(*backend), lack.advice(*backend))?;
        }
        Ok(())
    }
}

/// Why it is this backend, as a sentence without its full stop: data for the report.
pub fn reason(
    inputs: &Inputs,
    toolkit: Programs,
    nvjitlink: Option<Release>,
    lto: bool,
    wish: Wish,
    backend: Backend,
) -> String {
    if let Wish::Only(_) = wish {
        return format!("--offload-backend={} asks for it", backend.option());
    }
    let passed = BACKENDS.into_iter().take_while(|other| *other != backend);
    let lacks = passed.filter_map(|other| match other {
        Backend::Ptxas => lack_of_ptxas(inputs, toolkit).map(|lack| lack.text(other)),
        _ => lack_of_nvjitlink(inputs, nvjitlink, lto).map(|lack| lack.text(other)),
    });
    let lacks: Vec<String> = lacks.collect();
    match (lacks.is_empty(), inputs.bitcode || inputs.ptx.is_some()) {
        (false, _) => lacks.join("; "),
        (true, true) => "it can do the whole link and needs no driver".to_owned(),
        (true, false) => "machine code needs joining alone".to_owned(),
    }
}

#[cfg(test)]
#[path = "choose_tests.rs"]
mod tests;
