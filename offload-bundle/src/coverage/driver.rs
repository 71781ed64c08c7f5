//! What each driver branch can load: PTX versions, toolkits and compressions.

use std::str::FromStr;

use super::code::{Code, Word};
use crate::arch::table::{KNOWN, KnownRelease};
use crate::arch::{CudaRelease, GpuArch, PtxVersion};
use crate::fatbin::Compression;

/// The driver that is to load a fatbin. Ordered by age, the oldest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum Driver {
    /// A driver of this release branch: 580 of 580.159.04.
    Branch(u32),
    /// A driver that is new enough for everything in the fatbin.
    #[default]
    NewEnough,
}

/// Whether the driver compiles PTX, as the environment of a program sets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Jit {
    /// PTX is compiled where no machine code fits.
    #[default]
    Allowed,
    /// `CUDA_FORCE_PTX_JIT=1`: machine code is ignored.
    Forced,
    /// `CUDA_DISABLE_PTX_JIT=1`: PTX is chosen as usual, but is not compiled.
    Disabled,
}

impl Jit {
    /// Whether the driver considers an entry.
    pub(super) fn takes(self, code: &Code) -> bool {
        self != Jit::Forced || code.word() != Word::Sass
    }
}

/// The environment in which a program's fatbins are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Runtime {
    /// The driver.
    pub driver: Driver,
    /// Whether it compiles PTX.
    pub jit: Jit,
}

impl Runtime {
    /// Whether the driver considers an entry, or may.
    pub(super) fn takes(self, code: &Code) -> bool {
        self.jit.takes(code) && !(code.is_concatenated && self.driver.passes_over_concatenations())
    }
}

impl From<Driver> for Runtime {
    fn from(driver: Driver) -> Self {
        Runtime { driver, jit: Jit::Allowed }
    }
}

/// A text that is not a [`Driver`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a driver version such as 580 or 580.159.04{release}", release = of_release(.0))]
pub struct UnknownDriver(pub String);

/// What to say of a text that is a version of CUDA.
fn of_release(text: &str) -> String {
    let row = KNOWN.releases.iter().find(|row| row.release.to_string() == text);
    row.map_or_else(String::new, |row| format!("; it is a version of CUDA, whose driver is {}", row.driver_branch))
}

/// The first CUDA release whose driver decompresses Zstandard.
const FIRST_WITH_ZSTD: CudaRelease = CudaRelease::new(12, 4);

/// The newest driver that was seen to pass over concatenations.
pub(super) const LAST_WITHOUT_CONCATENATIONS: Driver = Driver::Branch(580);

impl Driver {
    /// Whether it is of `branch` or later.
    fn reaches(self, branch: u32) -> bool {
        match self {
            Driver::NewEnough => true,
            Driver::Branch(own) => own >= branch,
        }
    }

    /// The driver of a machine with this GPU: for a former GPU whose last driver is known, at most that one.
    ///
    /// # Errors
    /// Why there is no such machine.
    pub fn on(self, gpu: GpuArch) -> Result<Self, String> {
        let (first, last) = KNOWN.drivers_of(gpu);
        match (self, first, last) {
            (Driver::NewEnough, _, Some(last)) => Ok(Driver::Branch(last)),
            (Driver::Branch(own), Some(first), _) if own < first => {
                Err(format!("driver {own} does not know {gpu}, drivers from {first} on do"))
            }
            (Driver::Branch(own), _, Some(last)) if own > last => {
                Err(format!("driver {own} no longer runs {gpu}, {last} was the last"))
            }
            _ => Ok(self),
        }
    }

    /// The branch that compiling PTX of that version needs, if this driver is older.
    pub fn lacks_for_ptx(self, version: PtxVersion) -> Option<u32> {
        let first = KNOWN.releases.iter().find(|row| row.ptx >= version);
        // PTX newer than the table needs a branch newer than the table.
        let needed = first.map_or(newest().map_or(0, |row| row.driver_branch + 1), |row| row.driver_branch);
        (!self.reaches(needed)).then_some(needed)
    }

    /// Whether it is one of those that are known to pass over concatenations. Of later ones nothing is documented.
    pub fn passes_over_concatenations(self) -> bool {
        self <= LAST_WITHOUT_CONCATENATIONS
    }

    /// The branch that is needed to load machine code of that release, if this driver is older: by minor version compatibility, that
    /// of the first release of the major version.
    pub fn lacks_for_sass(self, release: CudaRelease) -> Option<u32> {
        let first = |major| KNOWN.releases.iter().find(|row| row.release.major == major).map(|row| row.driver_branch);
        let newest = newest().map_or(0, |row| row.release.major);
        // A major version after the table's needs a branch after that of the table's newest.
        let after = first(newest).filter(|_| release.major > newest).map(|branch| branch + 1);
        let needed = first(release.major).or(after).unwrap_or(0);
        (!self.reaches(needed)).then_some(needed)
    }

