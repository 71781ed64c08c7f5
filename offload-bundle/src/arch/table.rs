//! What is known of targets, CUDA releases and LLVM releases: one row each. Everything else in the project that depends on them
//! looks here.
//!
//! To add a target or a release, add its row.

use super::{ArchFeature, CudaRelease, GpuArch, LtoIrVersion, PtxVersion};

/// A known GPU: one row of the table of targets.
///
/// The first CUDA release and the first LLVM that know a target are those that know its PTX version.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KnownGpu {
    /// 90 of sm_90.
    pub number: u32,
    /// The lowest PTX version whose `.target` may be sm_90.
    pub plain: PtxVersion,
    /// The same for sm_90f; `None` if there is no such target.
    pub family: Option<PtxVersion>,
    /// The same for sm_90a; `None` if there is no such target.
    pub accelerated: Option<PtxVersion>,
    /// The last CUDA release that generates machine code for it; `None` if the newest one does.
    pub last_cuda: Option<CudaRelease>,
    /// The GPU is part of a system on a chip (Tegra) and shares machine code with no other GPU.
    pub is_tegra: bool,
}

/// A known CUDA release: one row of the table of releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KnownRelease {
    /// The release.
    pub release: CudaRelease,
    /// The newest PTX version that it knows.
    pub ptx: PtxVersion,
    /// The driver branch that came with it. PTX of the release needs that branch or a later one: minor version compatibility
    /// covers machine code only.
    pub driver_branch: u32,
    /// The newest LTO-IR version that it knows; `None` if no file of that release was examined.
    pub lto_ir: Option<LtoIrVersion>,
}

/// A known LLVM release: one row of the table of LLVM releases.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct KnownLlvm {
    /// 22 of LLVM 22.1.
    pub major: u32,
    /// The newest PTX version that its NVPTX backend emits.
    pub ptx: PtxVersion,
}

/// The targets and the releases together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TargetTable<'a> {
    /// In ascending order of their numbers.
    pub gpus: &'a [KnownGpu],
    /// In ascending order.
    pub releases: &'a [KnownRelease],
    /// In ascending order.
    pub llvms: &'a [KnownLlvm],
}

/// All that this version knows.
pub const KNOWN: TargetTable<'static> = TargetTable { gpus: &GPUS, releases: &RELEASES, llvms: &LLVMS };

impl Default for TargetTable<'static> {
    fn default() -> Self {
        KNOWN
    }
}

/// Releases before this one generated code for GPUs that are in no row.
const FIRST_COMPLETE_RELEASE: CudaRelease = CudaRelease::new(9, 0);

const fn ptx(major: u8, minor: u8) -> PtxVersion {
    PtxVersion { major, minor }
}

const fn gpu(number: u32, plain: PtxVersion) -> KnownGpu {
    KnownGpu { number, plain, family: None, accelerated: None, last_cuda: None, is_tegra: false }
}

impl KnownGpu {
    const fn family(self, version: PtxVersion) -> Self {
        Self { family: Some(version), ..self }
    }

    const fn accelerated(self, version: PtxVersion) -> Self {
        Self { accelerated: Some(version), ..self }
    }

    const fn until(self, major: u32, minor: u32) -> Self {
        Self { last_cuda: Some(CudaRelease { major, minor }), ..self }
    }

    const fn tegra(self) -> Self {
        Self { is_tegra: true, ..self }
    }

    fn min_ptx(&self, feature: ArchFeature) -> Option<PtxVersion> {
        match feature {
            ArchFeature::Plain => Some(self.plain),
            ArchFeature::Family => self.family,
            ArchFeature::Accelerated => self.accelerated,
        }
    }
}

