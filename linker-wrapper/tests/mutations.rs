//! Damaged inputs: whatever the bytes, the program ends by itself with exit code 0 or 1, says why, leaves
//! no output behind a failure, no temporary file and no changed input.
//!
//! The samples are what clang really makes. `cargo xtask test` sets the environment.

use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::LazyLock;
use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use tempfile::TempDir;

const LLVM: &str = "/usr/lib/llvm-22/bin";
/// A link of these samples takes 0.05 s; what runs so much longer hangs.
const LONGEST: Duration = Duration::from_secs(600);

const DEVICE_CODE: &str = r#"
// What clang wants to see of the CUDA runtime; its headers would take seconds.
struct dim3 { unsigned x, y, z; };
typedef struct stream *cudaStream_t;
extern "C" int cudaLaunchKernel(const void *, dim3, dim3, void **, __SIZE_TYPE__, cudaStream_t);
extern "C" int __cudaPopCallConfiguration(dim3 *, dim3 *, __SIZE_TYPE__ *, void *);
__attribute__((device)) int shared_value;
extern __attribute__((device)) int helper(int);
__attribute__((global)) void kernel(int *out) { out[0] = helper(shared_value); }
"#;
const HELPER: &str = r#"
__attribute__((device)) int helper(int value) { return value * 3 + 1; }
__attribute__((device)) int table[4] = {1, 2, 3, 4};
"#;
const NVCC_KERNEL: &str = "extern __device__ int helper(int);\n\
    __global__ void kernel(int *out) { out[0] = helper(out[1]); }\nvoid launch() { kernel<<<1, 1>>>(0); }\n";
const OPENMP: &str = "int main() { int x = 0;\n#pragma omp target map(tofrom: x)\n  x = 1;\n  return x; }\n";

/// A relocatable link whose device code a later link takes.
const MERGE: [&str; 2] = ["-r", "--offload-relocatable=merge"];

/// Address space of a link, in bytes. For some damaged LTO-IR nvlink 13.0 reads memory that it never wrote, and takes 20 GB before it gives up.
const MOST_MEMORY: u64 = 4 << 30;

/// Objects as clang leaves them, made once.
struct Samples {
    folder: TempDir,
}

static SAMPLES: LazyLock<Samples> = LazyLock::new(Samples::make);

impl Samples {
    fn make() -> Self {
        let samples = Samples { folder: tempfile::tempdir().unwrap() };
        let cuda = ["-x", "cuda", "-nogpuinc", "-nogpulib", "-fgpu-rdc", "--offload-arch=sm_90", "-O1"];
        let lto = [&cuda[..], &["-foffload-lto"]].concat();
        for (name, source) in [("kernel", DEVICE_CODE), ("helper", HELPER)] {
            samples.compile(&format!("{name}.lto.o"), source, &lto);
            samples.compile(&format!("{name}.cubin.o"), source, &cuda);
            samples.compile(&format!("{name}.host.o"), source, &[&lto[..], &["-flto"]].concat());
        }
        samples.compile_with_nvcc();
        samples.compile("openmp.o", OPENMP, &["-x", "c", "-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"]);
        run(Command::new(format!("{LLVM}/llvm-ar")).current_dir(samples.folder.path()).args([
            "rcs",
            "all.a",
            "kernel.lto.o",
        ]));
        samples.merge();
        samples
    }

    fn merge(&self) {
        let mut link = Command::new(env!("CARGO_BIN_EXE_fatlink"));
        link.current_dir(self.folder.path()).arg(format!("--cuda-path={}", cuda().display()));
        run(link.args(MERGE).args(["helper.lto.o", "kernel.lto.o", "-o", "merged.o"]));
    }

    fn compile(&self, output: &str, source: &str, options: &[&str]) {
        let input = self.folder.path().join(format!("{output}.source"));
        std::fs::write(&input, source).unwrap();
        let mut clang = Command::new(format!("{LLVM}/clang"));
        clang.current_dir(self.folder.path()).args(options).arg(format!("--cuda-path={}", cuda().display()));
        run(clang
            .args(["-Wno-unknown-cuda-version", "-Wno-unused-command-line-argument"])
            .arg("-c")
            .arg(&input)
            .args(["-o", output]));
    }

