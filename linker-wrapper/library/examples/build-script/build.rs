//! Compiles kernels/*.cu with clang, links their device code, and leaves both in a static library for the program.
//!
//! Variables: FATLINK names the program fatlink, CLANG the compiler, CUDA_PATH the CUDA toolkit, AR the archiver.

use std::env;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::process::Command;

use fatlink::{Link, Linker, Ptx};

fn main() -> Result<(), Box<dyn Error>> {
    let output = PathBuf::from(env::var("OUT_DIR")?);
    let cuda = variable("CUDA_PATH", "/usr/local/cuda");
    let mut objects = Vec::new();
    for name in ["scale", "device"] {
        objects.push(compile(name, &cuda, &output)?);
    }
    let linker = Linker::at(variable("FATLINK", "fatlink")).cuda(&cuda);
    let link = objects.iter().fold(Link::new().ptx(Ptx::Newest), |link, object| link.file(object));
    let linked = match linker.run(&link) {
        Ok(linked) => linked,
        Err(error) => {
            // cargo shows them when the script fails.
            error.diagnostics().iter().for_each(|diagnostic| eprintln!("{diagnostic}"));
            return Err("the device link failed".into());
        }
    };
    for diagnostic in &linked.diagnostics {
        println!("cargo::warning={}", diagnostic.message.replace('\n', " "));
    }
    let registration = output.join("registration.o");
    std::fs::write(&registration, linked.registration.unwrap_or_default())?;
    objects.push(registration);
    archive(&objects, &output.join("libkernels.a"))?;
    // Nothing references the object that registers the kernels: it stays only in a library that is linked as a whole.
    println!("cargo::rustc-link-search=native={}", output.display());
    println!("cargo::rustc-link-lib=static:+whole-archive=kernels");
    println!("cargo::rustc-link-search=native={cuda}/lib64");
    println!("cargo::rustc-link-search=native={cuda}/lib");
    for library in ["static=cudart_static", "dylib=dl", "dylib=rt", "dylib=pthread", "dylib=stdc++"] {
        println!("cargo::rustc-link-lib={library}");
    }
    // What the runtime learns of the kernels are entries that only the ends of their section lead to; rustc's lld would remove them.
    println!("cargo::rustc-link-arg=-Wl,-z,nostart-stop-gc");
    Ok(())
}

/// The value of a variable of the environment; cargo runs the script again when it changes.
fn variable(name: &str, default: &str) -> String {
    println!("cargo::rerun-if-env-changed={name}");
    env::var(name).unwrap_or_else(|_| default.to_owned())
}

fn compile(name: &str, cuda: &str, output: &Path) -> Result<PathBuf, Box<dyn Error>> {
    let source = format!("kernels/{name}.cu");
    println!("cargo::rerun-if-changed={source}");
    let object = output.join(format!("{name}.o"));
    let mut clang = Command::new(variable("CLANG", "clang++"));
    clang.args(["-x", "cuda", "-c", "-fPIC", "-O2", "-fgpu-rdc", "-foffload-lto", "--offload-arch=sm_90"]);
    clang.arg(format!("--cuda-path={cuda}")).arg("-Wno-unknown-cuda-version").arg(&source).arg("-o").arg(&object);
    run(&mut clang)?;
    Ok(object)
}

fn archive(objects: &[PathBuf], library: &Path) -> Result<(), Box<dyn Error>> {
    run(Command::new(variable("AR", "ar")).arg("crs").arg(library).args(objects))
}

fn run(command: &mut Command) -> Result<(), Box<dyn Error>> {
    let status = command.status().map_err(|error| format!("{command:?}: {error}"))?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
