//! The releases of CUDA that fatlink is tried with: 13.0, which everything else uses, and those that stand beside it.

use std::path::{Path, PathBuf};

use clap::ValueEnum;

use crate::cuda;
use crate::failure::Result;
use crate::repository::{create_folder, files_in, name_of, replace_link};
use crate::toolchain::Toolchain;
use crate::wheels::Wheels;

/// A release of CUDA that PyPI has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum CudaRelease {
    /// Without nvcc and nvlink, which have no wheels.
    #[value(name = "12.9")]
    Cuda129,
    /// The one that the project is developed with.
    #[default]
    #[value(name = "13.0")]
    Cuda130,
    /// The newest one.
    #[value(name = "13.5")]
    Cuda135,
}

const CUDA_12_9: Wheels = Wheels {
    title: "CUDA 12.9",
    pins: include_str!("../cuda-12.9-wheels.txt"),
    folder: "python-12.9",
    proof: "nvidia/cuda_nvcc/bin/ptxas",
    platform: None,
};

const CUDA_13_5: Wheels = Wheels {
    title: "CUDA 13.5",
    pins: include_str!("../cuda-13.5-wheels.txt"),
    folder: "python-13.5",
    proof: "nvidia/cu13/bin/ptxas",
    platform: None,
};

impl CudaRelease {
    /// All, the oldest first.
    pub const ALL: [Self; 3] = [Self::Cuda129, Self::Cuda130, Self::Cuda135];

    /// `13.5`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cuda129 => "12.9",
            Self::Cuda130 => "13.0",
            Self::Cuda135 => "13.5",
        }
    }

    /// Whether it has nvcc.
    pub fn has_nvcc(self) -> bool {
        self != Self::Cuda129
    }

    /// Its tree, as clang's `--cuda-path` takes it.
    pub fn tree(self, toolchain: &Toolchain) -> PathBuf {
        match self {
            Self::Cuda130 => toolchain.cuda(),
            _ => toolchain.folder().join(format!("cuda-{}", self.name())),
        }
    }

    /// Installs it, unless it is installed.
    pub fn install(self, toolchain: &Toolchain) -> Result<()> {
        let tree = self.tree(toolchain);
        match self {
            Self::Cuda129 => {
                CUDA_12_9.install(toolchain)?;
                merge(&CUDA_12_9.place(toolchain).join("nvidia"), &tree)
            }
            Self::Cuda130 => cuda::install_wheels(toolchain),
            Self::Cuda135 => {
                CUDA_13_5.install(toolchain)?;
                replace_link(&format!("{}/nvidia/cu13", CUDA_13_5.folder), &tree)?;
                cuda::complete_tree(&tree)
            }
        }
    }
}

/// The folders of a tree.
const PARTS: [&str; 4] = ["bin", "include", "lib", "nvvm"];

/// Makes one tree of the wheels of CUDA 12, each of which has a folder of its own.
fn merge(wheels: &Path, tree: &Path) -> Result<()> {
    for wheel in files_in(wheels)?.into_iter().filter(|path| path.is_dir()) {
        for part in PARTS.map(|part| wheel.join(part)).into_iter().filter(|part| part.is_dir()) {
            let folder = tree.join(name_of(&part));
            create_folder(&folder)?;
            for file in files_in(&part)? {
                let name = name_of(&file);
                if !name.starts_with("__") {
                    replace_link(&file.to_string_lossy(), &folder.join(name))?;
                }
            }
        }
    }
    cuda::link_libraries(tree)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_command_line() {
        for release in CudaRelease::ALL {
            assert_eq!(CudaRelease::from_str(release.name(), false), Ok(release));
        }
    }

    #[test]
    fn wheels_become_one_tree() {
        let temporary = tempfile::tempdir().unwrap();
        let (wheels, tree) = (temporary.path().join("nvidia"), temporary.path().join("cuda"));
        for file in
            ["one/bin/ptxas", "one/include/a.h", "two/include/b.h", "two/lib/libtwo.so.12", "two/lib/__init__.py"]
        {
            let file = wheels.join(file);
            create_folder(file.parent().unwrap()).unwrap();
            std::fs::write(&file, name_of(&file)).unwrap();
        }
        // A second time, nothing changes.
        for _ in 0..2 {
            merge(&wheels, &tree).unwrap();
            let content = |file: &str| std::fs::read_to_string(tree.join(file)).ok();
            for file in ["bin/ptxas", "include/a.h", "include/b.h", "lib/libtwo.so.12"] {
                assert_eq!(content(file), Some(name_of(Path::new(file))));
            }
            assert_eq!(content("lib64/libtwo.so").as_deref(), Some("libtwo.so.12"));
            assert_eq!(content("lib/__init__.py"), None);
        }
    }
}
