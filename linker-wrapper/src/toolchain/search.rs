//! Finds a toolkit: in folders that the user names, on `PATH`, in the usual folder of an installation, in Python packages.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use crate::cli::environment::DeviceEnvironment;
use crate::cli::host_triple::NATIVE;
use crate::cli::values::Part;
use crate::diag::error::Errors;
use crate::sys::process;
use crate::toolchain::error::Error;
use crate::toolchain::versions;

/// The folders of a toolkit's libraries, below its root.
const LIBRARY_FOLDERS: [&str; 4] = ["lib64", "lib", NATIVE.cuda_folders[0], NATIVE.cuda_folders[1]];
/// Folders of the driver's library, in addition to the dynamic linker's own.
const DRIVER_FOLDERS: [&str; 6] = [
    NATIVE.library_folders[2],
    NATIVE.library_folders[1],
    "/usr/lib64",
    "/usr/local/nvidia/lib64",
    "/usr/lib/wsl/lib",
    "/usr/lib",
];
/// The folder of complete toolkits.
const INSTALLATIONS: &str = "/usr/local";

/// A part that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// Its path.
    pub path: PathBuf,
    /// What named it: "--cuda-path", "PATH".
    pub how: &'static str,
}

/// A toolkit: a folder with some or all of the parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tree {
    /// The folder.
    pub root: PathBuf,
    /// What named it.
    pub how: &'static str,
    /// The user named it, so no other place is searched.
    pub named: bool,
    /// The path of ptxas, where it is not at its place in the folder (a link on PATH).
    ptxas: Option<PathBuf>,
}

impl Tree {
    fn new(root: &Path, how: &'static str) -> Self {
        Tree { root: root.to_owned(), how, named: false, ptxas: None }
    }

    fn named(root: &Path, how: &'static str) -> Self {
        Tree { named: true, ..Tree::new(root, how) }
    }

    /// Finds a part in this tree.
    pub fn part(&self, part: Part) -> Option<Found> {
        let path = match part {
            Part::Ptxas if self.ptxas.is_some() => self.ptxas.clone(),
            Part::Ptxas | Part::Nvlink => {
                let file = part.name();
                ["bin", "cuda_nvcc/bin"]
                    .map(|folder| self.root.join(folder).join(file))
                    .into_iter()
                    .find(|path| process::is_program(path))
            }
            Part::Libdevice => ["nvvm/libdevice", "cuda_nvcc/nvvm/libdevice", "libdevice"]
                .map(|folder| self.root.join(folder).join("libdevice.10.bc"))
                .into_iter()
                .find(|path| path.is_file()),
            Part::Cudadevrt => {
                self.libraries("cuda_runtime").map(|folder| folder.join("libcudadevrt.a")).find(|path| path.is_file())
            }
            Part::NvJitLink => self.libraries("nvjitlink").find_map(|folder| library_in(&folder)),
            Part::Driver | Part::Lld => None,
        };
        path.map(|path| Found { path, how: self.how })
    }

    /// The folders of libraries: the tree's own, and those of the Python package `package` below or beside it.
    pub fn libraries(&self, package: &str) -> impl Iterator<Item = PathBuf> {
        let own = LIBRARY_FOLDERS.map(|folder| self.root.join(folder));
        let below = self.root.join(package).join("lib");
        let is_package = self.root.parent().and_then(Path::file_name) == Some(OsStr::new("nvidia"));
        let beside = is_package.then(|| self.root.with_file_name(package).join("lib"));
        own.into_iter().chain([below]).chain(beside)
    }

    /// The error for a toolkit without ptxas.
    pub fn without_ptxas(&self) -> Errors {
        if self.named {
            return Error::NoPtxasInNamedToolkit { root: self.root.clone(), how: self.how }.into();
        }
        Error::NoPtxasInToolkit { root: self.root.clone(), how: self.how }.into()
    }
}

/// Finds the toolkit of the link.
///
/// # Errors
/// There is no toolkit.
pub fn toolkit(
    option: Option<&Path>,
    named_ptxas: Option<&Path>,
    environment: &DeviceEnvironment,
) -> Result<Tree, Errors> {
    if let Some(root) = option {
        return Ok(Tree::named(root, "--cuda-path"));
    }
    if let Some((variable, root)) = &environment.toolkit {
        return Ok(Tree::named(root, variable));
    }
    let beside = named_ptxas.and_then(|ptxas| around(ptxas, "beside --ptxas-path"));
    let first = beside.or_else(on_path).or_else(|| installations().into_iter().next());
    first
        .or_else(|| python_trees(environment).into_iter().find(|tree| tree.part(Part::Ptxas).is_some()))
        .ok_or_else(|| Error::NoToolkit.into())
}

