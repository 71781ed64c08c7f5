//! The program that is started sees the name and the arguments of the launcher.

use std::path::Path;
use std::process::Command;

/// A prefix in which coreutils' cat, which prints its own name in errors, takes the place of fatlink.
fn prefix(folder: &Path) {
    for path in ["bin", "lib/fatlink/gcc"] {
        std::fs::create_dir_all(folder.join(path)).unwrap();
    }
    for name in ["bin/ld.fatlink", "lib/fatlink/gcc/ld.gold"] {
        std::fs::copy(env!("CARGO_BIN_EXE_launcher"), folder.join(name)).unwrap();
    }
}

#[test]
fn the_name_and_the_arguments_are_passed_on() {
    let temporary = tempfile::tempdir().unwrap();
    let folder = temporary.path();
    prefix(folder);
    for name in ["bin/ld.fatlink", "lib/fatlink/gcc/ld.gold"] {
        let program = folder.join(name);
        let missing = Command::new(&program).output().unwrap();
        assert_eq!(missing.status.code(), Some(1));
        let message = String::from_utf8_lossy(&missing.stderr).into_owned();
        assert!(message.contains("/bin/fatlink is missing: install fatlink again"), "{message}");
    }
    std::fs::copy("/bin/cat", folder.join("bin/fatlink")).unwrap();
    for name in ["bin/ld.fatlink", "lib/fatlink/gcc/ld.gold"] {
        let program = folder.join(name);
        let output = Command::new(&program).args(["--frobnicate", "a b"]).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(message.starts_with(&format!("{}: ", program.display())), "{message}");
        assert!(message.contains("--frobnicate"), "{message}");
    }
}
