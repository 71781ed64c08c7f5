//! Objects as clang leaves them, and the program that links them. `cargo xtask test` sets the environment.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use fatlink::Linker;
use tempfile::TempDir;

const LLVM: &str = "/usr/lib/llvm-22/bin";

/// What clang wants to see of the CUDA runtime; its headers would take seconds.
const RUNTIME: &str = r#"
struct dim3 { unsigned x, y, z; };
typedef struct stream *cudaStream_t;
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, cudaStream_t);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
extern "C" int hipLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, cudaStream_t);
extern "C" int __hipPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
#define device __attribute__((device))
#define global __attribute__((global))
"#;
const KERNEL: &str = "extern device int helper(int);\nglobal void kernel(int *out) { out[0] = helper(out[1]); }\n";
const HELPER: &str = "device int helper(int value) { return value * 3 + 1; }\n";

/// The samples, made once.
pub static SAMPLES: LazyLock<Samples> = LazyLock::new(Samples::make);

/// Files in a folder that stays until the process ends.
pub struct Samples(PathBuf);

impl Samples {
    fn make() -> Self {
        let samples = Samples(folder().keep());
        let cuda = ["-x", "cuda", "--offload-arch=sm_90", "-foffload-lto"];
        let hip = ["-x", "hip", "--offload-new-driver", "--offload-arch=gfx90a"];
        for (name, text) in [("kernel", KERNEL), ("helper", HELPER)] {
            let source = samples.path(&format!("{name}.cu"));
            std::fs::write(&source, [RUNTIME, text].concat()).unwrap();
            samples.compile(&source, &format!("{name}.o"), &[&cuda[..], &["-c"]].concat());
            samples.compile(&source, &format!("{name}.hip.o"), &[&hip[..], &["-c"]].concat());
            let only = ["-x", "cuda", "--offload-arch=sm_90", "--offload-device-only"];
            samples.compile(&source, &format!("{name}.bc"), &[&only[..], &["-c", "-emit-llvm"]].concat());
            samples.compile(&source, &format!("{name}.ptx"), &[&only[..], &["-S"]].concat());
        }
        run(Command::new(format!("{LLVM}/llvm-ar"))
            .arg("rc")
            .arg(samples.path("libhelper.a"))
            .arg(samples.path("helper.o")));
        samples
    }

    fn compile(&self, source: &Path, output: &str, words: &[&str]) {
        let mut clang = Command::new(format!("{LLVM}/clang++"));
        clang.args(["-nogpuinc", "-nogpulib", "-fgpu-rdc", "-O2", "-Wno-unknown-cuda-version"]).args(words);
        run(clang.arg(source).arg("-o").arg(self.path(output)));
    }

    /// The path of a sample.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Its bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.path(name)).unwrap()
    }

    /// What the program makes of samples with these words.
    pub fn linked_by_program(&self, words: &[&str], names: &[&str]) -> Vec<u8> {
        let folder = folder();
        let output = folder.path().join("output");
        run(Command::new(program()).args(words).arg("-o").arg(&output).args(names).current_dir(&self.0));
        std::fs::read(output).unwrap()
    }
}

/// The program fatlink of `cargo xtask test`, or that of dist/.
pub fn program() -> PathBuf {
    let dist = std::env::var_os("FATLINK_DIST").map(PathBuf::from);
    dist.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../dist")).join("bin/fatlink")
}

/// The CUDA toolkit.
pub fn cuda() -> PathBuf {
    std::env::var_os("CUDA_PATH").expect("`eval \"$(cargo xtask env)\"` sets CUDA_PATH").into()
}

/// A linker of this program and toolkit, whose temporary files are in a folder of their own.
pub fn linker() -> (Linker, TempDir) {
    let temporary = folder();
    // ld.lld links for AMD's GPUs.
    let linker = Linker::at(program()).cuda(cuda()).variable("PATH", LLVM).temporary_files_in(temporary.path());
    (linker, temporary)
}

/// What is in a folder.
pub fn entries(folder: &Path) -> Vec<PathBuf> {
    std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

pub fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Runs a tool that has to succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{}: {error}", command.get_program().display()));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {text}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The processes whose command line has this word.
pub fn processes_with(word: &OsStr) -> Vec<String> {
    let word = word.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let own = std::process::id().to_string();
    all.filter(|path| !path.ends_with(&own))
        .filter_map(|path| std::fs::read(path.join("cmdline")).ok())
        .map(|line| String::from_utf8_lossy(&line).replace('\0', " "))
        .filter(|line| line.contains(word))
        .collect()
}
