//! Judges one file: a cell for each GPU and driver.

use std::collections::BTreeSet;
use std::io;

use serde::Serialize;

use super::super::check_link::check_host_code;
use super::super::containers::{FoundContainer, Role, containers};
use super::super::driver::Driver;
use super::super::findings::{Finding, Severity};
use super::super::hip::{AmdGpu, FoundBundle, hip_bundles, hip_outcome};
use super::super::relink::{NO_KERNELS, is_registered_without_kernels};
use super::cell::{Cell, CellVerdict};
use super::content::Shipped;
use super::fate::{Kernels, fate};
use super::known_drivers::is_observed;
use super::requirement::{Requirement, Rung};
use super::sum::{Sum, joined};
use crate::arch::GpuArch;
use crate::arch::table::KNOWN;
use crate::error::FileError;
use crate::host_object::{self, FileKind, LibraryNeeds, Search};

/// The device code of a file, as far as it decides what runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileCode {
    /// Its fatbins, with the kernels of each entry.
    fatbins: Vec<FoundContainer>,
    bundles: Vec<FoundBundle>,
    /// Errors of its host code.
    faults: Vec<Finding>,
    /// Whether it is an object or an archive, which no process loads.
    is_unlinked: bool,
    /// Whether its code for AMD's GPUs is in archives beside it.
    refers_to_kpack: bool,
    is_x86_64: bool,
    shipped: Shipped,
}

impl FileCode {
    /// Reads a file. `read_thin` reads the file of a thin archive's member, given the path that the archive records.
    ///
    /// # Errors
    /// A damaged container, or a thin member that cannot be read.
    pub fn read(
        data: &[u8],
        mut read_thin: impl FnMut(&str) -> io::Result<Vec<u8>>,
        search: Search,
    ) -> Result<Self, FileError> {
        let kind = host_object::file_kind(data);
        let faults = check_host_code(data, &mut read_thin)?;
        let fatbins = containers(data, &mut read_thin, search)?;
        let is_loaded = matches!(kind, FileKind::ElfShared | FileKind::ElfExecutable);
        let needs =
            if is_loaded { host_object::library_needs(data).unwrap_or_default() } else { LibraryNeeds::default() };
        Ok(Self {
            shipped: Shipped::new(&fatbins, &needs.needed),
            fatbins,
            bundles: hip_bundles(data, read_thin)?,
            faults: faults.into_iter().filter(|finding| finding.severity == Severity::Error).collect(),
            is_unlinked: matches!(kind, FileKind::ElfRelocatable | FileKind::Archive | FileKind::ThinArchive),
            refers_to_kpack: refers_to_kpack(data),
            is_x86_64: is_x86_64(data),
        })
    }

    /// The fatbins that a link makes, with those of its objects.
    pub fn of_link(fatbins: Vec<FoundContainer>) -> Self {
        let shipped = Shipped::new(&fatbins, &[]);
        Self {
            fatbins,
            bundles: Vec::new(),
            faults: Vec::new(),
            is_unlinked: false,
            refers_to_kpack: false,
            is_x86_64: false,
            shipped,
        }
    }

    /// Whether there is no device code, and none was forgotten.
    pub fn is_empty(&self) -> bool {
        self.fatbins.is_empty() && !self.has_amd() && self.faults.is_empty()
    }

    /// Whether it is an object or an archive: code for a link that is yet to come.
    pub fn is_unlinked(&self) -> bool {
        self.is_unlinked
    }

    /// Whether it has code for NVIDIA's GPUs.
    pub fn has_nvidia(&self) -> bool {
        !self.fatbins.is_empty()
    }

    /// Whether it has code for AMD's GPUs.
    pub fn has_amd(&self) -> bool {
        !self.bundles.is_empty() || self.refers_to_kpack
    }

    pub(super) fn fatbins(&self) -> &[FoundContainer] {
        &self.fatbins
    }

    /// The fatbins that a driver is given by themselves.
    fn loaded(&self) -> Vec<&FoundContainer> {
        self.fatbins.iter().filter(|found| matches!(found.role, Role::Whole | Role::Linked(_))).collect()
    }
}

/// ROCm's builds move the code objects of a library into an archive for each GPU, `.kpack/NAME_gfx942.kpack`, and leave this section, which
/// says where these are.
fn refers_to_kpack(data: &[u8]) -> bool {
    host_object::sections(data).is_ok_and(|sections| sections.iter().any(|section| section.name == b".rocm_kpack_ref"))
}

fn is_x86_64(data: &[u8]) -> bool {
    const EM_X86_64: [u8; 2] = [62, 0];
    data.starts_with(b"\x7fELF\x02\x01") && data.get(18..20) == Some(&EM_X86_64)
}

/// What becomes of a file. The field names are the keys of the JSON output.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FileGate {
    /// How many kernels it has for NVIDIA's GPUs. Those of several fatbins count for each.
    pub kernels: usize,
    /// What its images are.
    pub shipped: Shipped,
    /// For each GPU in the order of the requirement, a cell for each driver; one for each of AMD's GPUs.
    pub cells: Vec<Cell>,
}

