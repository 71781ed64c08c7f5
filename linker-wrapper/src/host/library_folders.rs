//! The folders in which the host linker looks for the libraries that its command line names.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use crate::cli::host_triple;
use crate::cli::options::{Input, Options};
use crate::host::host_linker;
use crate::sys::process;

/// Folders of the system's libraries behind those of the program's own machine.
const SYSTEM_LIBRARY_PATHS: [&str; 6] =
    ["/usr/local/lib64", "/lib64", "/usr/lib64", "/usr/local/lib", "/lib", "/usr/lib"];

/// The folders of a command line, and those of the linker itself, which is asked for them once a library is in no folder of the line.
pub struct LibraryFolders<'o> {
    options: &'o Options,
    program: &'o str,
    own: OnceLock<Vec<PathBuf>>,
}

impl<'o> LibraryFolders<'o> {
    /// The folders for this line of the program of this name.
    pub fn new(options: &'o Options, program: &'o str) -> Self {
        LibraryFolders { options, program, own: OnceLock::new() }
    }

    /// The options of the line.
    pub fn options(&self) -> &'o Options {
        self.options
    }

    /// Locates the file of an input. `None`: the host linker will report that it does not exist.
    pub fn locate(&self, input: &Input) -> Option<PathBuf> {
        locate(input, self.options, &|| self.own.get_or_init(|| self.ask()).clone())
    }

    /// The linker's own folders. Where it does not tell, those of the system: if it does not search one of them, its link fails anyway.
    fn ask(&self) -> Vec<PathBuf> {
        let Options { dry_run, sysroot, .. } = self.options;
        let linker = if *dry_run { None } else { host_linker::find(self.options, self.program).ok() };
        let told = linker.map(|linker| {
            let script = answer(&linker, [self.emulation(), vec!["--verbose".into()]].concat());
            let folders = folders_in(&script);
            let of_linker = || PathBuf::from(answer(&linker, vec!["--print-sysroot".into()]).trim());
            let sysroot = sysroot.clone().or_else(|| Some(of_linker()).filter(|root| root.is_absolute()));
            folders.iter().map(|folder| in_sysroot(folder, sysroot.as_deref())).collect::<Vec<_>>()
        });
        told.filter(|folders| !folders.is_empty()).unwrap_or_else(|| of_system(self.options))
    }

    /// The words of the line that choose the emulation, each of which has folders of its own.
    fn emulation(&self) -> Vec<OsString> {
        let line = &self.options.host_line;
        let pairs = line.windows(2).filter(|pair| pair[0] == "-m").flatten().cloned();
        let joined = line.iter().filter(|word| word.to_str().is_some_and(|word| word.starts_with("-melf"))).cloned();
        pairs.chain(joined).collect()
    }
}

/// Folders of the system's libraries for programs of the line's triple, in the order of Debian's GNU ld; other linkers search some of them.
pub fn of_system(options: &Options) -> Vec<PathBuf> {
    let host = options.host_triple.as_deref().and_then(host_triple::of_triple).unwrap_or(host_triple::NATIVE);
    host.library_folders.into_iter().chain(SYSTEM_LIBRARY_PATHS).map(PathBuf::from).collect()
}

/// A folder of the system below a sysroot.
pub fn below(root: &Path, folder: &Path) -> PathBuf {
    root.join(folder.strip_prefix("/").unwrap_or(folder))
}

/// Locates the file of an input, in the folders of the line or else in those of the linker.
pub fn locate(input: &Input, options: &Options, own: &dyn Fn() -> Vec<PathBuf>) -> Option<PathBuf> {
    let (name, archive_only) = match input {
        Input::File { path, .. } => return Some(path.clone()),
        Input::Library { name, archive_only, .. } => (name, *archive_only),
    };
    let candidates: Vec<String> = match (name.strip_prefix(':'), archive_only) {
        (Some(exact), _) => vec![exact.to_owned()],
        (None, true) => vec![format!("lib{name}.a")],
        (None, false) => vec![format!("lib{name}.so"), format!("lib{name}.a")],
    };
    let found_in = |folder: &Path| candidates.iter().map(|file| folder.join(file)).find(|path| path.is_file());
    let given = options.library_paths.iter().map(|folder| in_sysroot(folder, options.sysroot.as_deref()));
    given.filter_map(|folder| found_in(&folder)).next().or_else(|| own().iter().find_map(|folder| found_in(folder)))
}

