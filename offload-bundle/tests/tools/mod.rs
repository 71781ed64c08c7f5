//! The real tools that the tests compare with.
#![allow(dead_code)]

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Every target of ptxas 13.0.
pub const TARGETS: [&str; 23] = [
    "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a", "sm_100", "sm_100a", "sm_100f", "sm_103",
    "sm_103a", "sm_103f", "sm_110", "sm_110a", "sm_110f", "sm_120", "sm_120a", "sm_120f", "sm_121", "sm_121a",
    "sm_121f",
];

/// A tool of the CUDA toolkit. A missing toolkit fails the test: these tests are the proof that our bytes are NVIDIA's.
pub fn cuda(tool: &str) -> PathBuf {
    let path = std::env::var_os("CUDA_PATH").map(|root| Path::new(&root).join("bin").join(tool));
    match path {
        Some(path) if path.exists() => path,
        _ => panic!("no {tool} below $CUDA_PATH: run `cargo xtask setup`, then `eval $(cargo xtask env)`"),
    }
}

/// A tool of LLVM 22, in Debian's place or that of `$LLVM_SYS_221_PREFIX`.
pub fn llvm(tool: &str) -> PathBuf {
    let root = std::env::var_os("LLVM_SYS_221_PREFIX").unwrap_or_else(|| "/usr/lib/llvm-22".into());
    let path = Path::new(&root).join("bin").join(tool);
    assert!(path.exists(), "no {}: run `cargo xtask setup`, then `eval $(cargo xtask env)`", path.display());
    path
}

/// Runs a command to success and returns its standard output.
pub fn run<A: AsRef<OsStr>>(program: &Path, args: impl IntoIterator<Item = A>) -> String {
    let output = Command::new(program).args(args).output().expect("the tool starts");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    assert!(output.status.success(), "{} failed:\n{}{}", program.display(), text(&output.stdout), text(&output.stderr));
    text(&output.stdout)
}

/// PTX with two kernels, a called function and an undefined one, for one target.
pub fn sample_ptx(version: &str, target: &str) -> String {
    format!(
        "//\n// Sample\n//\n.version {version}\n.target {target}\n.address_size 64\n
.extern .func (.param .b32 r) missing (.param .b32 p);
.visible .global .align 4 .u32 counter;
.weak .func (.param .b32 r) helper (.param .b32 p)\n{{\n\t.reg .b32 %r<3>;
\tld.param.b32 \t%r1, [p];\n\tadd.s32 \t%r2, %r1, 1; // one more\n\tst.param.b32 \t[r], %r2;\n\tret;\n}}
.visible .entry first (.param .u64 p)\n{{\n\tret;\n}}
/* the second   kernel */
.visible .entry second (.param .u64 p)\n{{\n\t.reg .b32 %r<3>;\n\t.reg .b64 %rd<3>;
\tld.param.u64 \t%rd1, [p];\n\tcvta.to.global.u64 \t%rd2, %rd1;
\t{{\n\t.param .b32 a;\n\t.param .b32 b;\n\tst.param.b32 \t[a], 4;\n\tcall.uni (b), helper, (a);\n\tld.param.b32 \t%r1, [b];\n\t}}
\tst.global.u32 \t[%rd2], %r1;\n\tret;\n}}\n"
    )
}

/// The same without the undefined function, so that it can be a program of its own.
pub fn whole_ptx(version: &str, target: &str) -> String {
    let ptx = sample_ptx(version, target);
    ptx.replace(".extern .func (.param .b32 r) missing (.param .b32 p);\n", "")
}

/// Writes `ptx` into `dir` and assembles it for `arch` with further arguments of ptxas.
pub fn ptxas(dir: &Path, ptx: &str, arch: &str, args: &[&str]) -> Vec<u8> {
    let (source, cubin) = (dir.join("sample.ptx"), dir.join("sample.cubin"));
    std::fs::write(&source, ptx).expect("the PTX is written");
    let paths = [OsStr::new("-o"), cubin.as_os_str(), source.as_os_str()];
    let words = ["-arch", arch].into_iter().chain(args.iter().copied()).map(OsStr::new);
    run(&cuda("ptxas"), words.chain(paths));
    std::fs::read(&cubin).expect("ptxas wrote a cubin")
}
