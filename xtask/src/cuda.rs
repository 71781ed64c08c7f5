//! NVIDIA's CUDA 13.0 and a newer nvFatbin, from PyPI wheels pinned by version and hash.

use std::path::Path;

use crate::failure::Result;
use crate::repository::{create_folder, files_in, name_of, replace_link};
use crate::toolchain::Toolchain;
use crate::wheels::Wheels;

/// The pinned wheels of CUDA, in the format of pip.
pub const PINS: &str = include_str!("../cuda-wheels.txt");

const CUDA: Wheels =
    Wheels { title: "CUDA 13.0", pins: PINS, folder: PYTHON, proof: "nvidia/cu13/bin/ptxas", platform: None };

/// The newer nvFatbin that tests compare libnvfatbin with.
pub const NVFATBIN: Wheels = Wheels {
    title: "nvFatbin 13.5",
    pins: include_str!("../nvfatbin-wheels.txt"),
    folder: "nvfatbin-13",
    proof: "nvidia/cu13/lib/libnvfatbin.so.13",
    platform: None,
};

/// What pip installs CUDA into.
const PYTHON: &str = "python";
/// The CUDA tree among what pip installs.
const TREE: &str = "nvidia/cu13";

/// Installs the pinned wheels, unless exactly these are installed.
pub fn install_wheels(toolchain: &Toolchain) -> Result<()> {
    CUDA.install(toolchain)?;
    replace_link(&format!("{PYTHON}/{TREE}"), &toolchain.cuda())?;
    complete_tree(&toolchain.cuda())
}

/// Whether the pinned wheels are completely installed.
pub fn is_installed(toolchain: &Toolchain) -> bool {
    toolchain.cuda().join("bin/ptxas").is_file() && CUDA.are_installed(toolchain)
}

/// Adds the links that NVIDIA's other packages have and the wheels lack: nvcc -dlto needs those of NVVM.
pub fn complete_tree(tree: &Path) -> Result<()> {
    create_folder(&tree.join("nvvm/lib64"))?;
    replace_link("../../lib/libnvvm.so.4", &tree.join("nvvm/lib64/libnvvm.so"))?;
    link_libraries(tree)
}

/// Adds the names of the libraries that compilers and CMake's FindCUDAToolkit look for.
pub fn link_libraries(tree: &Path) -> Result<()> {
    replace_link("lib", &tree.join("lib64"))?;
    let folder = tree.join("lib");
    let names = files_in(&folder)?.into_iter().map(|path| name_of(&path));
    names
        .filter_map(|name| Some((unversioned(&name)?, name)))
        .try_for_each(|(link, name)| replace_link(&name, &folder.join(link)))
}

/// The name by which the linker finds a shared library: `libcudart.so` of `libcudart.so.13`.
fn unversioned(name: &str) -> Option<String> {
    let (library, version) = name.split_once(".so.")?;
    version.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.').then(|| format!("{library}.so"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_libraries_have_a_name_without_version() {
        assert_eq!(unversioned("libcudart.so.13").as_deref(), Some("libcudart.so"));
        assert_eq!(unversioned("libcudart.so"), None);
        assert_eq!(unversioned("libcudart.so.partial"), None);
    }

    #[test]
    fn every_wheel_is_pinned_by_version_and_hash() {
        let joined = [CUDA, NVFATBIN].map(|wheels| wheels.pins.replace("\\\n", " ")).concat();
        let wheels: Vec<&str> = joined.lines().filter(|line| !line.starts_with('#')).collect();
        assert!(wheels.len() >= 11);
        for wheel in wheels {
            let (pin, hash) = wheel.split_once("--hash=sha256:").expect(wheel);
            assert!(pin.contains("=="), "{wheel}");
            assert_eq!(hash.trim().len(), 64, "{wheel}");
        }
    }
}
