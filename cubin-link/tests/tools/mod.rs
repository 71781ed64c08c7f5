//! The tools of the CUDA toolkit that the tests compare with.
#![allow(dead_code)]

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A tool of the CUDA toolkit. A missing toolkit fails the test: these tests are the proof that links are those of nvlink.
pub fn cuda(tool: &str) -> PathBuf {
    let path = std::env::var_os("CUDA_PATH").map(|root| Path::new(&root).join("bin").join(tool));
    match path {
        Some(path) if path.exists() => path,
        _ => panic!("no {tool} below $CUDA_PATH: run `cargo xtask setup`, then `eval $(cargo xtask env)`"),
    }
}

/// Runs a tool, whether it succeeds or not.
pub fn output(tool: &str, arguments: &[&str]) -> Output {
    Command::new(cuda(tool)).args(arguments).output().expect("the tool starts")
}

/// Assembles PTX to a relocatable cubin.
pub fn ptxas(folder: &Path, name: &str, ptx: &str, target: &str) -> PathBuf {
    let (source, object) = (folder.join(format!("{name}.ptx")), folder.join(format!("{name}.o")));
    std::fs::write(&source, ptx).expect("a file");
    let done = output("ptxas", &["-c", "-arch", target, path(&source), "-o", path(&object)]);
    assert!(done.status.success(), "ptxas: {}\n{ptx}", String::from_utf8_lossy(&done.stderr));
    object
}

/// Links with nvlink; its messages if it does not link.
pub fn nvlink(folder: &Path, target: &str, objects: &[PathBuf]) -> Result<Vec<u8>, String> {
    let linked = folder.join("nvlink.cubin");
    let mut arguments = vec!["-arch", target, "-o", path(&linked)];
    arguments.extend(objects.iter().map(|object| path(object)));
    let done = output("nvlink", &arguments);
    if !done.status.success() {
        return Err([done.stdout, done.stderr].iter().map(|text| String::from_utf8_lossy(text)).collect());
    }
    Ok(std::fs::read(&linked).expect("nvlink wrote a cubin"))
}

/// A path as text.
pub fn path(path: &Path) -> &str {
    path.to_str().expect("a path in UTF-8")
}
