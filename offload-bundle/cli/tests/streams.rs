//! The output streams: a full disk is an error, a closed pipe ends the printing without one.

#[path = "../../tests/tools/mod.rs"]
mod tools;

use std::fs::File;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use offload_bundle::GpuArch;
use offload_bundle::fatbin::{BuilderOptions, FatbinWriter};
use offload_bundle::offload_binary::{ImageKind, ImageToWrite, OffloadKinds, write};

/// Command lines for the files of [`prepare`]: each subcommand with output, then help and version, then failures.
const LINES: [&[&str]; 20] = [
    &["list", "a.fatbin"],
    &["list", "--json", "a.fatbin"],
    &["extract", "a.fatbin", "-o", "images/"],
    &["extract", "a.fatbin", "--index", "1", "-o", "-"],
    &["create", "-o", "new.fatbin", "--image=file=k.ptx", "--json"],
    &["strip", "a.fatbin", "-o", "stripped", "--drop", "ptx"],
    &["diff", "a.fatbin", "b.fatbin"],
    &["resources", "a.fatbin"],
    &["explain", "a.fatbin"],
    &["check", "a.fatbin"],
    &["annotate", "a.bin", "--cuda-include-ptx", "all", "-o", "annotated"],
    &["--help"],
    &["--version"],
    &["help", "strip"],
    &["list", "--help"],
    &["diff", "-h"],
    &["list", "missing"],
    &["diff", "missing", "missing"],
    &["strip", "a.fatbin", "--drop", "all"],
    &["nonsense"],
];

fn prepare(dir: &Path) {
    let save = |name: &str, bytes: &[u8]| std::fs::write(dir.join(name), bytes).expect("the file is written");
    let ptx = tools::whole_ptx("8.0", "sm_80");
    let cubin = tools::ptxas(dir, &ptx, "sm_80", &[]);
    let mut writer = FatbinWriter::new(BuilderOptions { compress: false, ..BuilderOptions::default() });
    writer.add_cubin(GpuArch::plain(80), cubin, "").expect("a sound cubin");
    save("b.fatbin", &writer.clone().finish());
    writer.add_ptx(GpuArch::plain(80), ptx.as_bytes(), "", "").expect("sound PTX");
    save("a.fatbin", &writer.finish());
    save("k.ptx", ptx.as_bytes());
    let (image_kind, offload_kinds) = (ImageKind::Bitcode, OffloadKinds::CUDA);
    let strings = vec![("arch", "sm_80")];
    save("a.bin", &write(&ImageToWrite { image_kind, offload_kinds, flags: 0, strings, image: b"BC\xc0\xde" }));
}

fn command(dir: &Path, line: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_offload-bundle"));
    command.current_dir(dir).args(line);
    command
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").expect("the device").into()
}

/// A pipe without a reader.
fn unread() -> Stdio {
    let (_, writer) = std::io::pipe().expect("a pipe");
    writer.into()
}

fn run(mut command: Command) -> Output {
    command.output().expect("the command starts")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn full_and_closed_streams() {
    let dir = tempfile::tempdir().expect("a folder");
    prepare(dir.path());
    for line in LINES {
        let usual = run(command(dir.path(), line));
        let prints = !usual.stdout.is_empty();
        assert!(prints == usual.stderr.is_empty(), "{line:?}: {}", text(&usual.stderr));

        let mut to_full = command(dir.path(), line);
        to_full.stdout(full()).stderr(Stdio::piped());
        let output = to_full.spawn().and_then(std::process::Child::wait_with_output).expect("the command starts");
        if prints {
            let trouble = if line[0] == "diff" && line[1] != "-h" { 2 } else { 1 };
            assert_eq!(output.status.code(), Some(trouble), "{line:?}");
            let expected = "offload-bundle: error: standard output: No space left on device (os error 28)\n";
            assert_eq!(text(&output.stderr), expected, "{line:?}");
        } else {
            assert_eq!(output.status, usual.status, "{line:?}");
        }

        let mut to_nobody = command(dir.path(), line);
        to_nobody.stdout(unread()).stderr(Stdio::piped());
        let output = to_nobody.spawn().and_then(std::process::Child::wait_with_output).expect("the command starts");
        assert_eq!((output.status, text(&output.stderr)), (usual.status, text(&usual.stderr)), "{line:?}");

        for stderr in [full(), unread()] {
            let mut silent = command(dir.path(), line);
            silent.stdout(Stdio::piped()).stderr(stderr);
            let output = silent.spawn().and_then(std::process::Child::wait_with_output).expect("the command starts");
            assert_eq!((output.status, text(&output.stdout)), (usual.status, text(&usual.stdout)), "{line:?}");
        }

        let mut shell = Command::new("sh");
        shell.current_dir(dir.path()).args(["-c", "exec \"$0\" \"$@\" >&- 2>&-", env!("CARGO_BIN_EXE_offload-bundle")]);
        assert_eq!(
            run({
                shell.args(line);
                shell
            })
            .status,
            usual.status,
            "{line:?}"
        );
    }
}
