//! Rules about the sources that the compiler does not check.

mod imports;
mod layers;
mod vendors;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn rust_files(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap().map(Result::unwrap) {
        let path = entry.path();
        if path.is_dir() {
            rust_files(&path, found);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            found.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for package in ["cubin-link", "offload-bundle", "llvm-passes", "linker-wrapper", "lit-tests", "xtask"] {
        rust_files(&root().join(package), &mut found);
    }
    found.retain(|path| !path.components().any(|part| part.as_os_str() == "target"));
    assert!(found.len() > 50, "the sources were not found");
    found
}

/// The Rust files below a folder of the repository, by path in that folder.
fn sources_below(folder: &str) -> BTreeMap<String, String> {
    let folder = root().join(folder);
    let mut paths = Vec::new();
    rust_files(&folder, &mut paths);
    let name = |path: &Path| path.strip_prefix(&folder).unwrap().display().to_string();
    paths.iter().map(|path| (name(path), fs::read_to_string(path).unwrap())).collect()
}

#[test]
fn dependencies_point_one_way() {
    for (package, forbidden) in [
        // The library is for other programs too: nothing of its command line belongs into it.
        ("offload-bundle", &["llvm-passes", "linker-wrapper", "inkwell", "clap", "libc"][..]),
        ("cubin-link", &["llvm-passes", "linker-wrapper", "inkwell", "clap", "libc"]),
        ("llvm-passes", &["linker-wrapper"]),
        ("linker-wrapper", &["inkwell"]),
        ("xtask", &["offload-bundle", "llvm-passes", "linker-wrapper"]),
    ] {
        let manifest = fs::read_to_string(root().join(package).join("Cargo.toml")).unwrap();
        for name in forbidden {
            assert!(!manifest.lines().any(|line| line.starts_with(name)), "{package} depends on {name}");
        }
    }
}

#[test]
fn unsafe_code_stays_where_it_belongs() {
    // What wraps LLVM-C, what maps a file, what C programs call, what calls NVIDIA's libraries in tests, and what calls shared
    // libraries that are loaded at run time (nvJitLink, the driver): functions known by name alone have no type but the one that we
    // write down.
    let allowed = [
        "llvm-passes/src/sys/",
        // Open modules in one value with the context and the bitcode that they borrow.
        "llvm-passes/src/unit/",
        "llvm-passes/src/owned_program.rs",
        "llvm-passes/src/crash.rs",
        // The allocator of the program.
        "llvm-passes/src/out_of_memory.rs",
        "linker-wrapper/src/sys/mapped_file.rs",
        "offload-bundle/capi/src/lib.rs",
        "offload-bundle/capi/tests/library/mod.rs",
        "offload-bundle/capi/tests/library/nvjitlink.rs",
        "linker-wrapper/capi/src/",
        "linker-wrapper/library/examples/build-script/src/main.rs",
        "linker-wrapper/src/toolchain/libraries/",
        "offload-bundle/driver/src/library.rs",
    ];
    for path in sources() {
        let name = path.strip_prefix(root()).unwrap().display().to_string();
        let text = fs::read_to_string(&path).unwrap();
        // Spelled in two parts, so that this file does not find itself.
        let word = ["unsafe", " {"].concat();
        assert!(
            allowed.iter().any(|place| name.starts_with(place)) || !text.contains(&word),
            "{name} has a block of {word}"
        );
    }
    for library in ["offload-bundle", "cubin-link", "linker-wrapper/library", "linker-wrapper/protocol"] {
        let story = fs::read_to_string(root().join(library).join("src/lib.rs")).unwrap();
        assert!(story.contains("#![forbid(unsafe_code)]"), "{library}");
    }
}

#[test]
fn files_stay_short() {
    for path in sources() {
        let lines = fs::read_to_string(&path).unwrap().lines().count();
        assert!(lines <= 600, "{} has {lines} lines: split it by what it knows", path.display());
    }
    let lines = |file: &str| {
        let text = fs::read_to_string(root().join("linker-wrapper/src").join(file)).unwrap();
        text.lines().filter(|line| !line.starts_with("mod ")).count()
    };
    assert!(lines("main.rs") <= 15, "main.rs is more than a call of the library");
    assert!(lines("lib.rs") <= 45, "lib.rs tells a story of its own");
}