/// The PTX versions are those of ptxas 13.0 and of LLVM 22's NVPTX backend, for sm_107 those of ptxas 13.5; the last releases those of
/// ptxas 12.9 and 13.0, for Kepler's those of the PTX ISA manual and of the release notes of CUDA 11.0 and 12.0. nvlink 13.5 links machine code of sm_100 and sm_103 for sm_107, so that is no GPU of a system on a chip.
///
/// ptxas and LLVM differ in one row: ptxas accepts sm_88 from 7.3 on; LLVM, like the PTX manual, from 9.0 on. 9.0 suits both.
#[rustfmt::skip]
const GPUS: [KnownGpu; 26] = [
    // Kepler; 3.2 is the lowest that LLVM emits
    gpu(30, ptx(3, 2)).until(10, 2),
    gpu(32, ptx(4, 0)).until(10, 2).tegra(),
    gpu(35, ptx(3, 2)).until(11, 8),
    gpu(37, ptx(4, 1)).until(11, 8),
    // Maxwell, Pascal, Volta
    gpu(50, ptx(4, 0)).until(12, 9),
    gpu(52, ptx(4, 1)).until(12, 9),
    gpu(53, ptx(4, 2)).until(12, 9).tegra(),
    gpu(60, ptx(5, 0)).until(12, 9),
    gpu(61, ptx(5, 0)).until(12, 9),
    gpu(62, ptx(5, 0)).until(12, 9).tegra(),
    gpu(70, ptx(6, 0)).until(12, 9),
    gpu(72, ptx(6, 1)).until(12, 9).tegra(),
    // Turing, Ampere, Ada, Hopper
    gpu(75, ptx(6, 3)),
    gpu(80, ptx(7, 0)),
    gpu(86, ptx(7, 1)),
    gpu(87, ptx(7, 4)).tegra(),
    gpu(88, ptx(9, 0)).tegra(),
    gpu(89, ptx(7, 8)),
    gpu(90, ptx(7, 8)).accelerated(ptx(8, 0)),
    // Blackwell and, with sm_107, Rubin; 13.0 renamed sm_101 to sm_110
    gpu(100, ptx(8, 6)).family(ptx(8, 8)).accelerated(ptx(8, 6)),
    gpu(101, ptx(8, 6)).family(ptx(8, 8)).accelerated(ptx(8, 6)).until(12, 9).tegra(),
    gpu(103, ptx(8, 8)).family(ptx(8, 8)).accelerated(ptx(8, 8)),
    gpu(107, ptx(9, 4)).family(ptx(9, 4)).accelerated(ptx(9, 4)),
    gpu(110, ptx(9, 0)).family(ptx(9, 0)).accelerated(ptx(9, 0)).tegra(),
    gpu(120, ptx(8, 7)).family(ptx(8, 8)).accelerated(ptx(8, 7)),
    gpu(121, ptx(8, 8)).family(ptx(8, 8)).accelerated(ptx(8, 8)),
];

const fn cuda(major: u32, minor: u32, ptx: PtxVersion, driver_branch: u32) -> KnownRelease {
    KnownRelease { release: CudaRelease { major, minor }, ptx, driver_branch, lto_ir: None }
}

impl KnownRelease {
    const fn lto_ir(self, major: u8, minor: u8) -> Self {
        Self { lto_ir: Some(LtoIrVersion { major, minor }), ..self }
    }
}

/// PTX versions by the PTX ISA manual and each release's ptxas, driver branches by the release notes of the toolkits, that of 13.5 by the
/// compatibility package of driver 620.70.06. From 13.4 on no driver comes with the toolkit: the branch is that of the same CUDA version.
/// LTO-IR versions are what each release's nvcc writes.
#[rustfmt::skip]
const RELEASES: [KnownRelease; 31] = [
    cuda(9, 0, ptx(6, 0), 384),
    cuda(9, 1, ptx(6, 1), 390),
    cuda(9, 2, ptx(6, 2), 396),
    cuda(10, 0, ptx(6, 3), 410),
    cuda(10, 1, ptx(6, 4), 418),
    cuda(10, 2, ptx(6, 5), 440),
    cuda(11, 0, ptx(7, 0), 450),
    cuda(11, 1, ptx(7, 1), 455),
    cuda(11, 2, ptx(7, 2), 460),
    cuda(11, 3, ptx(7, 3), 465),
    cuda(11, 4, ptx(7, 4), 470),
    cuda(11, 5, ptx(7, 5), 495),
    cuda(11, 6, ptx(7, 6), 510),
    cuda(11, 7, ptx(7, 7), 515),
    cuda(11, 8, ptx(7, 8), 520),
    cuda(12, 0, ptx(8, 0), 525),
    cuda(12, 1, ptx(8, 1), 530),
    cuda(12, 2, ptx(8, 2), 535).lto_ir(1, 59),
    cuda(12, 3, ptx(8, 3), 545),
    cuda(12, 4, ptx(8, 4), 550),
    cuda(12, 5, ptx(8, 5), 555),
    cuda(12, 6, ptx(8, 5), 560),
    // Never widely released.
    cuda(12, 7, ptx(8, 6), 565),
    cuda(12, 8, ptx(8, 7), 570),
    cuda(12, 9, ptx(8, 8), 575).lto_ir(1, 64),
    cuda(13, 0, ptx(9, 0), 580).lto_ir(1, 65),
    cuda(13, 1, ptx(9, 1), 590).lto_ir(1, 66),
    cuda(13, 2, ptx(9, 2), 595).lto_ir(1, 66),
    cuda(13, 3, ptx(9, 3), 610).lto_ir(1, 67),
    cuda(13, 4, ptx(9, 4), 615).lto_ir(1, 67),
    cuda(13, 5, ptx(9, 5), 620).lto_ir(1, 67),
];