    /// Units in each form of code that nvcc's objects have, and what they call.
    fn compile_with_nvcc(&self) {
        std::fs::write(self.folder.path().join("kernel.cu"), NVCC_KERNEL).unwrap();
        std::fs::write(self.folder.path().join("helper.cu"), HELPER).unwrap();
        for (unit, kind, code) in [
            ("helper", "nvcc", "[sm_90,compute_90]"),
            ("kernel", "nvcc", "[sm_90,compute_90]"),
            ("kernel", "ltoir", "lto_90"),
            ("kernel", "ptx", "compute_90"),
        ] {
            let mut nvcc = Command::new(cuda().join("bin/nvcc"));
            nvcc.current_dir(self.folder.path()).args(["-gencode", &format!("arch=compute_90,code={code}"), "-dc"]);
            run(nvcc.args([&format!("{unit}.cu"), "-o", &format!("{unit}.{kind}.o")]));
        }
        // What a relocatable device link leaves: its result with its unit behind it.
        let mut nvcc = Command::new(cuda().join("bin/nvcc"));
        nvcc.current_dir(self.folder.path()).args(["-arch=sm_90", "-r", "kernel.nvcc.o", "-o", "relinked.nvcc.o"]);
        run(&mut nvcc);
        let mut archiver = Command::new(format!("{LLVM}/llvm-ar"));
        run(archiver.current_dir(self.folder.path()).args(["rcs", "nvcc.a", "kernel.nvcc.o", "kernel.ltoir.o"]));
    }

    fn bytes(&self, name: &str) -> Vec<u8> {
        std::fs::read(self.folder.path().join(name)).unwrap()
    }
}

fn cuda() -> PathBuf {
    std::env::var_os("CUDA_PATH").expect("CUDA_PATH is not set: run `cargo xtask test`").into()
}

fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Changes to a file: bytes to overwrite, by place in thousandths of the file, and where to cut it off.
#[derive(Debug, Clone)]
struct Damage {
    bytes: Vec<(u32, u8)>,
    cut: Option<u32>,
}

fn damage() -> impl Strategy<Value = Damage> {
    let byte = (0..1_000_000_u32, prop_oneof![Just(0), Just(0xff), any::<u8>()]);
    let cut = prop_oneof![9 => Just(None), 1 => (0..1_000_000_u32).prop_map(Some)];
    (prop::collection::vec(byte, 1..12), cut).prop_map(|(bytes, cut)| Damage { bytes, cut })
}

impl Damage {
    fn apply(&self, mut file: Vec<u8>) -> Vec<u8> {
        let place = |millionths: u32, length: usize| (millionths as usize * length) / 1_000_000;
        for (at, value) in &self.bytes {
            let at = place(*at, file.len());
            file[at] = *value;
        }
        if let Some(cut) = self.cut {
            file.truncate(place(cut, file.len()));
        }
        file
    }
}

/// Links the damaged sample with a sound one to a fatbin and checks how that ends.
fn check(sample: &str, beside: &str, damage: &Damage) -> Result<(), TestCaseError> {
    check_as(&["--emit-fatbin-only"], sample, beside, damage)
}

fn check_as(mode: &[&str], sample: &str, beside: &str, damage: &Damage) -> Result<(), TestCaseError> {
    let folder = tempfile::tempdir().unwrap();
    let temporary = folder.path().join("tmp");
    std::fs::create_dir(&temporary).unwrap();
    let ending = Path::new(sample).extension().unwrap().to_str().unwrap();
    let input = folder.path().join(format!("damaged.{ending}"));
    let bytes = damage.apply(SAMPLES.bytes(sample));
    std::fs::write(&input, &bytes).unwrap();
    let mut link = Command::new("prlimit");
    link.arg(format!("--as={MOST_MEMORY}")).arg(env!("CARGO_BIN_EXE_fatlink"));
    link.current_dir(folder.path()).env("TMPDIR", &temporary).arg(format!("--cuda-path={}", cuda().display()));
    link.args(mode).args(["-o", "out"]).arg(&input).arg(SAMPLES.folder.path().join(beside));
    let (status, words) = ended(&mut link, folder.path());
    prop_assert!(matches!(status.code(), Some(0 | 1)), "{status}: {words}");
    prop_assert!(status.success() || words.contains("error: "), "no reason given: {words}");
    prop_assert!(!words.contains("panicked"), "{words}");
    prop_assert_eq!(std::fs::read(&input).unwrap(), bytes, "the input was changed");
    let left: Vec<_> = std::fs::read_dir(&temporary).unwrap().collect();
    prop_assert!(left.is_empty(), "left behind: {left:?}");
    prop_assert!(status.success() || !folder.path().join("out").exists(), "an output in spite of: {words}");
    Ok(())
}