/// Locates a file that a linker script names by a path. `None`: the folders of libraries may have it.
pub fn in_script(script: &Path, name: &str, sysroot: Option<&Path>) -> Option<PathBuf> {
    // In a script below the sysroot, whole paths begin there.
    let root = sysroot.filter(|root| script.starts_with(root) && name.starts_with('/'));
    let below = root.map(|root| root.join(name.trim_start_matches('/')));
    let beside = script.parent().map(|folder| folder.join(name));
    let mut candidates = below.into_iter().chain(beside).chain([in_sysroot(Path::new(name), sysroot)]);
    candidates.find(|path| path.is_file())
}

/// `-L=dir` and `-L$SYSROOT/dir` mean a folder in the sysroot.
pub fn in_sysroot(folder: &Path, sysroot: Option<&Path>) -> PathBuf {
    let text = folder.to_string_lossy();
    match (text.strip_prefix('=').or_else(|| text.strip_prefix("$SYSROOT")), sysroot) {
        (Some(rest), Some(root)) => root.join(rest.trim_start_matches('/')),
        (Some(rest), None) => PathBuf::from(rest),
        (None, _) => folder.to_owned(),
    }
}

/// What a linker prints; nothing if it fails, as lld does without inputs.
fn answer(linker: &Path, words: Vec<OsString>) -> String {
    let answer = process::capture(linker, &words).ok().filter(|answer| answer.status.success());
    answer.map(|answer| String::from_utf8_lossy(&answer.stdout).into_owned()).unwrap_or_default()
}

/// The folders of `SEARCH_DIR("=/usr/lib")` in a linker script.
fn folders_in(script: &str) -> Vec<PathBuf> {
    let commands = script.split("SEARCH_DIR(").skip(1).filter_map(|rest| rest.split(')').next());
    commands.map(|folder| PathBuf::from(folder.trim_matches('"'))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_of_a_script() {
        let script = "SEARCH_DIR(\"=/usr/local/lib\"); SEARCH_DIR(/opt/lib);\nSECTIONS {}";
        assert_eq!(folders_in(script), [PathBuf::from("=/usr/local/lib"), PathBuf::from("/opt/lib")]);
        assert!(folders_in("GNU ld (GNU Binutils) 2.40").is_empty());
    }

    #[test]
    fn folders_of_the_line_come_first() {
        let (line, own) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::fs::write(own.path().join("libboth.a"), "").unwrap();
        std::fs::write(own.path().join("libown.a"), "").unwrap();
        std::fs::write(line.path().join("libboth.a"), "").unwrap();
        let options = Options { library_paths: vec![line.path().to_owned()], ..Options::default() };
        let library = |name: &str| Input::Library { name: name.to_owned(), archive_only: false, whole: false };
        let found = |name: &str| locate(&library(name), &options, &|| vec![own.path().to_owned()]);
        assert_eq!(found("both"), Some(line.path().join("libboth.a")));
        assert_eq!(found("own"), Some(own.path().join("libown.a")));
        assert_eq!(found("none"), None);
    }

    #[test]
    fn the_emulation_of_a_line() {
        let emulation = |line: &[&str]| {
            let options = Options { host_line: line.iter().map(OsString::from).collect(), ..Options::default() };
            LibraryFolders::new(&options, "ld").emulation()
        };
        assert_eq!(emulation(&["-m", "elf_x86_64", "-o", "a"]), ["-m", "elf_x86_64"]);
        assert_eq!(emulation(&["-maarch64linux", "-melf_x86_64"]), ["-melf_x86_64"]);
        assert!(emulation(&["a.o"]).is_empty());
    }
}
