//! The tools and libraries that options name one by one.

use std::path::{Path, PathBuf};

/// A part of CUDA, or a program of LLVM.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The assembler.
    Ptxas,
    /// The linker of cubins.
    Nvlink,
    /// The bitcode of CUDA's mathematical functions.
    Libdevice,
    /// NVIDIA's device runtime, `libcudadevrt.a`.
    Cudadevrt,
    /// `libnvJitLink.so`.
    NvJitLink,
    /// The driver, `libcuda.so.1`.
    Driver,
    /// LLVM's linker, `ld.lld`, which makes the code objects of AMD GPUs.
    Lld,
}

/// All parts, in the order in which they are shown.
pub const PARTS: [Part; 7] =
    [Part::Ptxas, Part::Nvlink, Part::Libdevice, Part::Cudadevrt, Part::NvJitLink, Part::Driver, Part::Lld];

impl Part {
    /// The name that messages use.
    pub fn name(self) -> &'static str {
        match self {
            Part::Ptxas => "ptxas",
            Part::Nvlink => "nvlink",
            Part::Libdevice => "libdevice",
            Part::Cudadevrt => "libcudadevrt",
            Part::NvJitLink => "nvJitLink",
            Part::Driver => "driver",
            Part::Lld => "ld.lld",
        }
    }

    /// The option that names the part's file.
    pub fn option(self) -> &'static str {
        match self {
            Part::Ptxas => "--ptxas-path=",
            Part::Nvlink => "--nvlink-path=",
            Part::Libdevice => "--libdevice-path=",
            Part::Cudadevrt => "--cudadevrt-path=",
            Part::NvJitLink => "--nvjitlink-path=",
            Part::Driver => "--libcuda-path=",
            Part::Lld => "--lld-path=",
        }
    }

    /// What a link needs the part for.
    pub fn purpose(self) -> &'static str {
        match self {
            Part::Ptxas => "it turns PTX into machine code (--offload-backend=ptxas)",
            Part::Nvlink => {
                "it joins relocatable cubins, and the partitions of large links, for --offload-backend=ptxas"
            }
            Part::Libdevice => "device code that calls CUDA's mathematical functions needs it",
            Part::Cudadevrt => "kernels that launch kernels need it",
            Part::NvJitLink => "--offload-backend=nvjitlink and NVIDIA's LTO-IR need it",
            Part::Driver => "--offload-backend=driver alone needs it",
            Part::Lld => "it links code objects for AMD GPUs",
        }
    }

    /// Whether the part is a program, which must be executable.
    pub fn is_program(self) -> bool {
        matches!(self, Part::Ptxas | Part::Nvlink | Part::Lld)
    }
}

/// The tools and libraries that options name one by one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NamedParts(Vec<(Part, PathBuf)>);

impl NamedParts {
    /// Names a part; the last name given counts.
    pub fn set(&mut self, part: Part, path: PathBuf) {
        self.0.retain(|(other, _)| *other != part);
        self.0.push((part, path));
    }

    /// The path given for a part.
    pub fn get(&self, part: Part) -> Option<&Path> {
        self.0.iter().find(|(other, _)| *other == part).map(|(_, path)| path.as_path())
    }

    /// All parts that were named, with their paths.
    pub fn iter(&self) -> impl Iterator<Item = (Part, &Path)> {
        self.0.iter().map(|(part, path)| (*part, path.as_path()))
    }
}
