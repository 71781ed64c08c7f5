//! What drivers can load: the PTX versions, toolkits and compressions that each branch knows.

use std::fmt;
use std::str::FromStr;

use super::code::{Code, Word};
use crate::arch::PtxVersion;
use crate::fatbin::Compression;

/// The driver that is to load a fatbin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Driver {
    /// One that is new enough for all the PTX and machine code it gets.
    #[default]
    NewEnough,
    /// One of this release branch: 580 of 580.159.04.
    Branch(u32),
}

/// Whether the driver's compiler of PTX is used: what the environment of a program says of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Jit {
    /// PTX is compiled where no machine code fits.
    #[default]
    Allowed,
    /// `CUDA_FORCE_PTX_JIT=1`: machine code is ignored.
    Forced,
    /// `CUDA_DISABLE_PTX_JIT=1`: PTX is taken as ever, but is not compiled.
    Disabled,
}

impl Jit {
    /// Whether the driver looks at an entry.
    pub(super) fn takes(self, code: &Code) -> bool {
        self != Jit::Forced || code.word() != Word::Sass
    }
}

/// What loads a program's fatbins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Runtime {
    /// The driver.
    pub driver: Driver,
    /// What the environment says of its compiler.
    pub jit: Jit,
}

impl From<Driver> for Runtime {
    fn from(driver: Driver) -> Self {
        Runtime { driver, jit: Jit::Allowed }
    }
}

/// A CUDA toolkit's release.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Toolkit {
    /// 13 of 13.0.
    pub major: u32,
    /// 0 of 13.0.
    pub minor: u32,
}

/// A text that is no [`Driver`] or [`Toolkit`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ParseDriverError {
    /// Not a driver version.
    #[error("`{0}` is not a driver version such as 580 or 580.159.04")]
    Driver(String),
    /// Not a toolkit version.
    #[error("`{0}` is not a CUDA version such as 13.0")]
    Toolkit(String),
}

/// The CUDA release and the driver branch that came with it (release notes of the CUDA toolkits).
///
/// PTX needs that branch: minor version compatibility is for machine code only.
#[rustfmt::skip]
const BRANCHES: [((u32, u32), u32); 27] = [
    ((9, 0), 384), ((9, 1), 390), ((9, 2), 396),
    ((10, 0), 410), ((10, 1), 418), ((10, 2), 440),
    ((11, 0), 450), ((11, 1), 455), ((11, 2), 460), ((11, 3), 465), ((11, 4), 470), ((11, 5), 495), ((11, 6), 510),
    ((11, 7), 515), ((11, 8), 520),
    ((12, 0), 525), ((12, 1), 530), ((12, 2), 535), ((12, 3), 545), ((12, 4), 550), ((12, 5), 555), ((12, 6), 560),
    ((12, 7), 565),
    ((12, 8), 570), ((12, 9), 575),
    ((13, 0), 580), ((13, 1), 590),
];

/// The least driver branch for machine code of a toolkit of that major version.
const SASS_FLOORS: [(u32, u32); 5] = [(13, 580), (12, 525), (11, 450), (10, 410), (9, 384)];

/// The first branch that decompresses Zstandard: that of CUDA 12.4.
const ZSTD_FLOOR: u32 = 550;

impl Driver {
    /// Whether it is of `branch` or later.
    fn reaches(self, branch: u32) -> bool {
        match self {
            Driver::NewEnough => true,
            Driver::Branch(own) => own >= branch,
        }
    }

    /// The branch that is needed to compile that PTX, if this driver is older.
    pub fn lacks_for_ptx(self, version: PtxVersion) -> Option<u32> {
        let known = BRANCHES.iter().find(|((major, minor), _)| PtxVersion::of_cuda(*major, *minor) >= Some(version));
        let newest = BRANCHES.last().map_or(0, |row| row.1);
        // PTX newer than the table needs a branch newer than the table.
        let needed = known.map_or(newest + 1, |row| row.1);
        (!self.reaches(needed)).then_some(needed)
    }

    /// The branch that is needed to load machine code of that toolkit, if this driver is older.
    pub fn lacks_for_sass(self, toolkit: Toolkit) -> Option<u32> {
        let newest = SASS_FLOORS.first().map_or((0, 0), |row| *row);
        let needed = match SASS_FLOORS.iter().find(|row| row.0 <= toolkit.major) {
            Some(row) if row.0 == toolkit.major => row.1,
            // A major version after the table's needs a branch after the table's.
            Some(_) if toolkit.major > newest.0 => newest.1 + 1,
            _ => 0,
        };
        (!self.reaches(needed)).then_some(needed)
    }

    /// The branch that is needed to decompress that, if this driver is older.
    pub fn lacks_for_compression(self, compression: Compression) -> Option<u32> {
        (compression == Compression::Zstd && !self.reaches(ZSTD_FLOOR)).then_some(ZSTD_FLOOR)
    }

