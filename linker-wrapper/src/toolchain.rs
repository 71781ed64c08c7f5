//! The CUDA toolkit: where its programs are, and what they speak.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use llvm_passes::pipeline::NEWEST_PTX;
use offload_bundle::arch::{GpuArch, PtxVersion};

use crate::command;
use crate::error::Errors;

/// A toolkit that was found.
#[derive(Debug, Clone)]
pub struct Toolkit {
    root: PathBuf,
    ptxas: PathBuf,
}

/// A ptxas and its version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ptxas {
    /// The program.
    pub path: PathBuf,
    /// Release of CUDA it belongs to: (13, 0).
    pub release: (u32, u32),
}

impl Toolkit {
    /// Looks in this order: `--cuda-path`, `CUDA_PATH`, `CUDA_HOME`, `ptxas` on `PATH`, `/usr/local/cuda`.
    /// A place that was named and has no ptxas is an error, not a reason to look further.
    ///
    /// # Errors
    /// None found, or the named one is none; says where it looked.
    pub fn find(option: Option<&Path>) -> Result<Self, Errors> {
        if let Some(root) = option {
            return Self::at(root).ok_or_else(|| no_ptxas_in("--cuda-path", root));
        }
        for variable in ["CUDA_PATH", "CUDA_HOME"] {
            if let Some(root) = std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from) {
                return Self::at(&root).ok_or_else(|| no_ptxas_in(variable, &root));
            }
        }
        let on_path = command::find_program(OsStr::new("ptxas"), &|_| true).and_then(|ptxas| {
            // A distribution links /usr/bin/ptxas into the toolkit: libdevice is beside the real one.
            let real = ptxas.canonicalize().ok()?;
            Some(Toolkit { root: real.parent()?.parent()?.to_owned(), ptxas })
        });
        on_path.or_else(|| Self::at(Path::new("/usr/local/cuda"))).ok_or_else(|| {
            Errors::one(
                "ptxas not found: looked at --cuda-path, CUDA_PATH, CUDA_HOME, PATH and /usr/local/cuda; \
                 install the CUDA toolkit or name it with --cuda-path=<dir>",
            )
        })
    }

    fn at(root: &Path) -> Option<Self> {
        let ptxas = root.join("bin/ptxas");
        command::is_program(&ptxas).then(|| Toolkit { root: root.to_owned(), ptxas })
    }

    /// The folder of the toolkit.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// ptxas.
    pub fn ptxas(&self) -> &Path {
        &self.ptxas
    }

    /// nvlink, beside ptxas.
    ///
    /// # Errors
    /// There is none.
    pub fn nvlink(&self) -> Result<PathBuf, Errors> {
        let path = self.ptxas.with_file_name("nvlink");
        if command::is_program(&path) {
            return Ok(path);
        }
        Err(Errors::one(format_args!(
            "nvlink not found beside {}: it joins relocatable cubins; install the whole CUDA toolkit, \
             or compile all files with -foffload-lto, which needs no nvlink",
            self.ptxas.display()
        )))
    }

    /// libdevice's bitcode.
    pub fn libdevice(&self) -> PathBuf {
        self.root.join("nvvm/libdevice/libdevice.10.bc")
    }

    /// Asks ptxas for its version.
    ///
    /// # Errors
    /// It does not run or does not say.
    pub fn probe_ptxas(&self) -> Result<Ptxas, Errors> {
        let output = command::capture(&self.ptxas, &[OsString::from("--version")])
            .map_err(|error| Errors::one(format_args!("cannot run {}: {error}", self.ptxas.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        release_in(&text).map(|release| Ptxas { path: self.ptxas.clone(), release }).ok_or_else(|| {
            Errors::one(format_args!(
                "{} --version does not name a CUDA release ({}): is it NVIDIA's ptxas?",
                self.ptxas.display(),
                command::ending(output.status)
            ))
        })
    }
}

fn no_ptxas_in(named_by: &str, root: &Path) -> Errors {
    Errors::one(format_args!(
        "no bin/ptxas in {}, which {named_by} names as the CUDA toolkit; name the folder of a toolkit that has one",
        root.display()
    ))
}

/// "Cuda compilation tools, release 13.0, V13.0.88" -> (13, 0).
fn release_in(text: &str) -> Option<(u32, u32)> {
    let release = text.split("release ").nth(1)?;
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(str::parse);
    Some((numbers.next()?.ok()?, numbers.next()?.ok()?))
}

impl Ptxas {
    /// The PTX version to write for `arch`: the newest that both LLVM and this ptxas speak. A release
    /// newer than our table speaks all that LLVM writes.
    ///
    /// # Errors
    /// The target is too new for this ptxas, or for this LLVM.
    pub fn ptx_version(&self, arch: GpuArch) -> Result<PtxVersion, Errors> {
        let (major, minor) = self.release;
        let spoken = PtxVersion::of_cuda(major, minor).unwrap_or(NEWEST_PTX).min(NEWEST_PTX);
        let needed = arch.min_ptx();
        if needed > spoken {
            let (path, newest) = (self.path.display(), NEWEST_PTX);
            let cuda = needed.cuda_release().map_or_else(String::new, |(a, b)| format!(" (CUDA {a}.{b})"));
            return Err(Errors::one(format_args!(
                "{arch} needs PTX {needed}{cuda}, but {path} of CUDA {major}.{minor} and this LLVM (PTX {newest}) \
                 reach only PTX {spoken}; name a newer toolkit with --cuda-path=<dir>"
            )));
        }
        Ok(spoken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ptxas(release: (u32, u32)) -> Ptxas {
        Ptxas { path: "ptxas".into(), release }
    }

    #[test]
    fn releases_are_read() {
        let text = "Cuda compilation tools, release 12.9, V12.9.86\nBuild cuda_12.9";
        assert_eq!(release_in(text), Some((12, 9)));
        assert_eq!(release_in("GNU ld 2.40"), None);
    }

    #[test]
    fn the_ptx_version_is_the_newest_that_both_speak() {
        let version = |release, arch: &str| ptxas(release).ptx_version(arch.parse().unwrap());
        for (release, arch, expected) in [
            ((13, 0), "sm_90", Some("9.0")),
            ((12, 4), "sm_90a", Some("8.4")),
            ((99, 0), "sm_90", Some("9.0")),
            ((11, 4), "sm_90", None),
            ((12, 4), "sm_120", None),
        ] {
            assert_eq!(
                version(release, arch).ok().map(|ptx| ptx.to_string()).as_deref(),
                expected,
                "{release:?} {arch}"
            );
        }
    }
}
