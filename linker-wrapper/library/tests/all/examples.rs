//! The examples of the documentation.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::common::{SAMPLES, cuda, folder, linker, program, run};
use fatlink::{HostMachine, Images, Link, object_of};

const LLVM: &str = "/usr/lib/llvm-22/bin";

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("examples")
}

/// A program of the same folder as fatlink.
fn beside(name: &str) -> Command {
    Command::new(program().with_file_name(name))
}

#[test]
fn device_code_of_rustc_is_linked_with_cuda() {
    let folder = folder();
    let (bitcode, object) = (folder.path().join("scale.bc"), folder.path().join("kernel.o"));
    let sources = examples().join("rust-device-code");
    let mut rustc = Command::new("rustc");
    rustc.env("RUSTC_BOOTSTRAP", "1").args(["--target=nvptx64-nvidia-cuda", "-Ctarget-cpu=sm_90", "--crate-type=lib"]);
    run(rustc.args(["-O", "--emit=llvm-bc"]).arg(sources.join("scale.rs")).arg("-o").arg(&bitcode));
    let mut clang = Command::new(format!("{LLVM}/clang++"));
    clang.args(["-x", "cuda", "-c", "-fgpu-rdc", "-foffload-lto", "--offload-arch=sm_90", "-Wno-unknown-cuda-version"]);
    run(clang.arg(format!("--cuda-path={}", cuda().display())).arg(sources.join("kernel.cu")).arg("-o").arg(&object));
    let (linker, _temporary) = linker();
    let link = Link::new().file(&object).unit(std::fs::read(&bitcode).unwrap(), "scale.bc").target("sm_90");
    let image = folder.path().join("image");
    std::fs::write(&image, linker.run(&link).unwrap().image).unwrap();
    let listed = run(beside("offload-bundle").arg("resources").arg(&image));
    assert!(listed.contains("scale_all(float*)") && listed.contains("scale [function]"), "{listed}");
    let without = linker.run(&Link::new().file(&object)).unwrap_err();
    assert!(without.to_string().contains("undefined device symbol 'scale'"), "{without}");
}

#[test]
fn images_of_several_targets_become_an_object_with_a_symbol() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name);
    // What compilers of kernels leave: PTX, and cubins of it for the GPUs that are known.
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k() { ret; }\n";
    std::fs::write(path("k.ptx"), ptx).unwrap();
    let mut cubins = Vec::new();
    for target in ["sm_80", "sm_90"] {
        let cubin = path(target);
        run(Command::new(cuda().join("bin/ptxas")).arg("-arch").arg(target).arg(path("k.ptx")).arg("-o").arg(&cubin));
        cubins.push(std::fs::read(cubin).unwrap());
    }
    let images = cubins.iter().fold(Images::new(), |images, cubin| images.add(cubin, "k.cubin").unwrap());
    let fatbin = images.add(ptx.as_bytes(), "k.ptx").unwrap().fatbin().unwrap();
    let object = object_of(&fatbin, "kernels", HostMachine::of_this_build().unwrap()).unwrap();
    std::fs::write(path("kernels.o"), object).unwrap();
    let listed = run(beside("offload-bundle").arg("list").arg(path("kernels.o")));
    let targets: Vec<&str> = listed.lines().skip(1).filter_map(|line| line.split_whitespace().nth(3)).collect();
    assert_eq!(targets, ["sm_80", "sm_90", "sm_80"], "{listed}");
    // A program finds the image by its symbol.
    let main = "#include <stdio.h>\nextern const unsigned kernels[]; extern const char kernels_end[];\n\
        int main() { printf(\"%x %zu\", kernels[0], (size_t)(kernels_end - (const char *)kernels)); return 0; }\n";
    std::fs::write(path("main.c"), main).unwrap();
    run(Command::new("gcc")
        .args(["-Wl,--fatal-warnings"])
        .arg(path("main.c"))
        .arg(path("kernels.o"))
        .arg("-o")
        .arg(path("main")));
    assert_eq!(run(&mut Command::new(path("main"))), format!("ba55ed50 {}", fatbin.len()));
}

#[test]
fn a_linked_image_becomes_an_object_with_a_symbol() {
    let (linker, _temporary) = linker();
    let link = Link::new().file(SAMPLES.path("kernel.hip.o")).file(SAMPLES.path("helper.hip.o"));
    let linked = linker.run(&link.image_only()).unwrap();
    let object = object_of(&linked.image, "kernels", HostMachine::Aarch64).unwrap();
    assert!(object.windows(linked.image.len()).any(|bytes| bytes == linked.image));
}

#[test]
fn a_build_script_links_the_kernels_of_a_program() {
    let folder = folder();
    let project = folder.path().join("project");
    run(Command::new("cp").arg("--recursive").arg(examples().join("build-script")).arg(&project));
    // Its dependencies are those of the workspace, which are at hand.
    let manifest = std::fs::read_to_string(project.join("Cargo.toml")).unwrap();
    let library = format!("path = \"{}\"", env!("CARGO_MANIFEST_DIR"));
    std::fs::write(project.join("Cargo.toml"), manifest.replace("path = \"../..\"", &library)).unwrap();
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    std::fs::copy(workspace.join("Cargo.lock"), project.join("Cargo.lock")).unwrap();
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).join("build-script");
    let mut cargo = Command::new(env!("CARGO"));
    cargo
        .args(["run", "--quiet", "--offline"])
        .current_dir(&project)
        .env("CARGO_TARGET_DIR", &target)
        .env("CARGO_PROFILE_DEV_DEBUG", "false");
    cargo.env("FATLINK", program()).env("CLANG", format!("{LLVM}/clang++")).env("CUDA_PATH", cuda());
    cargo.env_remove("RUSTFLAGS").env_remove("CARGO_ENCODED_RUSTFLAGS").env_remove("CARGO_BUILD_TARGET");
    let output = run(&mut cargo);
    assert!(output == "[3.0, 6.0, 9.0]\n" || output.ends_with("of the CUDA runtime\n"), "{output}");
    let built = target.join("debug/kernels-by-build-script");
    let listed = run(beside("offload-bundle").arg("resources").arg(&built));
    assert!(listed.contains("scale_all(float*)"), "{listed}");
}
