//! Symbols that the host command line exports or keeps.
//!
//! Options are known one by one: of an unknown option nobody can say whether it makes the program reach more.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use crate::cli::options::Options;
use crate::cli::words;
use crate::host::export_list::Exports;

/// The symbols from which the command line reaches the program.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LinkRoots {
    /// Where the program starts; `None` for a shared library.
    pub entry: Option<String>,
    /// Symbols that options refer to.
    pub names: Vec<String>,
    /// The visible symbols that other programs and libraries may use.
    pub exports: Exports,
    /// Folders in which the linker and the loader search for libraries of libraries.
    pub folders: Vec<String>,
    /// The linker may link libraries that objects name (`.deplibs`), as lld does.
    pub adds_libraries: bool,
}

/// Options that make the program reach nothing more and export nothing more, without dashes and without a value behind `=`. From the manuals
/// of GNU ld, gold, lld and mold.
const HARMLESS: &str = "\
    ( ) add-needed allow-multiple-definition allow-shlib-undefined apply-dynamic-relocs as-needed Bdynamic Bno-symbolic \
    Bstatic Bsymbolic Bsymbolic-functions Bsymbolic-non-weak Bsymbolic-non-weak-functions build-id call-graph-profile-sort \
    call_shared check-sections color-diagnostics compress-debug-sections compress-sections copy-dt-needed-entries cref d \
    dc demangle dependency-file disable-new-dtags discard-all discard-locals discard-none dn dp dy dynamic-linker EB \
    eh-frame-hdr EL emit-relocs enable-new-dtags end-group end-lib error-limit error-unresolved-symbols exclude-libs \
    fatal-warnings fix-cortex-a53-835769 fix-cortex-a53-843419 fork g gc-keep-exported gc-sections gdb-index h hash-size \
    hash-style I icf ignore-data-address-equality ignore-function-address-equality image-base keep-unique L l \
    ld-generated-unwind-info library library-path lto lto-O0 lto-O1 lto-O2 lto-O3 lto-partitions M m Map \
    merge-exidx-entries mmap-output-file N n nmagic no-add-needed no-allow-shlib-undefined no-apply-dynamic-relocs \
    no-as-needed no-call-graph-profile-sort no-check-sections no-color-diagnostics no-copy-dt-needed-entries no-demangle \
    no-dynamic-linker no-dynamic-list no-eh-frame-hdr no-export-dynamic no-fatal-warnings no-fork no-gc-sections \
    no-gdb-index no-icf-sections no-keep-memory no-ld-generated-unwind-info no-lto no-mmap-output-file no-nmagic no-omagic \
    no-pie no-print-gc-sections no-print-icf-sections no-relax no-rosegment no-sort-common no-spare-dynamic-tags \
    no-threads no-undefined no-undefined-glob no-undefined-version no-warn-execstack no-warn-mismatch no-warn-rwx-segments \
    no-warn-search-mismatch no-warnings no-whole-archive non_shared nopie nostdlib O o O0 O1 O2 O3 omagic optimize \
    orphan-handling output pack-dyn-relocs package-metadata perf pic-executable pie plugin plugin-opt pop-state \
    print-gc-sections print-icf-sections print-map print-memory-usage push-state q quick-exit reduce-memory-overheads \
    relax rosegment rpath rpath-link S s save-temps section-start separate-debug-file soname sort-common sort-section \
    spare-dynamic-tags start-group start-lib static stats strip-all strip-debug symbol-ordering-file sysroot t Tbss Tdata \
    thinlto-cache-dir thinlto-jobs thread-count threads time-trace trace trace-symbol Trodata-segment Ttext Ttext-segment \
    undefined-version unique unresolved-symbols use-android-relr-tags V v verbose warn-common warn-execstack warn-once \
    warn-rwx-segments warn-shared-textrel warn-textrel warn-unresolved-symbols whole-archive why-extract X x y z";