const LLVMS: [KnownLlvm; 2] = [KnownLlvm { major: 22, ptx: ptx(9, 0) }, KnownLlvm { major: 23, ptx: ptx(9, 3) }];

/// The last driver branch for a GPU, by the last CUDA release that generates code for it: for Kepler's 470 (its release notes), for those of
/// Maxwell, Pascal and Volta 580 (release notes of CUDA 13.0, "Deprecated Architectures", and of driver 580).
fn last_driver(release: CudaRelease) -> u32 {
    if release.major < 12 { 470 } else { 580 }
}

impl<'a> TargetTable<'a> {
    /// The driver branches that run a GPU: the first and the last, where these are known. Unknown for GPUs of systems on a chip, whose drivers
    /// come with the system; the first is that of the first CUDA release which knows the GPU.
    pub fn drivers_of(self, arch: GpuArch) -> (Option<u32>, Option<u32>) {
        let Some(gpu) = self.gpu(arch.number).filter(|gpu| !gpu.is_tegra) else { return (None, None) };
        let oldest = self.releases.first().map(|row| row.driver_branch);
        let first = self.releases.iter().find(|row| row.ptx >= gpu.plain).map(|row| row.driver_branch);
        let last = gpu.last_cuda.map(last_driver);
        // The first row stands for all releases before it.
        (first.filter(|first| Some(*first) != oldest), last)
    }

    /// The newest PTX version that an LLVM release emits; `None` for releases without a row.
    pub const fn newest_ptx_of_llvm(self, major: u32) -> Option<PtxVersion> {
        let mut index = 0;
        // No iterators in constants.
        while index < self.llvms.len() {
            if self.llvms[index].major == major {
                return Some(self.llvms[index].ptx);
            }
            index += 1;
        }
        None
    }