fn on_path() -> Option<Tree> {
    around(&process::find_program(OsStr::new("ptxas"), &|_| true)?, "PATH")
}

/// The tree of a ptxas. Distributions link /usr/bin/ptxas into the toolkit, where libdevice is.
fn around(ptxas: &Path, how: &'static str) -> Option<Tree> {
    let real = ptxas.canonicalize().ok()?;
    let tree = Tree::new(real.parent()?.parent()?, how);
    Some(Tree { ptxas: Some(ptxas.to_owned()), ..tree })
}

/// Complete toolkits under /usr/local: `cuda`, the administrator's choice, then `cuda-X.Y`, newest first.
pub fn installations() -> Vec<Tree> {
    let mut versions: Vec<(Vec<u32>, PathBuf)> = folders(Path::new(INSTALLATIONS))
        .into_iter()
        .filter_map(|folder| {
            let name = folder.file_name()?.to_str()?.strip_prefix("cuda-")?;
            let numbers = name.split('.').map(str::parse).collect::<Result<Vec<u32>, _>>().ok()?;
            Some((numbers, folder.clone()))
        })
        .collect();
    versions.sort();
    let chosen = [(Vec::new(), Path::new(INSTALLATIONS).join("cuda"))];
    let mut found: Vec<Tree> = Vec::new();
    let mut real: Vec<PathBuf> = Vec::new();
    for (_, root) in chosen.into_iter().chain(versions.into_iter().rev()) {
        let tree = Tree::new(&root, INSTALLATIONS);
        // /usr/local/cuda and /usr/local/cuda-13 are usually links to one of the others.
        let Some(place) = root.canonicalize().ok().filter(|place| !real.contains(place)) else { continue };
        if tree.part(Part::Ptxas).is_some() {
            real.push(place);
            found.push(tree);
        }
    }
    found
}

/// CUDA's Python packages: `nvidia/cu13` (one tree), and `nvidia` itself, in which the packages of CUDA 12 have a folder for
/// each part. The newest of a folder comes first.
pub fn python_trees(environment: &DeviceEnvironment) -> Vec<Tree> {
    site_packages(environment).iter().flat_map(|site| trees_of(site)).collect()
}

fn trees_of(site: &Path) -> Vec<Tree> {
    let nvidia = site.join("nvidia");
    let mut whole: Vec<(u32, PathBuf)> = folders(&nvidia)
        .into_iter()
        .filter_map(|folder| Some((folder.file_name()?.to_str()?.strip_prefix("cu")?.parse().ok()?, folder.clone())))
        .collect();
    whole.sort();
    let split = ["cuda_nvcc", "nvjitlink"].iter().any(|package| nvidia.join(package).is_dir()).then_some(nvidia);
    let roots = whole.into_iter().rev().map(|(_, root)| root).chain(split);
    roots.map(|root| Tree::new(&root, "Python package")).collect()
}

/// The folders in which Python looks for packages. Running Python to find out would take longer than a link.
fn site_packages(environment: &DeviceEnvironment) -> Vec<PathBuf> {
    let mut prefixes = environment.python_prefixes.clone();
    // A virtual environment in whose `bin` this program is works without being activated.
    let own = std::env::current_exe().ok();
    prefixes.extend(own.and_then(|path| Some(path.parent()?.parent()?.to_owned())));
    if let Some(python) = process::find_program(OsStr::new("python3"), &|_| true) {
        // The program of a virtual environment is a link: its own folder counts, then that of the real program.
        let real = python.canonicalize().ok();
        let places = [Some(python), real].into_iter().flatten();
        prefixes.extend(places.filter_map(|place| Some(place.parent()?.parent()?.to_owned())));
    }
    prefixes.extend(environment.home.iter().map(|home| home.join(".local")));
    prefixes.extend(["/usr/local", "/usr"].map(PathBuf::from));
    let mut found: Vec<PathBuf> = Vec::new();
    for prefix in prefixes {
        let mut versions: Vec<PathBuf> = folders(&prefix.join("lib"))
            .into_iter()
            .filter(|folder| folder.file_name().is_some_and(|name| name.to_string_lossy().starts_with("python3")))
            .collect();
        versions.sort();
        let places =
            versions.iter().rev().flat_map(|folder| ["site-packages", "dist-packages"].map(|name| folder.join(name)));
        for place in places.filter(|place| place.is_dir()) {
            if !found.contains(&place) {
                found.push(place);
            }
        }
    }
    found
}

