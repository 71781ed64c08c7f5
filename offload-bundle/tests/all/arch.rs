//! The lowest PTX version of every target, and what runs where, asked of the real ptxas and nvlink.

use std::process::Command;

use offload_bundle::{CudaRelease, GpuArch, PtxVersion};

use crate::tools;

fn assembles(dir: &std::path::Path, version: PtxVersion, arch: GpuArch) -> bool {
    let source = dir.join("sample.ptx");
    let ptx = format!(".version {version}\n.target {arch}\n.address_size 64\n.visible .entry k() {{ ret; }}\n");
    std::fs::write(&source, ptx).expect("the PTX is written");
    let target = arch.to_string();
    let output = Command::new(tools::cuda("ptxas"))
        .args(["-arch", target.as_str(), "-o", "/dev/null"])
        .arg(&source)
        .output()
        .expect("ptxas starts");
    output.status.success()
}

#[test]
fn min_ptx_is_what_ptxas_wants() {
    let dir = tempfile::tempdir().expect("a folder");
    for target in tools::TARGETS {
        let arch: GpuArch = target.parse().expect("an architecture");
        let min = arch.min_ptx();
        assert!(assembles(dir.path(), min, arch), "{target} with PTX {min}");
        let Some(CudaRelease { major, .. }) = min.cuda_release() else { panic!("no CUDA release has PTX {min}") };
        let before = match min.minor {
            // ptxas is more lenient than the PTX manual here.
            _ if target == "sm_88" => continue,
            0 => PtxVersion { major: min.major - 1, minor: if major == 13 { 8 } else { 5 } },
            _ => PtxVersion { major: min.major, minor: min.minor - 1 },
        };
        assert!(!assembles(dir.path(), before, arch), "{target} with PTX {before}");
    }
}

#[test]
fn suffixes_decide_what_assembles() {
    let dir = tempfile::tempdir().expect("a folder");
    for ptx in tools::TARGETS {
        let ptx: GpuArch = ptx.parse().expect("an architecture");
        for gpu in ["sm_80", "sm_90", "sm_90a", "sm_100", "sm_103a", "sm_110", "sm_120f", "sm_121"] {
            let gpu: GpuArch = gpu.parse().expect("an architecture");
            let source = dir.path().join("sample.ptx");
            let text = format!(".version 9.0\n.target {ptx}\n.address_size 64\n.visible .entry k() {{ ret; }}\n");
            std::fs::write(&source, text).expect("the PTX is written");
            let target = gpu.to_string();
            let mut command = Command::new(tools::cuda("ptxas"));
            let command = command.args(["-arch", target.as_str(), "-o", "/dev/null"]).arg(&source);
            let taken = command.output().expect("ptxas starts").status.success();
            assert_eq!(gpu.assembles_ptx_of(ptx), taken, "PTX of {ptx} for {gpu}");
        }
    }
}

#[test]
fn machine_code_runs_where_nvlink_links_it() {
    const PLAIN: [&str; 12] = [
        "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_100", "sm_103", "sm_110", "sm_120", "sm_121",
    ];
    let dir = tempfile::tempdir().expect("a folder");
    let input = dir.path().join("input.cubin");
    for sass in PLAIN {
        let arch: GpuArch = sass.parse().expect("an architecture");
        let ptx = tools::whole_ptx(&arch.min_ptx().to_string(), sass);
        std::fs::write(&input, tools::ptxas(dir.path(), &ptx, sass, &["-c"])).expect("the cubin is written");
        for gpu in PLAIN {
            let mut command = Command::new(tools::cuda("nvlink"));
            let command = command.args(["-arch", gpu, "-o", "/dev/null"]).arg(&input);
            let linked = command.output().expect("nvlink starts").status.success();
            let gpu: GpuArch = gpu.parse().expect("an architecture");
            assert_eq!(gpu.runs_sass_of(arch), linked, "code of {sass} on {gpu}");
        }
    }
}
