//! Tests of `dlink.rs`.

use super::*;

fn words(line: &str) -> Vec<OsString> {
    line.split_whitespace().map(OsString::from).collect()
}

fn translated(line: &str) -> Option<String> {
    let words = translate(&words(line)).unwrap()?;
    let shown: Vec<_> = words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
    Some(shown.join(" "))
}

#[test]
fn the_lines_of_build_systems() {
    for (line, expected) in [
        // CMake 3.25 and 4.4 with Ninja.
        (
            "--dlink -forward-unknown-to-host-compiler -O3 -DNDEBUG --generate-code=arch=compute_90,code=[compute_90,sm_90] \
             -Xcompiler=-fPIC -Wno-deprecated-gpu-targets -shared -dlink a.o b.o -o dlink.o -L/usr/lib libk.a -lcudadevrt -lrt",
            "a.o b.o -L /usr/lib libk.a -l cudadevrt -l rt --device-compiler=-fno-lto --offload-sass=sm_90 -o dlink.o",
        ),
        ("--dlink a.o -arch=sm_80 -o d.o", "a.o --device-compiler=-fno-lto --offload-sass=sm_80 -o d.o"),
        ("--dlink -r a.o --relocatable-link", "-r a.o -r --device-compiler=-fno-lto -o a_dlink.o"),
        (
            "--dlink -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=lto_90 -dlto a.o",
            "a.o --device-compiler=-flto --offload-sass=sm_80,sm_90 -o a_dlink.o",
        ),
        (
            "--dlink a.o -Xnvlink -v,--warn -ccbin gcc -Xptxas -v -odir out",
            "a.o --device-linker=-v --device-linker=--warn --device-compiler=-Xcuda-ptxas --device-compiler=-v \
             --device-compiler=-fno-lto -o out/a_dlink.o",
        ),
        (
            "a.o --dlink --offload-report=text -maxrregcount=32",
            "a.o --offload-report=text --device-compiler=-Xcuda-ptxas --device-compiler=--maxrregcount=32 \
             --device-compiler=-fno-lto -o a_dlink.o",
        ),
    ] {
        assert_eq!(translated(line), Some(format!("--dlink --whole-archive {expected}")), "{line}");
    }
    assert_eq!(translated("a.o -o a.out"), None);
}

#[test]
fn options_of_nvcc_become_options_of_this_program() {
    for (line, expected) in [
        ("-dlto -Ofc max", "--device-compiler=-flto --device-linker=-Ofc=max"),
        ("-split-compile=2 -lto", "--device-compiler=-flto --device-linker=-split-compile=2"),
        ("--split-compile-extended 4 -dlto", "--device-compiler=-flto --device-linker=-split-compile-extended=4"),
        ("-dlto -device-stack-protector=true", "--device-compiler=-flto --device-linker=-device-stack-protector=true"),
        ("-Ofc=max -split-compile 2", "--device-compiler=-fno-lto"),
        ("-G", "--device-compiler=-fno-lto --device-compiler=-g"),
        ("-G -dopt on", "--device-compiler=-fno-lto"),
        ("-arch=native", "--device-compiler=-fno-lto"),
        ("-arch=all-major -gencode arch=compute_90a,code=sm_90a", "--device-compiler=-fno-lto"),
        ("-arch=compute_80 -code=sm_80,sm_86", "--device-compiler=-fno-lto --offload-sass=sm_80,sm_86"),
        ("-arch=compute_80", "--device-compiler=-fno-lto --offload-sass=none"),
        ("-gencode arch=compute_80,code=\\\"sm_80,compute_80\\\"", "--device-compiler=-fno-lto --offload-sass=sm_80"),
        ("-w -res-usage", "--device-linker=-w --device-linker=-v --device-compiler=-fno-lto"),
        ("-Werror reorder,all-warnings", "--device-linker=--warning-as-error --device-compiler=-fno-lto"),
        ("-Werror=reorder -use_fast_math -lineinfo -g", "--device-compiler=-fno-lto"),
        ("-t 4 -t0", "--wrapper-jobs=4 --device-compiler=-fno-lto"),
        ("-keep -keep-dir temps", "--device-compiler=-fno-lto --save-temps=temps"),
        ("-keep-dir temps", "--device-compiler=-fno-lto"),
        ("-no-compress", "--offload-compress=none --device-compiler=-fno-lto"),
        ("-Xfatbin -compress-all", "--offload-compress=size --device-compiler=-fno-lto"),
        ("-l one,two -Lthree,four", "-l one -l two -L three -L four --device-compiler=-fno-lto"),
        (
            "k.ptx k.cubin",
            &format!("{0}=k.ptx {0}=k.cubin --device-compiler=-fno-lto", "--device-linker=nvptx64-nvidia-cuda"),
        ),
        ("-forward-unknown-opts -fPIC", "--device-compiler=-fno-lto"),
    ] {
        let expected = format!("--dlink --whole-archive {expected} -o a_dlink.o");
        assert_eq!(translated(&format!("--dlink {line}")), Some(expected), "{line}");
    }
    let fatbin = translated("--dlink -fatbin a.o").unwrap();
    assert!(fatbin.ends_with("a.o --device-compiler=-fno-lto --emit-fatbin-only -o a_dlink.fatbin"), "{fatbin}");
}

#[test]
fn nothing_is_ignored_in_silence() {
    for (line, expected) in [
        ("a.o -arch", "-arch needs a value"),
        ("-fPIC", "nvcc has no option -fPIC"),
        ("--offload-nothing=1", "there is no option --offload-nothing=1"),
        ("-c", "--dlink: -c is another step"),
        ("-time x.csv", "--dlink: -time is not supported"),
        ("-reloc-ptx", "--dlink: -reloc-ptx is not supported"),
        ("-x cu", "--dlink: -x makes sources"),
        ("-hls=gen-lcs", "--dlink: -hls=gen-lcs writes a linker script"),
        ("-Xfatbin --ident=x", "--dlink: --ident=x is an option of fatbinary"),
        ("-dlto -G", "--dlink: -G cannot be combined with -dlto"),
        ("-ewp -dlto", "--dlink: -ewp cannot be combined with -dlto"),
        ("-arch=sm_foo", "'sm_foo' is no target"),
        ("-gencode arch=compute_90,code=[sm_90,90]", "'90' is no target"),
        ("a.cu", "--dlink: a.cu is source code"),
    ] {
        let error = translate(&words(&format!("--dlink {line}"))).unwrap_err().to_string();
        assert!(error.contains(expected), "{line}: {error}");
    }
}
