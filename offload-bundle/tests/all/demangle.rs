//! Names are demangled as LLVM's tools demangle them.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};

use offload_bundle::demangle::demangle;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;

use crate::tools;

/// What `llvm-cxxfilt` makes of these names, one for each.
fn by_llvm(names: &[String]) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let list = folder.path().join("names");
    fs::write(&list, names.join("\n")).expect("a file");
    let mut filter = Command::new(tools::llvm("llvm-cxxfilt"));
    let output = filter.stdin(File::open(&list).expect("the file")).stderr(Stdio::inherit()).output();
    let output = output.expect("llvm-cxxfilt starts");
    assert!(output.status.success());
    String::from_utf8_lossy(&output.stdout).lines().map(str::to_owned).collect()
}

#[track_caller]
fn assert_same(names: &[String]) {
    assert!(names.len() > 1000, "only {} names", names.len());
    let expected = by_llvm(names);
    assert_eq!(names.len(), expected.len());
    let wrong: Vec<String> = std::iter::zip(names, expected)
        .map(|(name, expected)| (name, expected, demangle(name).unwrap_or_else(|| name.clone())))
        .filter(|(_, expected, ours)| expected != ours)
        .map(|(name, expected, ours)| format!("{name}\n  LLVM: {expected}\n  ours: {ours}"))
        .collect();
    assert!(wrong.is_empty(), "{} of {} names differ:\n{}", wrong.len(), names.len(), wrong.join("\n"));
}

/// llvm-cxxfilt splits its input at other characters.
fn is_symbol(name: &str) -> bool {
    name.starts_with('_') && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_$.".contains(&byte))
}

fn symbols_of(file: &Path, options: &[&str]) -> Vec<String> {
    let options = options.iter().map(|option| Path::new(*option));
    let list = tools::run(&tools::llvm("llvm-nm"), options.chain([Path::new("--format=just-symbols"), file]));
    // Symbols of a library have versions: `_Z1fv@@LLVM_22.1`.
    let plain = list.lines().filter_map(|name| name.split('@').next());
    let mut names: Vec<String> = plain.filter(|name| is_symbol(name)).map(str::to_owned).collect();
    names.sort();
    names.dedup();
    names
}

/// The test cases of LLVM's own demangler, which come with its headers.
fn cases() -> Vec<String> {
    let cases = tools::run(&tools::llvm("llvm-config"), ["--includedir"]);
    let path = Path::new(cases.trim()).join("llvm/Testing/Demangle/DemangleTestCases.inc");
    let text = fs::read_to_string(&path).expect("the cases, of Debian's package llvm-22-dev");
    let names = text.split("{\"").skip(1).filter_map(|case| case.split('"').next());
    names.filter(|name| is_symbol(name)).map(str::to_owned).collect()
}

#[test]
fn cases_of_llvm_are_demangled_as_by_llvm() {
    assert_same(&cases());
}

/// Codes of the grammar, which damage a name more often without ending it than single letters do.
const CODES: &str = "N E I J X L T S K P R O F M A D C Z Q W B U 1a 3foo C1 D0 CI1 S_ S0_ St Sa Ss T_ T0_ TL0__ Tn Tt Ty Tk Tp \
    Dp Dt DT Dv DF DB Do DO Dw Dk DC Ul E_ Ut Li1E Lb1E LZ L_Z TV Tc Th GR ad pl gt rs ix cl cp dt pm nw da cv sc st sz te il tl \
    mc nx so sp sZ sP tw fl fr fL fp_ fpT rq rQ sr srN gs on dn di dx u3bar";

/// One of these names, with codes inserted or in place of others.
fn damaged(names: Vec<String>) -> impl Strategy<Value = String> {
    let code = prop::sample::select(CODES.split_whitespace().collect::<Vec<_>>());
    let edit = (any::<prop::sample::Index>(), 0..6_usize, code);
    (prop::sample::select(names), prop::collection::vec(edit, 1..4)).prop_map(|(mut name, edits)| {
        for (place, length, code) in edits {
            let start = 2 + place.index(name.len() - 1);
            name.replace_range(start..(start + length).min(name.len()), code);
        }
        name
    })
}

#[test]
fn damaged_names_are_demangled_or_rejected_as_by_llvm() {
    let short = cases().into_iter().filter(|name| name.starts_with("_Z") && (4..200).contains(&name.len()));
    let strategy = damaged(short.collect());
    let mut runner = TestRunner::deterministic();
    let next = |_| strategy.new_tree(&mut runner).expect("a name").current();
    assert_same(&(0..100_000).map(next).collect::<Vec<_>>());
}

#[test]
fn names_of_a_large_library_are_demangled_as_by_llvm() {
    let folder = tools::run(&tools::llvm("llvm-config"), ["--libdir"]);
    let library = Path::new(folder.trim()).join("libLLVM.so");
    assert_same(&symbols_of(&library, &["--dynamic", "--defined-only"]));
}