    /// The branch that decompressing needs, if this driver is older.
    pub fn lacks_for_compression(self, compression: Compression) -> Option<u32> {
        let floor = KNOWN.release(FIRST_WITH_ZSTD).map(|row| row.driver_branch);
        floor.filter(|floor| compression == Compression::Zstd && !self.reaches(*floor))
    }

    /// The newest branch that does not decompress it; `None` if all do.
    pub fn newest_without(compression: Compression) -> Option<Self> {
        Driver::Branch(0).lacks_for_compression(compression).map(|first| Driver::Branch(first - 1))
    }

    /// Describes it in reports: `580 (CUDA 13.0, PTX up to 9.0)`.
    pub fn description(self) -> String {
        let Driver::Branch(own) = self else {
            return "not given, assumed to be new enough for everything here".to_owned();
        };
        let row = KNOWN.releases.iter().rev().find(|row| row.driver_branch <= own);
        match row {
            Some(row) if Some(row) == newest() && own > row.driver_branch => {
                format!("{own} (newer than this program knows, assumed to compile any PTX)")
            }
            Some(row) => format!("{own} (CUDA {}, PTX up to {})", row.release, row.ptx),
            None => format!("{own} (older than CUDA 9)"),
        }
    }
}

/// The newest known release.
fn newest() -> Option<&'static KnownRelease> {
    KNOWN.releases.last()
}

impl FromStr for Driver {
    type Err = UnknownDriver;

    /// Reads `580` and `580.159.04`.
    fn from_str(text: &str) -> Result<Self, UnknownDriver> {
        let mut parts = text.split('.').map(number);
        let branch = parts.next().flatten();
        // A CUDA version in its place (13.0) would silently mean a driver that runs nothing.
        match branch.filter(|branch| *branch >= 100) {
            Some(branch) if parts.all(|part| part.is_some()) => Ok(Driver::Branch(branch)),
            _ => Err(UnknownDriver(text.to_owned())),
        }
    }
}

fn number(text: &str) -> Option<u32> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptx(major: u8, minor: u8) -> PtxVersion {
        PtxVersion { major, minor }
    }

    #[test]
    fn the_branch_that_each_ptx_version_needs() {
        let oldest = Driver::Branch(100);
        let rows = [((6, 0), 384), ((7, 8), 520), ((8, 0), 525), ((8, 5), 555), ((8, 6), 565), ((8, 8), 575)];
        for ((major, minor), branch) in
            rows.into_iter().chain([((9, 0), 580), ((9, 3), 610), ((9, 5), 620), ((9, 6), 621)])
        {
            assert_eq!(oldest.lacks_for_ptx(ptx(major, minor)), Some(branch), "{major}.{minor}");
            assert_eq!(Driver::Branch(branch).lacks_for_ptx(ptx(major, minor)), None);
            assert_eq!(Driver::Branch(branch - 1).lacks_for_ptx(ptx(major, minor)), Some(branch));
            assert_eq!(Driver::NewEnough.lacks_for_ptx(ptx(major, minor)), None);
        }
        // A driver before the first row of the table, and one between two rows.
        assert_eq!(oldest.lacks_for_ptx(ptx(3, 2)), Some(384));
        assert_eq!(oldest.lacks_for_ptx(ptx(8, 9)), Some(580));
    }

    #[test]
    fn the_branch_that_each_toolkit_needs() {
        let needs = |major| Driver::Branch(100).lacks_for_sass(CudaRelease { major, minor: 3 });
        assert_eq!([8, 9, 11, 12, 13, 14].map(needs), [None, Some(384), Some(450), Some(525), Some(580), Some(581)]);
        assert_eq!(Driver::Branch(525).lacks_for_sass(CudaRelease::new(12, 9)), None);
        assert_eq!(Driver::NewEnough.lacks_for_sass(CudaRelease::new(99, 0)), None);
    }

    #[test]
    fn zstandard_needs_cuda_12_4() {
        assert_eq!(Driver::Branch(549).lacks_for_compression(Compression::Zstd), Some(550));
        assert_eq!(Driver::Branch(550).lacks_for_compression(Compression::Zstd), None);
        assert_eq!(Driver::Branch(450).lacks_for_compression(Compression::Lz4), None);
        assert_eq!(Driver::newest_without(Compression::Zstd), Some(Driver::Branch(549)));
        assert_eq!(Driver::newest_without(Compression::Lz4), None);
    }

    #[test]
    fn texts() {
        assert_eq!("580".parse(), Ok(Driver::Branch(580)));
        assert_eq!("580.159.04".parse(), Ok(Driver::Branch(580)));
        for text in ["", "13.0", "580.", "x", "+580", "580.a", "99999999999"] {
            assert!(text.parse::<Driver>().is_err(), "{text}");
        }
        assert_eq!(Driver::Branch(581).description(), "581 (CUDA 13.0, PTX up to 9.0)");
        assert_eq!(Driver::Branch(300).description(), "300 (older than CUDA 9)");
        assert!(Driver::Branch(700).description().contains("newer than this program knows"));
    }
}
