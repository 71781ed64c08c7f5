//! `cargo xtask setup`: installs what is missing.

use crate::failure::Result;
use crate::repository::Repository;
use crate::toolchain::{LLVM, Toolchain};
use crate::{cuda, debian};

/// Installs, and says where everything is.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = install(repository)?;
    println!("LLVM 22 is in {LLVM}, CUDA 13.0 in {}", toolchain.cuda().display());
    Ok(())
}

/// The same for the commands that begin with it; without a word when nothing is missing.
pub fn install(repository: &Repository) -> Result<Toolchain> {
    let toolchain = Toolchain::locate(repository)?;
    debian::install_packages(!cuda::is_installed(&toolchain))?;
    cuda::install_wheels(&toolchain)?;
    Ok(toolchain)
}
