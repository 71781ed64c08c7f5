//! NVIDIA GPU architectures and PTX versions: names, order, and what runs where.

use std::fmt;
use std::str::FromStr;

/// The instruction set that a target may use beyond the plain one of its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ArchFeature {
    /// `sm_90`: runs on later GPUs too.
    Plain,
    /// `sm_100f`: runs on the GPUs of its family.
    Family,
    /// `sm_90a`: runs on exactly this GPU.
    Accelerated,
}

/// A GPU architecture such as `sm_90a`.
///
/// Ordered by number, then plain < family < accelerated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GpuArch {
    /// Major version times ten plus minor version: 90, 103.
    pub number: u32,
    /// The suffix.
    pub feature: ArchFeature,
}

/// A name that [`GpuArch`] cannot be read from.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a GPU architecture such as sm_90a")]
pub struct UnknownArch(pub String);

impl GpuArch {
    /// The architecture of that number with no suffix.
    pub const fn plain(number: u32) -> Self {
        Self { number, feature: ArchFeature::Plain }
    }

    /// 10 of `sm_103`.
    pub fn major(self) -> u32 {
        self.number / 10
    }

    /// 3 of `sm_103`.
    pub fn minor(self) -> u32 {
        self.number % 10
    }

    /// `a`, `f` or nothing.
    pub fn suffix(self) -> &'static str {
        match self.feature {
            ArchFeature::Plain => "",
            ArchFeature::Family => "f",
            ArchFeature::Accelerated => "a",
        }
    }

    /// The name of the PTX target in compiler options: `compute_90a`.
    pub fn virtual_name(self) -> String {
        format!("compute_{}{}", self.number, self.suffix())
    }

    /// The lowest PTX ISA version whose `.target` names this architecture.
    ///
    /// For numbers in no table, the version of the next lower known number.
    pub fn min_ptx(self) -> PtxVersion {
        let fits = |row: &&MinPtx| row.feature == self.feature && row.number <= self.number;
        let row = MIN_PTX.iter().filter(fits).max_by_key(|row| row.number);
        match (row, self.feature) {
            (Some(row), _) => row.ptx,
            (None, ArchFeature::Plain) => PtxVersion { major: 3, minor: 2 },
            // A suffix on an architecture before the first that has one.
            (None, ArchFeature::Accelerated) => PtxVersion { major: 8, minor: 0 },
            (None, ArchFeature::Family) => PtxVersion { major: 8, minor: 8 },
        }
    }

    /// Whether this GPU runs machine code made for `sass`.
    ///
    /// `self` is a device: its own suffix does not matter, every GPU has all the features of its number.
    /// Rules of the CUDA programming guide: same major version and no later minor one; `a` code needs exactly its GPU; the GPUs of
    /// Tegra run their own code only, and no other GPU runs it.
    pub fn runs_sass_of(self, sass: GpuArch) -> bool {
        self.number == sass.number
            || (sass.feature != ArchFeature::Accelerated
                && self.major() == sass.major()
                && self.number > sass.number
                && !self.is_tegra()
                && !sass.is_tegra())
    }

    /// Whether it is a GPU of a system on a chip, which shares machine code with no other.
    fn is_tegra(self) -> bool {
        matches!(self.number, 53 | 62 | 72 | 87 | 88 | 101 | 110)
    }

    /// Whether this GPU's driver can compile PTX with `.target ptx` for it, its PTX version permitting.
    ///
    /// `self` is a device: its own suffix does not matter. For the target of `ptxas -arch`, see [`GpuArch::assembles_ptx_of`].
    pub fn can_jit_ptx_of(self, ptx: GpuArch) -> bool {
        match ptx.feature {
            ArchFeature::Plain => self.number >= ptx.number,
            ArchFeature::Family | ArchFeature::Accelerated => self.runs_sass_of(ptx),
        }
    }

    /// Whether `ptxas -arch=<self>` takes PTX with `.target ptx`: here the suffix of `self` matters.
    pub fn assembles_ptx_of(self, ptx: GpuArch) -> bool {
        self.can_jit_ptx_of(ptx) && (ptx.feature != ArchFeature::Accelerated || self.feature == ptx.feature)
    }
}

