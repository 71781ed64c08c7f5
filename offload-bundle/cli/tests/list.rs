//! The command `offload-bundle list`, on files of the real tools.

#[path = "../../tests/tools/mod.rs"]
mod tools;

use std::path::Path;
use std::process::{Command, Output};

use offload_bundle::GpuArch;
use offload_bundle::fatbin::{BuilderOptions, FatbinWriter};
use offload_bundle::offload_binary::{ImageKind, ImageToWrite, OffloadKinds, write};

fn list(dir: &Path, args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_offload-bundle"));
    command.current_dir(dir).arg("list").args(args).output().expect("the command starts")
}

/// Returns the standard output of a successful run.
fn listed(dir: &Path, args: &[&str]) -> String {
    let output = list(dir, args);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "");
    assert!(output.status.success());
    String::from_utf8(output.stdout).expect("text")
}

/// Returns the standard error of a failed run.
fn error_of(dir: &Path, args: &[&str]) -> String {
    let output = list(dir, args);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    String::from_utf8(output.stderr).expect("text")
}

fn save(dir: &Path, name: &str, bytes: &[u8]) {
    std::fs::write(dir.join(name), bytes).expect("the file is written");
}

fn sample_fatbin(dir: &Path) -> Vec<u8> {
    let arch = |name: &str| name.parse::<GpuArch>().expect("an architecture");
    let mut writer = FatbinWriter::new(BuilderOptions { compress: false, ..BuilderOptions::default() });
    let cubin = tools::ptxas(dir, &tools::whole_ptx("8.0", "sm_90a"), "sm_90a", &[]);
    writer.add_cubin(arch("sm_90a"), cubin, "kernel.cu").expect("a sound cubin");
    let ptx = b".version 8.8\n.target sm_90\n.address_size 64\n";
    writer.add_ptx(arch("sm_90"), ptx, "", "").expect("sound PTX");
    writer.finish()
}

