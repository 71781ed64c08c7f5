//! Stands in for a symbolic link to fatlink in packages that cannot hold any, such as Python's wheels: it replaces itself by the fatlink of
//! its prefix, which sees the name that this program was started by.

use std::ffi::OsString;
use std::io::{self, Write};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    let mut words = std::env::args_os();
    let name = words.next().unwrap_or_default();
    let error = match std::env::current_exe().and_then(|own| program(&own)) {
        Ok(program) => Command::new(&program).arg0(&name).args(words).exec(),
        Err(error) => error,
    };
    report(&name, &error);
    ExitCode::FAILURE
}

/// The fatlink beside this program in `bin`, or that of the prefix if this program is in a folder of `lib/fatlink`.
fn program(own: &Path) -> io::Result<PathBuf> {
    let folder = own.parent().unwrap_or(Path::new(""));
    let places = [folder.join("fatlink"), folder.join("../../../bin/fatlink")];
    let found = places.iter().find(|place| place.is_file());
    found.cloned().ok_or_else(|| {
        let message = format!("{} is missing: install fatlink again", places[1].display());
        io::Error::new(io::ErrorKind::NotFound, message)
    })
}

fn report(name: &OsString, error: &io::Error) {
    // An error of standard error cannot be reported.
    let _ = writeln!(io::stderr(), "{}: error: cannot start fatlink: {error}", Path::new(name).display());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_places_are_found() {
        let temporary = tempfile::tempdir().unwrap();
        let prefix = temporary.path();
        for folder in ["bin", "lib/fatlink/gcc"] {
            std::fs::create_dir_all(prefix.join(folder)).unwrap();
        }
        let gone = program(&prefix.join("lib/fatlink/gcc/ld")).unwrap_err();
        assert!(gone.to_string().ends_with("/bin/fatlink is missing: install fatlink again"), "{gone}");
        std::fs::write(prefix.join("bin/fatlink"), "").unwrap();
        assert_eq!(program(&prefix.join("bin/ld.fatlink")).unwrap(), prefix.join("bin/fatlink"));
        let through = program(&prefix.join("lib/fatlink/gcc/ld")).unwrap();
        assert_eq!(through.canonicalize().unwrap(), prefix.join("bin/fatlink").canonicalize().unwrap());
    }
}
