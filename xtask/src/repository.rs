//! The working tree and its folders.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::failure::{Failure, Result};

/// The working tree that this xtask was built from.
#[derive(Clone)]
pub struct Repository {
    /// Its root.
    pub root: PathBuf,
    /// Cargo's target folder.
    pub target: PathBuf,
    dist: PathBuf,
    /// The machine of the programs in dist/, as triples name it.
    pub machine: &'static str,
}

impl Repository {
    /// Takes both from the variables that cargo sets. Those of this run come before those of the build: a working tree that was copied with
    /// its target folder has a program that cargo takes for its own.
    pub fn find() -> Result<Self> {
        let package = std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
        let root = Path::new(&package).parent().map(Path::to_owned);
        let root = root
            .filter(|root| root.join("Cargo.toml").is_file())
            .ok_or_else(|| Failure::new("the working tree has moved since xtask was built: run it as `cargo xtask`"))?;
        let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
        let target = std::path::absolute(&target).map_err(|error| Failure::file("find", &target, &error))?;
        let dist = root.join("dist");
        Ok(Self { root, target, dist, machine: "x86_64" })
    }

    /// Where the programs are laid out.
    pub fn dist(&self) -> PathBuf {
        self.dist.clone()
    }

    /// The same working tree with output folders of their own, for another machine.
    pub fn for_machine(&self, machine: &'static str) -> Self {
        let dist = self.root.join(format!("dist-{machine}"));
        Self { root: self.root.clone(), target: self.target.join(machine), dist, machine }
    }

    /// The same working tree with a folder of its own in place of dist/, for the programs of the dev profile.
    pub fn for_tests(&self) -> Self {
        Self { dist: self.target.join("debug-dist"), ..self.clone() }
    }

    /// The same for the demo's program, which cannot do all that those in dist/ can.
    pub fn for_demo(&self) -> Self {
        Self { dist: self.target.join("demo/dist"), ..self.clone() }
    }

    /// Where the programs are laid out, for a command that takes them as they are.
    ///
    /// # Errors
    /// They are not built.
    pub fn built_dist(&self) -> Result<PathBuf> {
        let program = self.dist.join("bin/offload-bundle");
        match program.is_file() {
            true => Ok(self.dist()),
            false => Err(Failure::new(format!("{} is missing: `cargo xtask dist` builds it", program.display()))),
        }
    }

    /// Runs a program of dist/, under qemu if it is for another machine.
    pub fn program(&self, program: &Path) -> Command {
        if self.machine == std::env::consts::ARCH {
            return Command::new(program);
        }
        let mut command = Command::new(format!("qemu-{}", self.machine));
        command.arg("-L").arg(format!("/usr/{}-linux-gnu", self.machine)).arg(program);
        command
    }

    /// The cargo that runs xtask, in the root of this working tree.
    pub fn cargo(&self, subcommand: &str) -> Command {
        let mut command = cargo();
        command.arg(subcommand).current_dir(&self.root);
        command
    }

    /// The same in the user's folder, to which the paths in a command's arguments are relative.
    pub fn cargo_here(&self, subcommand: &str) -> Command {
        let mut command = cargo();
        command.arg(subcommand).arg("--manifest-path").arg(self.root.join("Cargo.toml"));
        command
    }
}

/// Cargo, as a shell runs it: without the variables about xtask's package that cargo has set for xtask. ring's build script depends on
/// some of them, so a run with them and a run without them would each compile again what the other has compiled.
fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    let of_package = |name: &OsString| {
        let name = name.to_string_lossy();
        ["CARGO_MANIFEST_", "CARGO_PKG_"].iter().any(|prefix| name.starts_with(prefix))
    };
    for name in std::env::vars_os().map(|(name, _)| name).filter(of_package) {
        command.env_remove(name);
    }
    command
}

/// Writes a file.
pub fn write_file(path: &Path, content: impl AsRef<[u8]>) -> Result<()> {
    std::fs::write(path, content).map_err(|error| Failure::file("write", path, &error))
}

/// Reads a file.
pub fn read_text(path: &Path) -> Result<String> {
    std::fs::read_to_string(path).map_err(|error| Failure::file("read", path, &error))
}

/// Copies a file into a folder, which is created if it is missing.
pub fn copy_file(from: &Path, to: &Path) -> Result<()> {
    create_folder(to.parent().unwrap_or(to))?;
    std::fs::copy(from, to).map(drop).map_err(|error| Failure::file("copy", from, &error))
}

/// The paths of what is in a folder, in the order of their names.
pub fn files_in(folder: &Path) -> Result<Vec<PathBuf>> {
    let failed = |error| Failure::file("read", folder, &error);
    let entries = std::fs::read_dir(folder).map_err(failed)?;
    let mut paths = entries.map(|entry| Ok(entry?.path())).collect::<std::io::Result<Vec<_>>>().map_err(failed)?;
    paths.sort();
    Ok(paths)
}

/// The name of a file without its folder.
pub fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// Creates a folder and those above it.
pub fn create_folder(path: &Path) -> Result<()> {
    std::fs::create_dir_all(path).map_err(|error| Failure::file("create", path, &error))
}

/// Makes `link` a symbolic link to `target`, whatever it was before.
pub fn replace_link(target: &str, link: &Path) -> Result<()> {
    if std::fs::read_link(link).is_ok_and(|old| old == Path::new(target)) {
        return Ok(());
    }
    match std::fs::remove_file(link) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            return Err(Failure::file("replace", link, &error));
        }
        _ => {}
    }
    std::os::unix::fs::symlink(target, link).map_err(|error| Failure::file("create", link, &error))
}