/// Assembles an object whose offload section holds `payload`.
fn object_with(dir: &Path, name: &str, payload: &[u8]) {
    save(dir, "payload.bin", payload);
    let source = ".section .llvm.offloading,\"e\",@llvm_offloading\n.p2align 3\n.incbin \"payload.bin\"\n";
    save(dir, "object.s", source.as_bytes());
    let output = Command::new(tools::llvm("llvm-mc"))
        .current_dir(dir)
        .args(["-filetype=obj", "-triple=x86_64-linux-gnu", "object.s", "-o", name])
        .output()
        .expect("llvm-mc starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

fn bitcode_image(arch: &str) -> Vec<u8> {
    write(&ImageToWrite {
        image_kind: ImageKind::Bitcode,
        offload_kinds: OffloadKinds::CUDA,
        flags: 0,
        strings: vec![("triple", "nvptx64-nvidia-cuda"), ("arch", arch)],
        image: b"BC\xc0\xde1234",
    })
}

fn archive(dir: &Path, flags: &str, name: &str, members: &[&str]) {
    let output = Command::new(tools::llvm("llvm-ar")).current_dir(dir).args([flags, name]).args(members).output();
    assert!(output.expect("llvm-ar starts").status.success());
}

#[test]
fn columns_of_a_fatbin() {
    let dir = tempfile::tempdir().expect("a folder");
    let fatbin = sample_fatbin(dir.path());
    save(dir.path(), "x.fatbin", &fatbin);
    let text = listed(dir.path(), &["x.fatbin"]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines[0], ["OFFSET", "KIND", "TARGET", "IMAGE", "SIZE", "COMPRESSION"]);
    assert_eq!(lines[1][..5], ["0x60", "cuda", "sm_90a", "cubin", "(executable)"]);
    assert_eq!(lines[2][1..5], ["cuda", "sm_90", "ptx", "8.8"]);
    assert_eq!(lines.len(), 3);
}

#[test]
fn the_same_entries_as_cuobjdump() {
    let dir = tempfile::tempdir().expect("a folder");
    save(dir.path(), "x.fatbin", &sample_fatbin(dir.path()));
    let cuobjdump = |flag: &str| {
        let file = dir.path().join("x.fatbin");
        tools::run(&tools::cuda("cuobjdump"), [flag.as_ref(), file.as_os_str()])
    };
    assert!(cuobjdump("-lelf").contains("sm_90a.cubin"));
    assert!(cuobjdump("-lptx").contains("sm_90.ptx"));
}

#[test]
fn json_has_stable_keys() {
    let dir = tempfile::tempdir().expect("a folder");
    save(dir.path(), "x.fatbin", &sample_fatbin(dir.path()));
    let text = listed(dir.path(), &["x.fatbin", "--json"]);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let row = value[0].as_object().expect("an object");
    let keys: Vec<&str> = row.keys().map(String::as_str).collect();
    let mut expected = [
        "member",
        "section",
        "offset",
        "kind",
        "triple",
        "target",
        "image",
        "relocatable",
        "version",
        "name",
        "size",
        "compression",
        "uncompressed_size",
        "entries",
    ];
    expected.sort_unstable();
    assert_eq!(keys, expected);
    assert_eq!(row["offset"], 0x60);
    assert_eq!(row["name"], "kernel.cu");
    assert_eq!(row["relocatable"], false);
    assert_eq!(value[1]["version"], "8.8");
}

#[test]
fn archives_regular_and_thin() {
    let dir = tempfile::tempdir().expect("a folder");
    let payload = [bitcode_image("sm_80"), bitcode_image("sm_90")].concat();
    object_with(dir.path(), "a.o", &payload);
    object_with(dir.path(), "none.o", &[]);
    archive(dir.path(), "rcs", "regular.a", &["a.o", "none.o"]);
    archive(dir.path(), "rcsT", "thin.a", &["a.o", "none.o"]);
    for name in ["regular.a", "thin.a"] {
        let text = listed(dir.path(), &[name]);
        let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(lines.len(), 3, "{text}");
        let seen = |line: usize| [lines[line][0], lines[line][1], lines[line][4], lines[line][5]];
        assert_eq!(seen(1), ["a.o", ".llvm.offloading", "sm_80", "bitcode"]);
        assert_eq!(seen(2), ["a.o", ".llvm.offloading", "sm_90", "bitcode"]);
    }
    let archive = std::fs::read(dir.path().join("regular.a")).expect("the archive");
    let rows: serde_json::Value = serde_json::from_str(&listed(dir.path(), &["regular.a", "--json"])).expect("JSON");
    let at = usize::try_from(rows[0]["offset"].as_u64().expect("a number")).expect("small");
    assert_eq!(&archive[at..at + 8], b"BC\xc0\xde1234");

    std::fs::remove_file(dir.path().join("none.o")).expect("the member goes");
    let text = error_of(dir.path(), &["thin.a"]);
    assert!(text.starts_with("offload-bundle: error: thin.a(none.o): No such file"), "{text}");
}

#[test]
fn no_device_images() {
    let dir = tempfile::tempdir().expect("a folder");
    object_with(dir.path(), "none.o", &[]);
    save(dir.path(), "text", b"INPUT(libx.a)\n");
    save(dir.path(), "empty", b"");
    let other = "not an object, library, program, archive or container of device images";
    for (name, why) in [("none.o", "its containers are empty"), ("text", other), ("empty", other)] {
        assert_eq!(listed(dir.path(), &[name]), format!("no device images: {why}\n"));
        assert_eq!(listed(dir.path(), &[name, "--json"]), "[]\n");
    }
}

#[test]
fn damage_is_one_error_with_its_place() {
    let dir = tempfile::tempdir().expect("a folder");
    let fatbin = sample_fatbin(dir.path());
    save(dir.path(), "x.fatbin", &fatbin[..fatbin.len() - 8]);
    let text = error_of(dir.path(), &["x.fatbin"]);
    assert_eq!(
        text,
        "offload-bundle: error: x.fatbin: the body of the fatbin goes beyond the end of the data at offset 0x10\n"
    );

    let mut damaged = bitcode_image("sm_80");
    damaged[0] = 0;
    object_with(dir.path(), "bad.o", &damaged);
    archive(dir.path(), "rcs", "bad.a", &["bad.o"]);
    let text = error_of(dir.path(), &["bad.a"]);
    let start =
        "offload-bundle: error: bad.a(bad.o): section .llvm.offloading: no offload binary (wrong magic) at offset 0x";
    assert!(text.starts_with(start), "{text}");
    assert_eq!(text.lines().count(), 1);

    let text = error_of(dir.path(), &["missing"]);
    assert!(text.starts_with("offload-bundle: error: missing: No such file"), "{text}");
}

/// LLVM's linker wrapper puts the images into other sections than the compiler.
#[test]
fn a_device_link_of_llvm() {
    let dir = tempfile::tempdir().expect("a folder");
    let source = "int main(void) { int x = 0;\n#pragma omp target map(tofrom : x)\n{ x = 42; }\nreturn x != 42; }\n";
    save(dir.path(), "o.c", source.as_bytes());
    let clang = |args: &[&str]| {
        let mut command = Command::new(tools::llvm("clang"));
        let command = command.current_dir(dir.path()).args(["-fopenmp", "-fopenmp-targets=x86_64-pc-linux-gnu"]);
        let output = command.args(args).output().expect("clang starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    };
    clang(&["-c", "o.c", "-o", "o.o"]);
    clang(&["o.o", "-o", "app"]);
    let text = listed(dir.path(), &["o.o"]);
    assert!(text.contains("openmp  generic  object"), "{text}");
    let text = listed(dir.path(), &["app"]);
    assert!(text.contains("openmp  x86_64-pc-linux-gnu  object"), "{text}");

    let app = std::fs::read(dir.path().join("app")).expect("the program");
    let registered = offload_bundle::host_object::registered_kinds(&app);
    assert_eq!(registered, offload_bundle::offload_binary::OffloadKinds::OPENMP);
    let entries = offload_bundle::host_object::offload_entries(&app).expect("sound entries");
    assert_eq!(entries.len(), 1);
    assert!(entries[0].name.starts_with("__omp_offloading_"), "{entries:?}");
}