impl fmt::Display for GpuArch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}{}", self.number, self.suffix())
    }
}

impl FromStr for GpuArch {
    type Err = UnknownArch;

    /// Reads `sm_90a` and `compute_90a`.
    fn from_str(name: &str) -> Result<Self, UnknownArch> {
        let rest = name.strip_prefix("sm_").or_else(|| name.strip_prefix("compute_"));
        rest.and_then(parse_number_and_suffix).ok_or_else(|| UnknownArch(name.to_owned()))
    }
}

/// Reads `90a`, the form in which `fatbinary` takes an architecture.
fn parse_number_and_suffix(text: &str) -> Option<GpuArch> {
    let (digits, feature) = match text.as_bytes().last()? {
        b'a' => (text.strip_suffix('a')?, ArchFeature::Accelerated),
        b'f' => (text.strip_suffix('f')?, ArchFeature::Family),
        _ => (text, ArchFeature::Plain),
    };
    let plausible = (1..=4).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_digit());
    let number = digits.parse().ok().filter(|_| plausible)?;
    Some(GpuArch { number, feature })
}

/// A PTX ISA version such as 9.0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PtxVersion {
    /// 9 of 9.0.
    pub major: u8,
    /// 0 of 9.0.
    pub minor: u8,
}

impl PtxVersion {
    /// LLVM's name of the feature of its NVPTX target: `+ptx90`.
    pub fn llvm_feature(self) -> String {
        format!("+ptx{}{}", self.major, self.minor)
    }

    /// The newest PTX version that CUDA `major`.`minor` understands; `None` before 9.0 and after 13.1.
    pub fn of_cuda(major: u32, minor: u32) -> Option<PtxVersion> {
        let row = CUDA_PTX.iter().find(|row| row.0 == (major, minor));
        row.map(|row| row.1)
    }

    /// The version after this one; after the newest known, one with a higher minor number.
    pub fn next(self) -> PtxVersion {
        let later = CUDA_PTX.iter().map(|row| row.1).filter(|version| *version > self).min();
        later.unwrap_or(PtxVersion { minor: self.minor.saturating_add(1), ..self })
    }

    /// The first CUDA release that understands this version, as (major, minor).
    pub fn cuda_release(self) -> Option<(u32, u32)> {
        let row = CUDA_PTX.iter().find(|row| row.1 == self);
        row.map(|row| row.0)
    }
}

impl fmt::Display for PtxVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

const fn ptx(major: u8, minor: u8) -> PtxVersion {
    PtxVersion { major, minor }
}

/// CUDA release and the newest PTX version it understands (PTX ISA manual, release notes).
#[rustfmt::skip]
const CUDA_PTX: [((u32, u32), PtxVersion); 27] = [
    ((9, 0), ptx(6, 0)), ((9, 1), ptx(6, 1)), ((9, 2), ptx(6, 2)),
    ((10, 0), ptx(6, 3)), ((10, 1), ptx(6, 4)), ((10, 2), ptx(6, 5)),
    ((11, 0), ptx(7, 0)), ((11, 1), ptx(7, 1)), ((11, 2), ptx(7, 2)), ((11, 3), ptx(7, 3)), ((11, 4), ptx(7, 4)),
    ((11, 5), ptx(7, 5)), ((11, 6), ptx(7, 6)), ((11, 7), ptx(7, 7)), ((11, 8), ptx(7, 8)),
    ((12, 0), ptx(8, 0)), ((12, 1), ptx(8, 1)), ((12, 2), ptx(8, 2)), ((12, 3), ptx(8, 3)), ((12, 4), ptx(8, 4)),
    ((12, 5), ptx(8, 5)), ((12, 6), ptx(8, 5)),
    // 8.6 came with the never widely released 12.7.
    ((12, 7), ptx(8, 6)), ((12, 8), ptx(8, 7)), ((12, 9), ptx(8, 8)),
    ((13, 0), ptx(9, 0)), ((13, 1), ptx(9, 1)),
];

/// A row of the table behind [`GpuArch::min_ptx`].
struct MinPtx {
    number: u32,
    feature: ArchFeature,
    ptx: PtxVersion,
}

