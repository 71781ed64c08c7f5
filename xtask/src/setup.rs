//! `cargo xtask setup`: installs what is missing.

use crate::cuda::NVFATBIN;
use crate::cuda_release::CudaRelease;
use crate::failure::Result;
use crate::llvm_release::LlvmRelease;
use crate::repository::Repository;
use crate::sarif::SARIF;
use crate::toolchain::{LLVM, Toolchain};
use crate::wheels::Wheels;
use crate::{cuda, debian, openmp_device, rocm, sysroot};

/// What only some tests need.
pub struct Others<'a> {
    /// OpenMP's runtime for GPUs.
    pub openmp_device: bool,
    /// hipcc and AMD's libraries.
    pub rocm: bool,
    /// An LLVM.
    pub llvm: LlvmRelease,
    /// Releases of CUDA.
    pub cuda: &'a [CudaRelease],
}

/// Installs, and prints where everything is.
pub fn run(repository: &Repository, others: &Others<'_>) -> Result<()> {
    let Others { openmp_device: with_openmp_device, rocm: with_rocm, llvm, cuda } = *others;
    let toolchain = install(repository)?;
    llvm.install(&toolchain)?;
    let (tree, sysroot) = (toolchain.cuda(), sysroot::X86_64.place(&toolchain));
    println!("LLVM 22 is in {LLVM}, CUDA 13.0 in {}, Debian 11's C library in {}", tree.display(), sysroot.display());
    for release in cuda.iter().filter(|release| **release != CudaRelease::default()) {
        release.install(&toolchain)?;
        println!("CUDA {} is in {}", release.name(), release.tree(&toolchain).display());
    }
    if llvm == LlvmRelease::Llvm23 {
        println!("LLVM 23 is in {}", LlvmRelease::place(&toolchain).display());
    }
    if with_rocm {
        rocm::install(&toolchain)?;
        println!("hipcc is {}", rocm::place(&toolchain).join("bin/hipcc").display());
    }
    if with_openmp_device {
        openmp_device::install(&toolchain)?;
        println!("OpenMP's device runtime is in {}", openmp_device::place(&toolchain).display());
    }
    Ok(())
}

/// Installs what is missing for the other commands; silent if nothing is.
pub fn install(repository: &Repository) -> Result<Toolchain> {
    install_with(repository, &[&NVFATBIN, &SARIF])
}

/// The same without what only tests compare with.
pub fn install_to_link(repository: &Repository) -> Result<Toolchain> {
    install_with(repository, &[])
}

fn install_with(repository: &Repository, wheels: &[&Wheels]) -> Result<Toolchain> {
    let toolchain = Toolchain::locate(repository)?;
    let needs_pip = !cuda::is_installed(&toolchain) || wheels.iter().any(|wheels| !wheels.are_installed(&toolchain));
    debian::install_packages(needs_pip)?;
    cuda::install_wheels(&toolchain)?;
    wheels.iter().try_for_each(|wheels| wheels.install(&toolchain))?;
    sysroot::X86_64.install(&toolchain)?;
    Ok(toolchain)
}