    /// What can be said of it to a reader: `580 (CUDA 13.0, PTX up to 9.0)`.
    pub fn description(self) -> String {
        let Driver::Branch(own) = self else {
            return "not given, assumed to be new enough for everything here".to_owned();
        };
        let row = BRANCHES.iter().rev().find(|row| row.1 <= own);
        let newest = BRANCHES.last().is_some_and(|row| own > row.1);
        match row.and_then(|((major, minor), _)| Some((major, minor, PtxVersion::of_cuda(*major, *minor)?))) {
            Some(_) if newest => format!("{own} (newer than this program knows, assumed to compile any PTX)"),
            Some((major, minor, ptx)) => format!("{own} (CUDA {major}.{minor}, PTX up to {ptx})"),
            None => format!("{own} (older than CUDA 9)"),
        }
    }
}

impl FromStr for Driver {
    type Err = ParseDriverError;

    /// Reads `580` and `580.159.04`.
    fn from_str(text: &str) -> Result<Self, ParseDriverError> {
        let mut parts = text.split('.').map(number);
        let branch = parts.next().flatten();
        // A CUDA version in its place (13.0) would silently mean a driver that runs nothing.
        match branch.filter(|branch| *branch >= 100) {
            Some(branch) if parts.all(|part| part.is_some()) => Ok(Driver::Branch(branch)),
            _ => Err(ParseDriverError::Driver(text.to_owned())),
        }
    }
}

impl FromStr for Toolkit {
    type Err = ParseDriverError;

    /// Reads `13`, `13.0` and `13.0.88`.
    fn from_str(text: &str) -> Result<Self, ParseDriverError> {
        let parts: Option<Vec<u32>> = text.split('.').map(number).collect();
        match parts.as_deref() {
            Some([major, rest @ ..]) if (1..100).contains(major) => {
                Ok(Toolkit { major: *major, minor: rest.first().copied().unwrap_or(0) })
            }
            _ => Err(ParseDriverError::Toolkit(text.to_owned())),
        }
    }
}

impl Toolkit {
    /// The driver that came with it; `None` for a toolkit before 9.0 or after the newest known.
    pub fn driver(self) -> Option<Driver> {
        let row = BRANCHES.iter().find(|((major, minor), _)| (*major, *minor) == (self.major, self.minor));
        row.map(|row| Driver::Branch(row.1))
    }
}

impl fmt::Display for Toolkit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
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
        for ((major, minor), branch) in rows.into_iter().chain([((9, 0), 580), ((9, 1), 590), ((9, 2), 591)]) {
            assert_eq!(oldest.lacks_for_ptx(ptx(major, minor)), Some(branch), "{major}.{minor}");
            assert_eq!(Driver::Branch(branch).lacks_for_ptx(ptx(major, minor)), None);
            assert_eq!(Driver::Branch(branch - 1).lacks_for_ptx(ptx(major, minor)), Some(branch));
            assert_eq!(Driver::NewEnough.lacks_for_ptx(ptx(major, minor)), None);
        }
        // What was before the first row of the table, and what is between two.
        assert_eq!(oldest.lacks_for_ptx(ptx(3, 2)), Some(384));
        assert_eq!(oldest.lacks_for_ptx(ptx(8, 9)), Some(580));
    }

    #[test]
    fn the_branch_that_each_toolkit_needs() {
        let needs = |major| Driver::Branch(100).lacks_for_sass(Toolkit { major, minor: 3 });
        assert_eq!([8, 9, 11, 12, 13, 14].map(needs), [None, Some(384), Some(450), Some(525), Some(580), Some(581)]);
        assert_eq!(Driver::Branch(525).lacks_for_sass(Toolkit { major: 12, minor: 9 }), None);
        assert_eq!(Driver::NewEnough.lacks_for_sass(Toolkit { major: 99, minor: 0 }), None);
    }

    #[test]
    fn zstandard_needs_cuda_12_4() {
        assert_eq!(Driver::Branch(549).lacks_for_compression(Compression::Zstd), Some(550));
        assert_eq!(Driver::Branch(550).lacks_for_compression(Compression::Zstd), None);
        assert_eq!(Driver::Branch(450).lacks_for_compression(Compression::Lz4), None);
    }

    #[test]
    fn texts() {
        assert_eq!("580".parse(), Ok(Driver::Branch(580)));
        assert_eq!("580.159.04".parse(), Ok(Driver::Branch(580)));
        for text in ["", "13.0", "580.", "x", "+580", "580.a", "99999999999"] {
            assert!(text.parse::<Driver>().is_err(), "{text}");
        }
        assert_eq!("13.0.88".parse(), Ok(Toolkit { major: 13, minor: 0 }));
        assert_eq!("12".parse(), Ok(Toolkit { major: 12, minor: 0 }));
        for text in ["", "580", "0", "12.", "12.x"] {
            assert!(text.parse::<Toolkit>().is_err(), "{text}");
        }
        assert_eq!(Driver::Branch(581).description(), "581 (CUDA 13.0, PTX up to 9.0)");
        assert_eq!(Driver::Branch(300).description(), "300 (older than CUDA 9)");
        assert!(Driver::Branch(700).description().contains("newer than this program knows"));
    }
}
