//! Which code runs on which GPU, and which PTX version and CUDA release a target needs.

use super::table::KNOWN;
use super::{ArchFeature, CudaRelease, GpuArch, LtoIrVersion, PtxVersion};

impl GpuArch {
    /// The lowest PTX version whose `.target` may be this architecture; for an unknown number, that of the next lower known one.
    pub fn min_ptx(self) -> PtxVersion {
        KNOWN.min_ptx(self)
    }

    /// Whether this GPU runs machine code generated for `sass`.
    ///
    /// `self` is a device: its own suffix does not matter, because every GPU has all features of its number.
    /// By the CUDA programming guide, a GPU runs code of its own major version and of no later minor version; `a` code runs on exactly
    /// its GPU; a Tegra GPU runs its own code only, and no other GPU runs that.
    pub fn runs_sass_of(self, sass: GpuArch) -> bool {
        self.number == sass.number
            || (sass.feature != ArchFeature::Accelerated
                && self.major() == sass.major()
                && self.number > sass.number
                && !KNOWN.is_tegra(self)
                && !KNOWN.is_tegra(sass))
    }

    /// Whether the driver of this GPU can compile PTX with `.target ptx` for it, if it knows the PTX version.
    ///
    /// `self` is a device: its own suffix does not matter. For the target of `ptxas -arch`, see [`GpuArch::assembles_ptx_of`].
    pub fn can_jit_ptx_of(self, ptx: GpuArch) -> bool {
        match ptx.feature {
            ArchFeature::Plain => self.number >= ptx.number,
            ArchFeature::Family | ArchFeature::Accelerated => self.runs_sass_of(ptx),
        }
    }

    /// Whether `ptxas -arch=<self>` accepts PTX with `.target ptx`: here the suffix of `self` matters.
    pub fn assembles_ptx_of(self, ptx: GpuArch) -> bool {
        self.can_jit_ptx_of(ptx) && (ptx.feature != ArchFeature::Accelerated || self.feature == ptx.feature)
    }
}

impl PtxVersion {
    /// The newest PTX version that a CUDA release knows; `None` for releases without a row in the table.
    pub fn of_cuda(release: CudaRelease) -> Option<PtxVersion> {
        KNOWN.release(release).map(|row| row.ptx)
    }

    /// The version after this one; after the newest known version, one with a higher minor number.
    pub fn next(self) -> PtxVersion {
        let later = KNOWN.releases.iter().map(|row| row.ptx).filter(|version| *version > self).min();
        later.unwrap_or(PtxVersion { minor: self.minor.saturating_add(1), ..self })
    }

    /// The first CUDA release that knows this version; `None` for versions without a row in the table.
    pub fn cuda_release(self) -> Option<CudaRelease> {
        KNOWN.first_release_with(self).map(|row| row.release)
    }
}

impl LtoIrVersion {
    /// The newest LTO-IR version that a CUDA release can know; see [`TargetTable::lto_ir`](super::TargetTable::lto_ir).
    pub fn of_cuda(release: CudaRelease) -> Option<LtoIrVersion> {
        KNOWN.lto_ir(release)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> GpuArch {
        name.parse().expect("an architecture")
    }

    #[test]
    fn machine_code_runs_within_a_major_version() {
        let runs = |gpu: &str, sass: &str| arch(gpu).runs_sass_of(arch(sass));
        assert!(runs("sm_89", "sm_80") && runs("sm_103", "sm_100f") && runs("sm_90", "sm_90a"));
        assert!(!runs("sm_80", "sm_86") && !runs("sm_90", "sm_80") && !runs("sm_103", "sm_100a"));
        assert!(!runs("sm_87", "sm_80") && !runs("sm_89", "sm_88"));
    }

    #[test]
    fn ptx_compiles_for_later_gpus() {
        let compiles = |gpu: &str, ptx: &str| arch(gpu).can_jit_ptx_of(arch(ptx));
        assert!(compiles("sm_120", "sm_75") && compiles("sm_90", "sm_90a") && compiles("sm_103", "sm_100f"));
        assert!(!compiles("sm_80", "sm_86") && !compiles("sm_100", "sm_90a") && !compiles("sm_110", "sm_100f"));
    }

    #[test]
    fn ptx_versions_and_cuda_releases() {
        let release = CudaRelease::new;
        let newest = PtxVersion::of_cuda(release(13, 0)).expect("a known release");
        assert_eq!((newest.to_string(), newest.llvm_feature()), ("9.0".to_owned(), "+ptx90".to_owned()));
        assert_eq!(newest.cuda_release(), Some(release(13, 0)));
        // 12.6 knows no newer PTX than 12.5.
        assert_eq!(PtxVersion { major: 8, minor: 5 }.cuda_release(), Some(release(12, 5)));
        assert_eq!(PtxVersion::of_cuda(release(8, 0)), None);
        assert_eq!(PtxVersion { major: 5, minor: 0 }.cuda_release(), None);
        assert_eq!(PtxVersion { major: 8, minor: 8 }.next(), newest);
        assert_eq!(PtxVersion { major: 9, minor: 4 }.next(), PtxVersion { major: 9, minor: 5 });
    }
}
