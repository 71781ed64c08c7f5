//! `cargo xtask docs`: the pages of docs/ as a book in HTML, by mdbook.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::Repository;
use crate::step::{Progress, step};
use crate::toolchain::Toolchain;

/// The release of mdbook that is installed.
const VERSION: &str = "0.5.4";

/// Installs mdbook if it is missing, and builds the book into the target folder.
pub fn run(repository: &Repository) -> Result<()> {
    let toolchain = Toolchain::locate(repository)?;
    let mdbook = install(repository, &toolchain)?;
    let book = repository.target.join("book");
    step("build the book", |progress| build(progress, repository, &mdbook, &book))?;
    println!("  {}", book.join("index.html").display());
    Ok(())
}

fn build(progress: &Progress, repository: &Repository, mdbook: &Path, book: &Path) -> Result<()> {
    let mut command = Command::new(mdbook);
    command.args(["build", "docs", "--dest-dir"]).arg(book).current_dir(&repository.root);
    let output = progress.run(&mut command)?;
    if output.contains(" WARN ") {
        return Err(Failure { message: "mdbook warns".to_owned(), output });
    }
    Ok(())
}

/// The program, after its installation if another release or none is there.
fn install(repository: &Repository, toolchain: &Toolchain) -> Result<PathBuf> {
    let place = toolchain.folder().join("mdbook");
    let program = place.join("bin/mdbook");
    toolchain.install(
        &format!("mdbook {VERSION} with cargo"),
        &place,
        || is_current(&program),
        |progress, folder| {
            let mut cargo = repository.cargo("install");
            cargo.args(["mdbook", "--locked", "--no-default-features", "--version", VERSION, "--root"]).arg(folder);
            progress.run(&mut cargo).map(drop).map_err(|failure| failure.led_by("cannot install mdbook"))
        },
    )?;
    Ok(program)
}

fn is_current(program: &Path) -> bool {
    let output = Command::new(program).arg("--version").output();
    output.is_ok_and(|output| String::from_utf8_lossy(&output.stdout).trim() == format!("mdbook v{VERSION}"))
}