    /// All GPUs, without suffixes.
    pub fn all_gpus(self) -> impl Iterator<Item = GpuArch> + 'a {
        self.gpus.iter().map(|gpu| GpuArch::plain(gpu.number))
    }

    /// The GPUs that the newest CUDA release generates machine code for.
    pub fn current_gpus(self) -> impl Iterator<Item = GpuArch> + 'a {
        self.gpus.iter().filter(|gpu| gpu.last_cuda.is_none()).map(|gpu| GpuArch::plain(gpu.number))
    }

    /// The GPUs that only earlier CUDA releases generate machine code for, but for those of systems on a chip.
    pub fn former_gpus(self) -> impl Iterator<Item = GpuArch> + 'a {
        let is_former = |gpu: &&KnownGpu| gpu.last_cuda.is_some() && !gpu.is_tegra;
        self.gpus.iter().filter(is_former).map(|gpu| GpuArch::plain(gpu.number))
    }

    /// Whether there is a row for the number of `arch`.
    pub fn knows(self, arch: GpuArch) -> bool {
        self.gpu(arch.number).is_some()
    }

    /// Whether `arch` is a target: there is a row for its number, and it has the variant of its suffix.
    pub fn has_target(self, arch: GpuArch) -> bool {
        self.gpu(arch.number).is_some_and(|gpu| gpu.min_ptx(arch.feature).is_some())
    }

    /// Whether `arch` is a GPU of a system on a chip.
    pub fn is_tegra(self, arch: GpuArch) -> bool {
        self.gpu(arch.number).is_some_and(|gpu| gpu.is_tegra)
    }

    /// The lowest PTX version whose `.target` may be `arch`; for an unknown number, that of the next lower known one.
    pub fn min_ptx(self, arch: GpuArch) -> PtxVersion {
        let rows = self.gpus.iter().filter(|gpu| gpu.number <= arch.number);
        let nearest = rows.rev().find_map(|gpu| gpu.min_ptx(arch.feature));
        nearest.unwrap_or(match arch.feature {
            ArchFeature::Plain => ptx(3, 2),
            // A suffix on a GPU before the first that has one.
            ArchFeature::Accelerated => ptx(8, 0),
            ArchFeature::Family => ptx(8, 8),
        })
    }

    /// The oldest GPU that a CUDA release generates machine code for; `None` for releases from before the first row.
    pub fn oldest_gpu(self, release: CudaRelease) -> Option<GpuArch> {
        let is_generated = |gpu: &&KnownGpu| gpu.last_cuda.is_none_or(|last| release <= last);
        let oldest = self.gpus.iter().find(is_generated).filter(|_| release >= FIRST_COMPLETE_RELEASE);
        oldest.map(|gpu| GpuArch::plain(gpu.number))
    }

    /// The row of a CUDA release.
    pub fn release(self, release: CudaRelease) -> Option<&'a KnownRelease> {
        self.releases.iter().find(|row| row.release == release)
    }

    /// The first CUDA release that knows this very PTX version.
    pub fn first_release_with(self, version: PtxVersion) -> Option<&'a KnownRelease> {
        self.releases.iter().find(|row| row.ptx == version)
    }

    /// The newest LTO-IR version that a CUDA release can know: that of the first examined release from there on. `None` for later
    /// releases, of which nothing is known.
    pub fn lto_ir(self, release: CudaRelease) -> Option<LtoIrVersion> {
        self.releases.iter().filter(|row| row.release >= release).find_map(|row| row.lto_ir)
    }

    /// The major version of the CUDA that compiled LTO-IR of this version: that of the first examined release which knows it. `None` if it is
    /// newer than all of these.
    pub fn major_of_lto_ir(self, version: LtoIrVersion) -> Option<u32> {
        let knows = |row: &&KnownRelease| row.lto_ir.is_some_and(|known| known >= version);
        self.releases.iter().find(knows).map(|row| row.release.major)
    }

    fn gpu(self, number: u32) -> Option<&'a KnownGpu> {
        self.gpus.iter().find(|gpu| gpu.number == number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> GpuArch {
        name.parse().expect("an architecture")
    }

    #[test]
    fn rows_are_in_ascending_order() {
        assert!(GPUS.is_sorted_by_key(|gpu| gpu.number));
        assert!(RELEASES.is_sorted_by_key(|row| row.release) && RELEASES.is_sorted_by_key(|row| row.ptx));
        assert!(RELEASES.is_sorted_by_key(|row| row.driver_branch));
    }

    #[test]
    fn the_lowest_ptx_version_of_a_target() {
        let version = |name: &str| KNOWN.min_ptx(arch(name)).to_string();
        let known = ["sm_90", "sm_90a", "sm_100f", "sm_110"].map(version);
        assert_eq!(known, ["7.8", "8.0", "8.8", "9.0"]);
        // Of unknown numbers, and of suffixes that a number does not have.
        let unknown = ["sm_21", "sm_99", "sm_89a", "sm_95a", "sm_90f", "sm_130"].map(version);
        assert_eq!(unknown, ["3.2", "7.8", "8.0", "8.0", "8.8", "8.8"]);
    }

    #[test]
    fn the_oldest_gpu_of_a_release() {
        let oldest = |major, minor| KNOWN.oldest_gpu(CudaRelease { major, minor }).map(|gpu| gpu.number);
        let seen =
            [oldest(8, 0), oldest(10, 2), oldest(11, 8), oldest(12, 0), oldest(12, 9), oldest(13, 0), oldest(14, 2)];
        assert_eq!(seen, [None, Some(30), Some(35), Some(50), Some(50), Some(75), Some(75)]);
    }

    #[test]
    fn the_drivers_of_a_gpu() {
        let drivers = |number| KNOWN.drivers_of(GpuArch::plain(number));
        assert_eq!([drivers(35), drivers(61)], [(None, Some(470)), (None, Some(580))]);
        assert_eq!([75, 90, 107, 120].map(|number| drivers(number).0), [410, 520, 615, 570].map(Some));
        assert_eq!([drivers(90).1, drivers(87).0, drivers(130).0], [None; 3]);
    }

    #[test]
    fn the_lto_ir_of_a_release() {
        let newest = |major, minor| KNOWN.lto_ir(CudaRelease { major, minor }).map(|version| version.minor);
        let seen = [newest(12, 0), newest(12, 2), newest(12, 5), newest(12, 9), newest(13, 0), newest(13, 6)];
        assert_eq!(seen, [Some(59), Some(59), Some(64), Some(64), Some(65), None]);
    }

    #[test]
    fn the_cuda_of_lto_ir() {
        let major = |minor| KNOWN.major_of_lto_ir(LtoIrVersion { major: 1, minor });
        assert_eq!(
            [major(59), major(60), major(64), major(65), major(68)],
            [Some(12), Some(12), Some(12), Some(13), None]
        );
    }

    #[test]
    fn a_target_is_added_by_one_row() {
        let row = gpu(130, ptx(9, 3)).family(ptx(9, 3)).accelerated(ptx(9, 4));
        let rows = [&GPUS[..], &[row]].concat();
        let targets = TargetTable { gpus: &rows, ..KNOWN };
        let names = ["sm_130", "sm_130f", "compute_130a", "sm_131"].map(arch);
        assert_eq!(names.map(|name| targets.min_ptx(name).to_string()), ["9.3", "9.3", "9.4", "9.3"]);
        assert!(targets.knows(arch("sm_130a")) && !KNOWN.knows(arch("sm_130a")));
        for gpus in [targets.all_gpus().last(), targets.current_gpus().last()] {
            assert_eq!(gpus, Some(arch("sm_130")));
        }
    }
}
