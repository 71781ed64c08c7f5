//! The Python module of the wheel: its types by mypy, its tests by the interpreter of this machine. Its extra `cuda13`: ptxas of PyPI, which
//! fatlink finds in the same environment.

use std::process::Command;

use crate::debian::python_with_pip;
use crate::failure::{Failure, Result};
use crate::package::Packages;
use crate::repository::{Repository, copy_file};
use crate::step::step;
use crate::toolchain::{Toolchain, fresh_folder};
use crate::wheels::Wheels;

const MYPY: Wheels = Wheels {
    title: "mypy",
    pins: include_str!("../../mypy-wheels.txt"),
    folder: "mypy",
    proof: "mypy/__main__.py",
    platform: None,
};

/// Each of Python's modules that is run in a folder with the module and its tests.
const CHECKS: [(&str, &[&str]); 3] = [
    ("the tests of the wheel's module", &["-m", "unittest", "test_fatlink"]),
    ("mypy --strict on a program that uses it", &["-m", "mypy", "--strict", "test_fatlink.py"]),
    ("stubtest: its types are those of the module", &["-m", "mypy.stubtest", "fatlink"]),
];

/// Returns how many checks there were.
pub fn check_types(repository: &Repository, toolchain: &Toolchain, packages: &Packages) -> Result<usize> {
    MYPY.install(toolchain)?;
    let python = python_with_pip().ok_or_else(|| Failure::new("no python3 with pip is in PATH"))?;
    let folder = repository.target.join("package-test/python");
    fresh_folder(&folder)?;
    step("install the wheel's module", |progress| {
        let mut pip = Command::new(python);
        pip.args(["-m", "pip", "install", "--no-index", "--no-deps", "--disable-pip-version-check", "--target"]);
        progress.run(pip.arg(&folder).arg(&packages.wheel))?;
        let tests = repository.root.join("offload-bundle/python/tests/test_fatlink.py");
        copy_file(&tests, &folder.join("test_fatlink.py"))
    })?;
    for (title, arguments) in CHECKS {
        step(title, |progress| {
            let mut command = Command::new(python);
            command.args(arguments).current_dir(&folder).env("PYTHONPATH", MYPY.place(toolchain));
            progress.run(&mut command)
        })?;
    }
    Ok(CHECKS.len())
}

/// Installs the wheel with its extra into an environment, which is not activated.
pub fn check_extra(repository: &Repository, packages: &Packages) -> Result<()> {
    let python = python_with_pip().ok_or_else(|| Failure::new("no python3 with pip is in PATH"))?;
    let folder = repository.target.join("package-test/extra");
    fresh_folder(&folder)?;
    step("the wheel's extra cuda13 brings ptxas", |progress| {
        progress.run(Command::new(python).args(["-m", "venv"]).arg(&folder))?;
        let mut wheel = packages.wheel.clone().into_os_string();
        wheel.push("[cuda13]");
        let mut pip = Command::new(folder.join("bin/python"));
        pip.args(["-m", "pip", "install", "--disable-pip-version-check"]).arg(wheel);
        progress.run(&mut pip)?;
        let mut fatlink = Command::new(folder.join("bin/fatlink"));
        fatlink.arg("--print-toolchain").env_clear().env("PATH", "/usr/bin:/bin");
        let table = progress.run(&mut fatlink)?;
        match table.contains("site-packages/nvidia/cu13/bin/ptxas") {
            true => Ok(()),
            false => Err(Failure { message: "fatlink finds no ptxas in its environment".to_owned(), output: table }),
        }
    })
}