/// Runs to the end, or panics when that does not come.
fn ended(command: &mut Command, folder: &Path) -> (ExitStatus, String) {
    let log = folder.join("stderr");
    let errors = std::fs::File::create(&log).unwrap();
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(errors).spawn().unwrap();
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return (status, String::from_utf8_lossy(&std::fs::read(&log).unwrap()).into_owned());
        }
        if start.elapsed() > LONGEST {
            child.kill().unwrap();
            panic!("the program hangs: {command:?}");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

#[test]
fn sound_samples_link() {
    let none = Damage { bytes: Vec::new(), cut: None };
    for (sample, beside) in [
        ("kernel.lto.o", "helper.lto.o"),
        ("kernel.cubin.o", "helper.cubin.o"),
        ("kernel.host.o", "helper.lto.o"),
        ("kernel.nvcc.o", "helper.nvcc.o"),
        ("kernel.nvcc.o", "helper.lto.o"),
        ("kernel.ltoir.o", "helper.nvcc.o"),
        ("kernel.ptx.o", "helper.nvcc.o"),
        ("relinked.nvcc.o", "helper.nvcc.o"),
        ("nvcc.a", "helper.nvcc.o"),
        ("openmp.o", "openmp.o.source"),
        ("merged.o", "openmp.o.source"),
    ] {
        check(sample, beside, &none).unwrap();
    }
}

/// The same damage in every run, so that a run says what the last one said. `PROPTEST_CASES` and
/// `PROPTEST_RNG_SEED` widen the search by hand.
fn config() -> ProptestConfig {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    ProptestConfig {
        cases: number("PROPTEST_CASES").and_then(|cases| u32::try_from(cases).ok()).unwrap_or(64),
        rng_seed: RngSeed::Fixed(number("PROPTEST_RNG_SEED").unwrap_or(22)),
        failure_persistence: None,
        max_shrink_iters: 10,
        ..ProptestConfig::default()
    }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn bitcode_objects(damage in damage()) {
        check("kernel.lto.o", "helper.lto.o", &damage)?;
    }

    #[test]
    fn cubin_objects(damage in damage()) {
        check("kernel.cubin.o", "helper.cubin.o", &damage)?;
    }

    #[test]
    fn bitcode_hosts(damage in damage()) {
        check("kernel.host.o", "helper.lto.o", &damage)?;
    }

    #[test]
    fn objects_of_nvcc(damage in damage()) {
        check("kernel.nvcc.o", "helper.nvcc.o", &damage)?;
    }

    #[test]
    fn lto_ir_of_nvcc(damage in damage()) {
        check("kernel.ltoir.o", "helper.lto.o", &damage)?;
    }

    #[test]
    fn ptx_of_nvcc(damage in damage()) {
        check("kernel.ptx.o", "helper.nvcc.o", &damage)?;
    }

    #[test]
    fn archives_of_nvcc(damage in damage()) {
        check("nvcc.a", "helper.nvcc.o", &damage)?;
    }

    #[test]
    fn relocatable_links_of_nvcc(damage in damage()) {
        check("relinked.nvcc.o", "helper.nvcc.o", &damage)?;
    }

    #[test]
    fn device_links_of_nvcc(damage in damage()) {
        check_as(&["--dlink"], "kernel.nvcc.o", "helper.nvcc.o", &damage)?;
    }

    #[test]
    fn archives(damage in damage()) {
        check("all.a", "helper.lto.o", &damage)?;
    }

    #[test]
    fn merged_objects(damage in damage()) {
        check("merged.o", "openmp.o.source", &damage)?;
    }

    #[test]
    fn links_that_merge(damage in damage()) {
        check_as(&MERGE, "kernel.lto.o", "helper.lto.o", &damage)?;
    }

    #[test]
    fn links_that_merge_again(damage in damage()) {
        check_as(&MERGE, "merged.o", "openmp.o", &damage)?;
    }

    #[test]
    fn openmp_objects(damage in damage()) {
        check("openmp.o", "openmp.o.source", &damage)?;
    }
}
