//! `cargo xtask releases`: the tables of docs/reference/platforms.md of what fatlink links of each release of clang, and of CUDA.
//!
//! Every release compiles two units of each kind. They are linked with that release as the driver, and with clang 22, each time by
//! dist/, and the program runs: OpenMP's on the processor, those for GPUs with a runtime that records what is registered.

mod compilers;
mod cuda;
mod link;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder, read_text, write_file};
use crate::step::{Progress, noted_step, step};
use crate::toolchain::{Toolchain, fresh_folder};
use compilers::{COMPILERS, Compiler, Installed};
use link::{Kind, Outcome};

const PAGE: &str = "docs/reference/platforms.md";
/// What the table of CUDA's releases is called.
const CUDA: &str = "releases of CUDA";

/// Fills the tables, or with `check` compares them.
pub fn run(repository: &Repository, check: bool) -> Result<()> {
    let toolchain = Toolchain::locate(repository)?;
    let llvm = llvm_of(&repository.built_dist()?.join("bin/fatlink"))?;
    let trial = Trial::new(repository, &toolchain)?;
    let mut rows = Vec::new();
    for compiler in &COMPILERS {
        let installed = compiler.install(&toolchain)?;
        let title = format!("compile and link with clang {}", compiler.release);
        let cells =
            noted_step(&title, |progress| trial.row(progress, compiler, &installed), |row| table::summary(row))?;
        rows.push((compiler, cells));
    }
    let page = Path::new(PAGE);
    let text = read_text(page)?;
    let new = table::replace(&text, &table::with_llvm(llvm), &table::render(&rows))?;
    let new = table::replace(&new, CUDA, &cuda::table(repository, &toolchain)?)?;
    if new == text {
        return Ok(());
    }
    if check {
        return Err(Failure::new(format!("the tables of {PAGE} are other ones: run `cargo xtask releases`")));
    }
    write_file(page, new)
}

/// The LLVM that a fatlink was built with.
fn llvm_of(program: &Path) -> Result<u32> {
    let version =
        step("read the release of LLVM in fatlink", |progress| progress.run(Command::new(program).arg("--version")))?;
    let number = version.split("LLVM ").nth(1).and_then(|rest| rest.split('.').next());
    number.and_then(|number| number.parse().ok()).ok_or_else(|| Failure::new(format!("no LLVM in {version}")))
}

/// Where the units are compiled and linked, and by what.
struct Trial {
    sources: PathBuf,
    folder: PathBuf,
    dist: PathBuf,
    cuda: PathBuf,
    /// What links the objects of all releases.
    driver: Installed,
    /// Debian's libomptarget of the former layout of entries.
    former_openmp: Installed,
}

impl Trial {
    fn new(repository: &Repository, toolchain: &Toolchain) -> Result<Self> {
        let of = |release| COMPILERS.iter().find(|one| one.release == release).expect("a row of the table");
        let folder = repository.target.join("releases");
        fresh_folder(&folder)?;
        Ok(Trial {
            sources: std::path::absolute("lit-tests")
                .map_err(|error| Failure::file("find", Path::new("lit-tests"), &error))?,
            folder,
            dist: repository.dist().join("bin"),
            cuda: toolchain.cuda(),
            driver: of(22).install(toolchain)?,
            former_openmp: of(19).install(toolchain)?,
        })
    }

    /// The outcomes of each kind: of the objects, and of the release as driver.
    fn row(&self, progress: &Progress, compiler: &Compiler, installed: &Installed) -> Result<Vec<[Outcome; 2]>> {
        let kinds = link::kinds(&self.cuda);
        kinds.iter().map(|kind| self.cells(progress, compiler, installed, kind)).collect()
    }

    fn cells(
        &self,
        progress: &Progress,
        compiler: &Compiler,
        installed: &Installed,
        kind: &Kind,
    ) -> Result<[Outcome; 2]> {
        let folder = self.folder.join(format!("{}-{}", compiler.release, kind.name));
        create_folder(&folder)?;
        let libraries = match compiler.openmp {
            _ if compiler.release < kind.since => return Ok([Outcome::Untried, Outcome::Untried]),
            _ if !kind.is_openmp => None,
            compilers::OpenMp::None => return Ok([Outcome::Untried, Outcome::Untried]),
            compilers::OpenMp::Former => Some(&self.former_openmp),
            compilers::OpenMp::Current => Some(&self.driver),
        };
        let Some(compile) = installed.for_kind(kind) else { return Ok([Outcome::Untried, Outcome::Untried]) };
        let place = link::Place { folder: &folder, sources: &self.sources, dist: &self.dist, cuda: &self.cuda };
        place.compile(progress, compile, kind)?;
        let libraries = libraries.map(|one| one.openmp.as_path());
        let objects = place.link(progress, &self.driver.clang, kind, libraries)?;
        let driver = place.link(progress, &installed.clang, kind, libraries)?;
        Ok([objects, driver])
    }
}