/// Options that export symbols: all that are visible count.
const EXPORTING: &[&str] =
    &["E", "export-dynamic", "dynamic-list-data", "dynamic-list-cpp-new", "dynamic-list-cpp-typeinfo"];

/// Options whose value is a file that says what is exported.
const LISTS: &[&str] = &["version-script", "dynamic-list", "export-dynamic-symbol-list"];

/// Options whose value is a symbol.
const NAMING: &[&str] = &["u", "undefined", "require-defined", "init", "fini", "wrap"];

/// Reads the command line.
///
/// # Errors
/// Why nobody can say what the program reaches, as a sentence without a full stop.
pub fn read(options: &Options) -> Result<LinkRoots, String> {
    let mut roots = LinkRoots { entry: Some("_start".to_owned()), adds_libraries: true, ..LinkRoots::default() };
    roots.names.extend(["_init", "_fini"].map(str::to_owned));
    roots.names.extend(options.roots.iter().cloned());
    let mut line = options.host_line.iter();
    while let Some(word) = line.next() {
        if !word.as_bytes().starts_with(b"-") || word.len() < 2 {
            continue;
        }
        let next = if words::takes_next_word(word) { line.next() } else { None };
        roots.add(word, next)?;
    }
    Ok(roots)
}

impl LinkRoots {
    /// Reads one option; `next` is its value, if that is the next word.
    fn add(&mut self, word: &OsString, next: Option<&OsString>) -> Result<(), String> {
        let text = word.to_string_lossy();
        let next = next.map(|next| next.to_string_lossy().into_owned());
        let long = text.strip_prefix("--").or_else(|| text.strip_prefix('-')).unwrap_or(&text);
        let (stem, value) = match long.split_once('=') {
            Some((stem, value)) => (stem, Some(value.to_owned())),
            None => (long, next),
        };
        let unknown = || Err(format!("the linker's option {text} may make the program reach more"));
        match stem {
            "e" | "entry" => match value {
                Some(value) => self.entry = Some(value),
                None => return unknown(),
            },
            "defsym" => match value {
                Some(value) => self.names.extend(symbols(&value)),
                None => return unknown(),
            },
            "shared" | "Bshareable" => {
                self.entry = None;
                self.exports.all = true;
            }
            "dependent-libraries" => self.adds_libraries = true,
            "no-dependent-libraries" => self.adds_libraries = false,
            "rpath" | "rpath-link" => {
                let folders = value.iter().flat_map(|value| value.split(':')).map(str::to_owned);
                self.folders.extend(folders);
            }
            // A folder as in -rpath; a file has symbols at fixed addresses.
            "R" => match value {
                Some(folder) if Path::new(&folder).is_dir() => self.folders.push(folder),
                _ => return unknown(),
            },
            "wrap" => match value {
                Some(name) => self.names.extend([format!("__wrap_{name}"), format!("__real_{name}"), name]),
                None => return unknown(),
            },
            "export-dynamic-symbol" => match value {
                Some(pattern) => self.exports.add_pattern(&pattern),
                None => return unknown(),
            },
            _ if EXPORTING.contains(&stem) => self.exports.all = true,
            _ if LISTS.contains(&stem) => match value {
                Some(file) => self.exports.add_file(Path::new(&file)),
                None => return unknown(),
            },
            _ if NAMING.contains(&stem) => match value {
                Some(name) => self.names.push(name),
                None => return unknown(),
            },
            _ if is_among(HARMLESS, stem) => {}
            _ if text.starts_with("--") => return unknown(),
            // Options of one letter with their value in the same word. `-u` is handled above for the parser's own words.
            _ => match text.as_bytes().get(1) {
                Some(b'u') => self.names.push(text[2..].to_owned()),
                Some(b'L' | b'l' | b'z' | b'm' | b'O' | b'I' | b'h' | b'o' | b'y') => {}
                _ => return unknown(),
            },
        }
        Ok(())
    }
}

