//! `cargo xtask roundtrip`: every container under the installed CUDA and LLVM, taken apart and put together again.

use std::path::Path;

use crate::failure::Result;
use crate::repository::Repository;
use crate::step::step;
use crate::toolchain::Toolchain;

/// Prints how many of which kind there were.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = Toolchain::locate(repository)?;
    let counts = step("take every container apart and rebuild it", |progress| {
        let mut cargo = repository.cargo("test");
        cargo.args(["--release", "--locked", "--quiet", "--package=offload-bundle", "--test=roundtrip", "--"]);
        cargo.arg(toolchain.folder()).arg(Path::new("/usr/lib/llvm-22"));
        progress.run(&mut cargo)
    })?;
    print!("{counts}");
    Ok(())
}
