//! Runs the tests of the Python module on the library that cargo built.

use std::path::{Path, PathBuf};
use std::process::Command;

/// What cargo builds beside its tests.
fn library() -> PathBuf {
    let tests = std::env::current_exe().unwrap();
    tests.parent().unwrap().join("lib_fatlink.so")
}

#[test]
fn the_tests_in_python_pass() {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
    let folder = tempfile::tempdir().unwrap();
    let package = folder.path().join("fatlink");
    std::fs::create_dir(&package).unwrap();
    for name in ["__init__.py", "_link.py"] {
        std::fs::copy(sources.join("fatlink").join(name), package.join(name)).unwrap();
    }
    // The name by which every Python from 3.9 finds it.
    std::fs::copy(library(), package.join("_fatlink.abi3.so")).unwrap();
    for name in ["test_fatlink.py", "test_link.py"] {
        std::fs::copy(sources.join("tests").join(name), folder.path().join(name)).unwrap();
    }
    let mut python = Command::new("python3");
    let dist = std::env::var_os("FATLINK_DIST").map(PathBuf::from);
    python.env("FATLINK", dist.unwrap_or_else(|| sources.join("../../dist")).join("bin/fatlink"));
    python.args(["-B", "-m", "unittest", "--verbose"]).current_dir(folder.path());
    let output = python.output().expect("python3 is installed by `cargo xtask setup`");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