fn is_among(words: &str, stem: &str) -> bool {
    words.split_whitespace().any(|word| word == stem)
}

/// The names in an assignment of `--defsym`.
fn symbols(assignment: &str) -> impl Iterator<Item = String> {
    let is_part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '@');
    assignment.split(move |c| !is_part(c)).filter(|name| !name.is_empty()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::persona::Persona;

    fn roots(line: &[&str]) -> Result<LinkRoots, String> {
        let words: Vec<OsString> = line.iter().map(OsString::from).collect();
        read(&crate::cli::parse::parse(&words, Persona::Linker).expect("a good line"))
    }

    #[test]
    fn the_usual_line_of_clang() {
        let line = "-pie --hash-style=gnu --build-id --eh-frame-hdr -m elf_x86_64 -dynamic-linker /lib64/ld.so -o a Scrt1.o -L/lib \
                    -L/usr/lib a.o libb.a -lother_static --as-needed -lgcc_s --no-as-needed -z relro -rpath /opt/lib -O1 --gc-sections";
        let found = roots(&line.split_whitespace().collect::<Vec<_>>()).unwrap();
        assert_eq!(found.entry.as_deref(), Some("_start"));
        assert!(!found.exports.contains(b"f"));
        assert_eq!(found.names, ["_init", "_fini"]);
        assert_eq!(found.folders, ["/opt/lib"]);
    }

    #[test]
    fn symbols_that_options_name() {
        for (line, name) in [
            (&["-u", "f"][..], "f"),
            (&["-uf"], "f"),
            (&["--undefined=f"], "f"),
            (&["--require-defined=f"], "f"),
            (&["--require-defined", "f"], "f"),
            (&["--defsym=a=f+8"], "f"),
            (&["--defsym", "a=f"], "f"),
            (&["-defsym", "a=f"], "f"),
            (&["--wrap=f"], "__wrap_f"),
            (&["-wrap", "f"], "__wrap_f"),
            (&["-init", "f"], "f"),
            (&["-fini=f"], "f"),
        ] {
            match roots(line) {
                Ok(found) => assert!(found.names.iter().any(|one| one == name), "{line:?}: {found:?}"),
                // The value may not be known as one: then all kernels are kept.
                Err(why) => assert!(why.contains("may make"), "{why}"),
            }
        }
    }

    #[test]
    fn entries_and_exports() {
        assert_eq!(roots(&["-e", "begin"]).unwrap().entry.as_deref(), Some("begin"));
        assert_eq!(roots(&["--entry=begin"]).unwrap().entry.as_deref(), Some("begin"));
        for line in [
            &["-E"][..],
            &["-export-dynamic"],
            &["--export-dynamic"],
            // Files that cannot be read.
            &["--dynamic-list=/nonexistent/l"],
            &["--dynamic-list", "/nonexistent/l"],
            &["--export-dynamic-symbol=f*"],
            &["--version-script=/nonexistent/v"],
            &["-shared"],
        ] {
            assert!(roots(line).unwrap().exports.contains(b"f"), "{line:?}");
        }
        assert!(!roots(&["--export-dynamic-symbol=f*"]).unwrap().exports.contains(b"g"));
        assert_eq!(roots(&["-shared"]).unwrap().entry, None);
    }

    #[test]
    fn unknown_options_keep_everything() {
        for line in [
            &["-T", "script.ld"][..],
            &["-Tscript.ld"],
            &["--script=script.ld"],
            &["-estart"],
            &["--just-symbols=f"],
            &["-R", "f"],
            &["--remap-inputs=a=b"],
            &["--undefined-glob=f*"],
            &["-b", "binary"],
            &["--format=binary"],
            &["--unheard-of"],
            &["-c", "script.mri"],
        ] {
            assert!(roots(line).is_err(), "{line:?}: {:?}", roots(line));
        }
    }
}