const fn row(number: u32, feature: ArchFeature, ptx: PtxVersion) -> MinPtx {
    MinPtx { number, feature, ptx }
}

/// The lowest PTX version of every target, as ptxas 13.0 and LLVM 22's NVPTX backend have it.
///
/// The two differ in one row: ptxas takes sm_88 from 7.3 on, LLVM, as the PTX manual, from 9.0 on. 9.0 suits both.
#[rustfmt::skip]
const MIN_PTX: [MinPtx; 34] = {
    use ArchFeature::{Accelerated, Family, Plain};
    [
        row(50, Plain, ptx(4, 0)), row(52, Plain, ptx(4, 1)), row(53, Plain, ptx(4, 2)),
        row(60, Plain, ptx(5, 0)), row(61, Plain, ptx(5, 0)), row(62, Plain, ptx(5, 0)),
        row(70, Plain, ptx(6, 0)), row(72, Plain, ptx(6, 1)), row(75, Plain, ptx(6, 3)),
        row(80, Plain, ptx(7, 0)), row(86, Plain, ptx(7, 1)), row(87, Plain, ptx(7, 4)),
        row(88, Plain, ptx(9, 0)), row(89, Plain, ptx(7, 8)),
        row(90, Plain, ptx(7, 8)), row(90, Accelerated, ptx(8, 0)),
        row(100, Plain, ptx(8, 6)), row(100, Family, ptx(8, 8)), row(100, Accelerated, ptx(8, 6)),
        row(101, Plain, ptx(8, 6)), row(101, Family, ptx(8, 8)), row(101, Accelerated, ptx(8, 6)),
        row(103, Plain, ptx(8, 8)), row(103, Family, ptx(8, 8)), row(103, Accelerated, ptx(8, 8)),
        row(110, Plain, ptx(9, 0)), row(110, Family, ptx(9, 0)), row(110, Accelerated, ptx(9, 0)),
        row(120, Plain, ptx(8, 7)), row(120, Family, ptx(8, 8)), row(120, Accelerated, ptx(8, 7)),
        row(121, Plain, ptx(8, 8)), row(121, Family, ptx(8, 8)), row(121, Accelerated, ptx(8, 8)),
    ]
};

#[cfg(test)]
mod tests {
    use super::*;

    fn arch(name: &str) -> GpuArch {
        name.parse().expect("an architecture")
    }

    #[test]
    fn names_round_trip() {
        for name in ["sm_75", "sm_90a", "sm_100f", "sm_121a"] {
            assert_eq!(arch(name).to_string(), name);
            assert_eq!(arch(&arch(name).virtual_name()), arch(name));
        }
        assert_eq!((arch("sm_103a").major(), arch("sm_103a").minor()), (10, 3));
        for name in ["", "sm_", "sm_a", "90", "sm_90b", "sm_90aa", "sm_+90", "gfx90a", "sm_12345", "SM_90"] {
            assert!(name.parse::<GpuArch>().is_err(), "{name}");
        }
    }

    #[test]
    fn order_is_number_then_feature() {
        let mut archs = ["sm_100a", "sm_90", "sm_100", "sm_90a", "sm_100f"].map(arch);
        archs.sort();
        assert_eq!(archs, ["sm_90", "sm_90a", "sm_100", "sm_100f", "sm_100a"].map(arch));
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
        let ptx = |name: &str| arch(name).min_ptx().to_string();
        assert_eq!([ptx("sm_90"), ptx("sm_90a"), ptx("sm_100f"), ptx("sm_110")], ["7.8", "8.0", "8.8", "9.0"]);
        assert_eq!(arch("sm_99").min_ptx(), arch("sm_90").min_ptx());
        let newest = PtxVersion::of_cuda(13, 0).expect("a known release");
        assert_eq!((newest.to_string(), newest.llvm_feature()), ("9.0".to_owned(), "+ptx90".to_owned()));
        assert_eq!(newest.cuda_release(), Some((13, 0)));
        assert_eq!(PtxVersion { major: 8, minor: 5 }.cuda_release(), Some((12, 5)));
        assert_eq!((PtxVersion::of_cuda(8, 0), PtxVersion { major: 5, minor: 0 }.cuda_release()), (None, None));
    }
}
