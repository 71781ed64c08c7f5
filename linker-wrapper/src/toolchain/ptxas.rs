//! The release of ptxas, and the PTX version to emit for a tool.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use llvm_passes::pipeline::NEWEST_PTX;
use offload_bundle::arch::{CudaRelease, GpuArch, PtxVersion};

use crate::diag::error::Errors;
use crate::sys::cache::Cache;
use crate::sys::process;
use crate::toolchain::cached_versions::CachedVersion;
use crate::toolchain::error::Error;

/// A ptxas with its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Release of CUDA it belongs to: (13, 0).
    pub release: CudaRelease,
    /// Its whole output for `--version`.
    pub version: String,
}

/// Runs `ptxas --version`, unless its output is in the cache.
///
/// # Errors
/// It cannot be run, or does not report a release.
pub fn probe(path: &Path, folder: Option<&Cache>) -> Result<Ptxas, Errors> {
    let ptxas = |release, version: String| Ptxas { path: path.to_owned(), release, version };
    let cached = CachedVersion::of(path, folder);
    if let Some(version) = cached.as_ref().and_then(CachedVersion::text)
        && let Some(release) = release_in(&version)
    {
        return Ok(ptxas(release, version));
    }
    let output = process::capture(path, &[OsString::from("--version")])
        .map_err(|source| Error::Start { program: path.to_owned(), source })?;
    let version = String::from_utf8_lossy(&output.stdout).into_owned();
    let release =
        release_in(&version).ok_or_else(|| Error::NoRelease { program: path.to_owned(), status: output.status })?;
    cached.iter().for_each(|cached| cached.keep(path, &version));
    Ok(ptxas(release, version))
}

/// The output of a tool for `--version`; `None`: it fails.
pub fn version_text(path: &Path) -> Option<String> {
    let output = process::capture(path, &[OsString::from("--version")]).ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// "Cuda compilation tools, release 13.0, V13.0.88" -> (13, 0).
fn release_in(text: &str) -> Option<CudaRelease> {
    let release = text.split("release ").nth(1)?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some(CudaRelease { major: numbers.next()?.ok()?, minor: numbers.next()?.ok()? })
}

/// The PTX version to emit for `arch`: the newest that both LLVM and the tool of this CUDA release support. A release that is
/// newer than the table supports all versions that LLVM emits.
///
/// # Errors
/// The target is too new for the tool or for this LLVM.
pub fn ptx_version(arch: GpuArch, tool: &Path, release: CudaRelease) -> Result<PtxVersion, Errors> {
    let spoken = PtxVersion::of_cuda(release).unwrap_or(NEWEST_PTX).min(NEWEST_PTX);
    let needed = arch.min_ptx();
    if needed > spoken {
        return Err(Error::TargetTooNew { arch, needed, spoken, tool: tool.to_owned(), release }.into());
    }
    Ok(spoken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_are_read() {
        let text = "Cuda compilation tools, release 12.9, V12.9.86\nBuild cuda_12.9";
        assert_eq!(release_in(text), Some(CudaRelease::new(12, 9)));
        assert_eq!(release_in("GNU ld 2.40"), None);
    }

    #[test]
    fn the_ptx_version_is_the_newest_that_both_speak() {
        let version = |release, arch: &str| ptx_version(arch.parse().unwrap(), Path::new("ptxas"), release);
        for (release, arch, expected) in [
            (CudaRelease::new(13, 0), "sm_90", Some("9.0")),
            (CudaRelease::new(12, 4), "sm_90a", Some("8.4")),
            (CudaRelease::new(99, 0), "sm_90", Some("9.0")),
            (CudaRelease::new(11, 4), "sm_90", None),
            (CudaRelease::new(12, 4), "sm_120", None),
        ] {
            assert_eq!(
                version(release, arch).ok().map(|ptx| ptx.to_string()).as_deref(),
                expected,
                "{release:?} {arch}"
            );
        }
    }
}
