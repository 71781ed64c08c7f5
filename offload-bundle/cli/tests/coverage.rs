//! What the commands `explain` and `check` report about the fatbins of `driver-truth/`.

#[path = "../../tests/driver-truth/mod.rs"]
mod driver_truth;

use std::process::{Command, Output};

use driver_truth::{cases, fatbin_bytes, folder};

fn command(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_offload-bundle"));
    command.current_dir(folder()).args(args).output().expect("the command starts")
}

/// Returns the exit code and standard output, and checks that only failures print errors.
fn answer(args: &[&str]) -> (i32, String) {
    let output = command(args);
    let code = output.status.code().expect("no signal");
    assert_eq!(String::from_utf8_lossy(&output.stderr).is_empty(), code != 1, "{args:?}");
    (code, String::from_utf8(output.stdout).expect("text"))
}

#[test]
fn the_program_agrees_with_the_driver() {
    for (file, seen) in cases() {
        let (code, text) = answer(&["explain", &file, "--brief", "--gpu", "sm_90", "--driver", "580"]);
        assert_eq!(text, format!("{seen}\n"), "{file}");
        let runs = seen.starts_with("sass") || seen.starts_with("ptx");
        assert_eq!(code, if runs { 0 } else { 2 }, "{file}");
    }
}

#[test]
fn a_table_of_all_gpus() {
    let (code, text) = answer(&["explain", "c21_sass90a_ptx80.fatbin"]);
    assert_eq!(code, 0);
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(rows[0][..3], ["driver:", "not", "given,"]);
    assert_eq!(text.lines().nth(2), Some("fatbin 1 (offset 0x0): sass 90a, ptx 80"));
    assert_eq!(rows[3], ["GPU", "OUTCOME", "ENTRY", "WHY"]);
    let outcomes: Vec<String> = rows[4..].iter().map(|row| row[..3].join(" ")).collect();
    assert_eq!(outcomes[..3], ["sm_75 no-binary -", "sm_80 ptx 80", "sm_86 ptx 80"]);
    assert_eq!(outcomes[6], "sm_90 sass 90a");
    assert_eq!(outcomes.len(), 13);
}

#[test]
fn json_has_stable_keys() {
    let (code, text) = answer(&["explain", "c22_newptx.fatbin", "--gpu", "sm_90", "--driver", "580.1", "--json"]);
    assert_eq!(code, 2);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(value["driver"], "580 (CUDA 13.0, PTX up to 9.0)");
    let container = &value["containers"][0];
    assert_eq!((&container["container"], &container["offset"]), (&1.into(), &0.into()));
    assert_eq!(container["entries"][0], "ptx 80");
    let gpu = &container["gpus"][0];
    let keys: Vec<&str> = gpu.as_object().expect("an object").keys().map(String::as_str).collect();
    assert_eq!(keys, ["entry", "error", "gpu", "outcome", "parts", "passed_over", "reason", "runs"]);
    assert_eq!(gpu["error"], "CUDA_ERROR_UNSUPPORTED_PTX_VERSION");
    assert_eq!((&gpu["outcome"], &gpu["entry"]), (&"unsupported-ptx-version".into(), &1.into()));

    let (code, text) = answer(&["check", "c24_damaged_sass90_ptx90.fatbin", "--json"]);
    assert_eq!(code, 2);
    let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    let findings = value["containers"][0]["findings"].as_array().expect("an array");
    let codes: Vec<&str> = findings.iter().filter_map(|finding| finding["code"].as_str()).collect();
    assert_eq!(codes, ["FB002", "FB004"]);
    assert_eq!(findings[1]["entries"], serde_json::json!([1, 2]));
    assert_eq!((&findings[1]["gpus"][0], &findings[1]["severity"]), (&"sm_90".into(), &"error".into()));
    assert!(findings[1]["advice"].is_string());
}

#[test]
fn the_driver_s_names_of_errors() {
    for (file, name) in [
        ("mixes/m18_garbage90_ptx90.fatbin", "CUDA_ERROR_UNKNOWN"),
        ("mixes/m20_sass80as90_ptx80.fatbin", "CUDA_ERROR_INVALID_SOURCE"),
    ] {
        let (code, text) = answer(&["explain", file, "--gpu", "sm_90", "--json"]);
        let value: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        assert_eq!((code, &value["containers"][0]["gpus"][0]["error"]), (2, &name.into()), "{file}");
    }
}

#[test]
fn exit_codes_of_check() {
    let (code, text) = answer(&["check", "c05_sass90_ptx90.fatbin", "--driver", "580"]);
    assert_eq!((code, text.contains("nothing to say\n")), (0, true));
    let (code, text) = answer(&["check", "c10_ptx80_lto90.fatbin"]);
    assert_eq!((code, text.contains("\nwarning: FB005: entry 2 (lto 90)")), (0, true));
    let (code, text) = answer(&["check", "c22_newptx.fatbin", "--driver", "580"]);
    assert_eq!((code, text.contains("\nerror: FB003: ")), (2, true));
    assert_eq!(answer(&["check", "c22_newptx.fatbin"]).0, 0);
}

#[test]
fn what_cannot_be_read_is_one_error() {
    let dir = tempfile::tempdir().expect("a folder");
    let data = fatbin_bytes("c05_sass90_ptx90.fatbin");
    let cut = dir.path().join("cut.fatbin");
    std::fs::write(&cut, &data[..data.len() - 8]).expect("written");
    let text = dir.path().join("text");
    std::fs::write(&text, "no fatbin").expect("written");
    for (args, message) in [
        (["explain", cut.to_str().expect("a path")], "the body of the fatbin goes beyond the end of the data"),
        (["check", cut.to_str().expect("a path")], "the body of the fatbin goes beyond the end of the data"),
        (
            ["explain", text.to_str().expect("a path")],
            "no fatbin, no HIP bundle, and no section .nv_fatbin, __nv_relfatbin or .hip_fatbin with one",
        ),
        (["check", "missing"], "missing: No such file"),
        (["explain", "--brief"], "--gpu"),
    ] {
        let output = command(&args);
        assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{args:?}");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(stderr.contains(message), "{stderr}");
    }
}

#[test]
fn several_fatbins_in_a_file() {
    let dir = tempfile::tempdir().expect("a folder");
    let file = dir.path().join("two.fatbin");
    let both = [fatbin_bytes("c05_sass90_ptx90.fatbin"), vec![0; 8], fatbin_bytes("c01_sass80.fatbin")].concat();
    std::fs::write(&file, &both).expect("written");
    let name = file.to_str().expect("a path");
    let (code, text) = answer(&["explain", name, "--brief", "--gpu", "sm_90"]);
    assert_eq!((code, text.as_str()), (2, "fatbin 1 (offset 0x0): sass 90\nfatbin 2 (offset 0xee0): no-binary\n"));
    assert_eq!(answer(&["explain", name, "--brief", "--gpu", "sm_86"]).0, 2);
    assert_eq!(answer(&["explain", name]).0, 0);
}