/// Finds the library if no toolkit is named: in other toolkits, in Python's packages, in the dynamic linker's folders.
pub fn nvjitlink(environment: &DeviceEnvironment) -> Option<Found> {
    let trees = installations().into_iter().chain(python_trees(environment));
    trees.filter_map(|tree| tree.part(Part::NvJitLink)).next().or_else(|| {
        loader_folders(environment)
            .into_iter()
            .find_map(|(folder, how)| Some(Found { path: library_in(&folder)?, how }))
    })
}

/// Finds `libcuda.so.1` as the dynamic linker would.
///
/// # Errors
/// It is in none of these folders.
pub fn driver(environment: &DeviceEnvironment) -> Result<Found, Errors> {
    let folders = loader_folders(environment).into_iter();
    let mut found = folders.map(|(folder, how)| Found { path: folder.join("libcuda.so.1"), how });
    found.find(|found| found.path.is_file()).ok_or_else(|| Error::NoDriver.into())
}

/// `LD_LIBRARY_PATH`, then the system's folders.
fn loader_folders(environment: &DeviceEnvironment) -> Vec<(PathBuf, &'static str)> {
    let named = environment.loader_paths.iter().filter(|folder| !folder.as_os_str().is_empty());
    let named = named.map(|folder| (folder.clone(), "LD_LIBRARY_PATH"));
    named.chain(DRIVER_FOLDERS.map(|folder| (PathBuf::from(folder), "system library"))).collect()
}

/// The newest libnvJitLink in a folder.
fn library_in(folder: &Path) -> Option<PathBuf> {
    let entries = std::fs::read_dir(folder).ok()?.flatten().map(|entry| entry.path());
    let is_library = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libnvJitLink.so")) && path.is_file()
    };
    let mut libraries: Vec<PathBuf> = entries.filter(is_library).collect();
    libraries.sort();
    if libraries.len() > 1 {
        libraries.sort_by_key(|path| versions::of_nvjitlink(path));
    }
    libraries.pop()
}

fn folders(of: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(of).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(path: &Path) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
    }

    #[test]
    fn python_packages_of_both_layouts() {
        let site = tempfile::tempdir().unwrap();
        let file = |name: &str| site.path().join("nvidia").join(name);
        for name in [
            "cu13/lib/libnvJitLink.so.13",
            "cu13/nvvm/libdevice/libdevice.10.bc",
            "cu9/lib/libnvJitLink.so.9",
            "nvjitlink/lib/libnvJitLink.so.12",
            "cuda_nvcc/nvvm/libdevice/libdevice.10.bc",
            "cuda_runtime/lib/libcudadevrt.a",
        ] {
            touch(&file(name));
        }
        let trees = trees_of(site.path());
        let roots: Vec<_> = trees.iter().map(|tree| tree.root.clone()).collect();
        assert_eq!(roots, [file("cu13"), file("cu9"), site.path().join("nvidia")]);
        let part = |tree: usize, part| trees[tree].part(part).map(|found| found.path);
        assert_eq!(part(0, Part::NvJitLink), Some(file("cu13/lib/libnvJitLink.so.13")));
        assert_eq!(part(2, Part::NvJitLink), Some(file("nvjitlink/lib/libnvJitLink.so.12")));
        assert_eq!(part(2, Part::Libdevice), Some(file("cuda_nvcc/nvvm/libdevice/libdevice.10.bc")));
        assert_eq!(part(2, Part::Cudadevrt), Some(file("cuda_runtime/lib/libcudadevrt.a")));
        // Named by the folder of one package, the others are found beside it.
        let one = Tree::named(&file("cuda_nvcc"), "--cuda-path");
        assert_eq!(one.part(Part::NvJitLink).map(|found| found.path), Some(file("nvjitlink/lib/libnvJitLink.so.12")));
        assert_eq!(one.part(Part::Ptxas), None);
    }
}
