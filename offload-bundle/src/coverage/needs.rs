//! Determines which drivers can load a fatbin.

use serde::Serialize;

use super::code::{Code, Content};
use super::driver::Driver;
use super::findings::FindingCode;

/// The reason why an entry needs a driver of some branch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct EntryNeed {
    /// Its number in the fatbin, from 1.
    pub entry: usize,
    /// The first branch that has what it needs.
    pub branch: u32,
    /// What it needs: `PTX 9.0`, `machine code of CUDA 13`, `zstd compression`.
    pub what: String,
}

/// The drivers that load all of a fatbin.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct DriverNeeds {
    /// The first branch for which no entry is too new; `None` if any driver since CUDA 9 will do.
    pub branch: Option<u32>,
    /// All known needs, in the order of the entries.
    pub entries: Vec<EntryNeed>,
    /// The entries that are parts of concatenations, which no driver is known to load.
    pub concatenated: Vec<usize>,
}

/// Returns what the entries of one fatbin need.
///
/// A fatbin may run with an older driver, if that chooses an entry that it supports: [`outcome`](super::outcome) predicts it for one GPU.
pub fn driver_needs(codes: &[Code]) -> DriverNeeds {
    let entries = too_new_for(codes, Driver::Branch(0));
    let concatenated = codes.iter().filter(|code| code.is_concatenated).map(|code| code.number).collect();
    DriverNeeds { branch: entries.iter().map(|need| need.branch).max(), entries, concatenated }
}

/// Returns the entries that are too new for a driver, with the branch that each needs.
///
/// ```
/// use offload_bundle::coverage::{Driver, inspect, too_new_for};
/// use offload_bundle::fatbin::{self, BuilderOptions, FatbinBuilder};
///
/// let mut builder = FatbinBuilder::new(BuilderOptions::default());
/// builder.add_ptx(offload_bundle::GpuArch::plain(90), &b".version 9.0\n.target sm_90\n"[..], "", "")?;
/// let fatbin = builder.finish()?;
/// let codes = inspect(&fatbin::read(&fatbin).expect("what was built"));
/// // The driver that came with CUDA 12.4.
/// assert_eq!(too_new_for(&codes, Driver::Branch(550))[0].what, "PTX 9.0");
/// # Ok::<(), fatbin::FatbinError>(())
/// ```
pub fn too_new_for(codes: &[Code], driver: Driver) -> Vec<EntryNeed> {
    let needs = |code: &Code| {
        let entry = code.number;
        let lacking = lacking(code, driver).into_iter();
        lacking.map(move |Lacking { branch, what, .. }| EntryNeed { entry, branch, what })
    };
    codes.iter().flat_map(needs).collect()
}

/// What a driver lacks to load an entry.
pub(super) struct Lacking {
    /// The finding that says so.
    pub code: FindingCode,
    /// The first branch that has it.
    pub branch: u32,
    /// What it is.
    pub what: String,
}

pub(super) fn lacking(code: &Code, driver: Driver) -> Vec<Lacking> {
    let (finding, branch, what) = match &code.content {
        Content::Ptx { version, .. } => {
            (FindingCode::PtxTooNew, driver.lacks_for_ptx(*version), format!("PTX {version}"))
        }
        Content::Sass { toolkit: Some(toolkit), .. } => {
            let what = format!("machine code of CUDA {}", toolkit.major);
            (FindingCode::SassTooNew, driver.lacks_for_sass(*toolkit), what)
        }
        _ => (FindingCode::UnknownKind, None, String::new()),
    };
    let for_content = branch.map(|branch| Lacking { code: finding, branch, what });
    let branch = driver.lacks_for_compression(code.compression).filter(|_| code.is_loadable());
    let what = || format!("{} compression", code.compression);
    let for_compression = branch.map(|branch| Lacking { code: FindingCode::CompressionTooNew, branch, what: what() });
    for_content.into_iter().chain(for_compression).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coverage::testing::{lto, ptx_of, sass, set};
    use crate::fatbin::Compression;

    #[test]
    fn the_newest_need_counts() {
        let mut codes = set([sass("90"), ptx_of("8.0", "80", "80"), lto("90")]);
        codes[1].compression = Compression::Zstd;
        let needs = driver_needs(&codes);
        let seen: Vec<_> = needs.entries.iter().map(|need| (need.entry, need.branch, need.what.as_str())).collect();
        assert_eq!(seen, [(1, 580, "machine code of CUDA 13"), (2, 525, "PTX 8.0"), (2, 550, "zstd compression")]);
        assert_eq!(needs.branch, Some(580));
        assert_eq!(too_new_for(&codes, Driver::Branch(560)).len(), 1);
        assert_eq!(too_new_for(&codes, Driver::NewEnough), []);
        assert_eq!(driver_needs(&[]), DriverNeeds::default());
    }
}