impl FileGate {
    /// Judges a file.
    pub fn new(code: &FileCode, requirement: &Requirement) -> Self {
        let loaded = code.loaded();
        let kernels: Vec<Kernels<'_>> = loaded.iter().map(|found| Kernels::of(found, &code.fatbins)).collect();
        let judge = Judge { code, loaded, kernels, requirement };
        let drivers = requirement.drivers();
        let nvidia =
            requirement.gpus.nvidia.iter().flat_map(|gpu| drivers.iter().map(|driver| judge.nvidia(*gpu, *driver)));
        let amd = requirement.gpus.amd.iter().map(|gpu| judge.amd(gpu));
        let cells = nvidia.chain(amd).map(|cell| judge.required(cell)).collect();
        Self {
            kernels: judge.kernels.iter().map(|kernels| kernels.all.len()).sum(),
            shipped: code.shipped.clone(),
            cells,
        }
    }
}

impl FileGate {
    /// Where less runs than in another state of the same file, judged by the same requirement: `sm_90 with driver 535`.
    pub fn worse_than(&self, other: &FileGate) -> Vec<String> {
        let is_worse = |(own, other): &(&Cell, &Cell)| (own.verdict, own.lacking) > (other.verdict, other.lacking);
        let name = |(own, _): (&Cell, &Cell)| match own.driver {
            Some(branch) => format!("{} with driver {branch}", own.gpu),
            None => own.gpu.clone(),
        };
        self.cells.iter().zip(&other.cells).filter(is_worse).map(name).collect()
    }
}

struct Judge<'a> {
    code: &'a FileCode,
    loaded: Vec<&'a FoundContainer>,
    /// Of each fatbin that is loaded.
    kernels: Vec<Kernels<'a>>,
    requirement: &'a Requirement,
}

impl<'a> Judge<'a> {
    fn required(&self, cell: Cell) -> Cell {
        let passes = cell.verdict.passes(self.requirement.jit, self.requirement.kernels);
        Cell { passes, ..cell }
    }

    fn nvidia(&self, gpu: GpuArch, driver: Driver) -> Cell {
        let (name, branch) = (gpu.to_string(), branch(driver));
        if self.code.is_x86_64 && KNOWN.is_tegra(gpu) {
            let why = format!("{gpu} is part of a system with an AArch64 processor, and the file is for x86-64");
            return Cell { is_of_other_host: true, ..Cell::absent(name, branch, why) };
        }
        let driver = match driver.on(gpu) {
            Ok(driver) => driver,
            Err(why) => return Cell::absent(name, branch, why),
        };
        if let Some(fault) = self.code.faults.first() {
            let cell = Cell::new(name, branch, CellVerdict::Fails, fault.message.clone());
            return Cell { fault: Some(fault.code), ..cell };
        }
        if !self.code.has_nvidia() {
            return Cell::absent(name, branch, "no code for NVIDIA's GPUs".to_owned());
        }
        if self.loaded.is_empty() {
            let why = "its fatbins are not linked yet, or only the program's own code loads them".to_owned();
            return Cell::new(name, branch, CellVerdict::Unknown, why);
        }
        if self.loaded.iter().all(|found| is_registered_without_kernels(found, &self.code.fatbins)) {
            return Cell::absent(name, branch, NO_KERNELS.to_owned());
        }
        let mut sum = Sum::default();
        let counted = self.loaded.iter().zip(&self.kernels);
        let is_one = self.kernels.iter().all(|kernels| !kernels.may_define);
        for (found, kernels) in counted.filter(|(_, kernels)| is_one || kernels.may_define) {
            let fate = fate(found, &self.code.fatbins, gpu, driver);
            let needed = |name: &&str| !self.requirement.exceptions.iter().any(|claim| claim.excuses(name, gpu));
            sum.add(found, &fate, kernels, &needed, &self.code.fatbins);
        }
        let rung = match is_observed(gpu, driver) && sum.jit.is_empty() {
            true => Rung::Observed,
            false => Rung::Documented,
        };
        Cell { rung, ..sum.cell(name, branch) }
    }

    fn amd(&self, gpu: &AmdGpu) -> Cell {
        let name = gpu.to_string();
        if !self.code.has_amd() {
            return Cell::absent(name, None, "no code for AMD's GPUs".to_owned());
        }
        if self.code.refers_to_kpack {
            let why = "its code is in archives (.rocm_kpack_ref), which are not read";
            return Cell::new(name, None, CellVerdict::Unknown, why.to_owned());
        }
        let (mut runs, mut compiles, mut failures) = (0, 0, Vec::new());
        let mut outcomes = BTreeSet::new();
        for bundle in &self.code.bundles {
            for mode in gpu.modes() {
                let outcome = hip_outcome(&bundle.codes, mode);
                if !outcome.verdict.runs() {
                    failures.push(format!(
                        "bundle {} on {mode}: {}: {}",
                        bundle.place.container,
                        outcome.brief(),
                        outcome.reason
                    ));
                    continue;
                }
                outcomes.insert(outcome.brief());
                if outcome.brief().starts_with("spirv") { compiles += 1 } else { runs += 1 }
            }
        }
        let verdict = match (runs, compiles, failures.is_empty()) {
            (0, 0, _) => CellVerdict::Fails,
            (_, _, false) => CellVerdict::Partly,
            (_, 0, true) => CellVerdict::Runs,
            _ => CellVerdict::Jit,
        };
        let reason = failures.into_iter().next().unwrap_or_default();
        Cell { outcome: joined(&outcomes), ..Cell::new(name, None, verdict, reason) }
    }
}

fn branch(driver: Driver) -> Option<u32> {
    match driver {
        Driver::NewEnough => None,
        Driver::Branch(branch) => Some(branch),
    }
}
