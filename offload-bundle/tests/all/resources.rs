//! What we read of a kernel's resources is what ptxas says when it makes the kernel.

use std::path::Path;
use std::process::Command;

use offload_bundle::cubin::{self, FunctionResources};

use crate::tools;

/// PTX with a kernel that keeps many values at once, one that uses every kind of memory, and an empty one.
fn ptx(target: &str) -> String {
    const VALUES: usize = 80;
    let version = target.parse::<offload_bundle::GpuArch>().expect("an architecture").min_ptx();
    let mut text = format!(
        ".version {version}\n.target {target}\n.address_size 64\n.const .align 4 .b8 table[48];\n.visible .global .u64 counter;\n\
         .visible .entry empty()\n{{\n\tret;\n}}\n\
         .visible .entry memory(.param .u64 p, .param .u32 i)\n.maxntid 128, 2, 1\n{{\n\
         \t.shared .align 4 .b8 block[512];\n\t.local .align 4 .b8 own[96];\n\t.reg .b32 %r<9>;\n\t.reg .b64 %d<9>;\n\
         \tld.param.u64 %d1, [p];\n\tld.param.u32 %r1, [i];\n\tmul.wide.u32 %d2, %r1, 4;\n\
         \tmov.u64 %d3, block;\n\tadd.u64 %d3, %d3, %d2;\n\tst.shared.u32 [%d3], %r1;\n\tbar.sync 0;\n\tld.shared.u32 %r2, [%d3];\n\
         \tmov.u64 %d4, own;\n\tadd.u64 %d4, %d4, %d2;\n\tst.local.u32 [%d4], %r2;\n\tld.local.u32 %r3, [%d4+4];\n\
         \tmov.u64 %d5, table;\n\tadd.u64 %d5, %d5, %d2;\n\tld.const.u32 %r4, [%d5];\n\tadd.u32 %r5, %r3, %r4;\n\
         \tst.global.u32 [%d1], %r5;\n\tatom.global.add.u64 %d6, [counter], %d1;\n\tret;\n}}\n\
         .visible .entry crowded(.param .u64 p)\n{{\n\t.reg .f32 %f<{}>;\n\t.reg .b64 %d<3>;\n\tld.param.u64 %d1, [p];\n",
        2 * VALUES + 1
    );
    for value in 0..VALUES {
        text += &format!("\tld.volatile.global.f32 %f{value}, [%d1+{}];\n", 4 * value);
    }
    for value in 0..VALUES {
        text += &format!("\tfma.rn.f32 %f{}, %f{value}, %f{}, %f{value};\n", VALUES + value, VALUES - 1 - value);
    }
    for value in 0..VALUES {
        text += &format!("\tst.volatile.global.f32 [%d1+{}], %f{};\n", 4 * value, VALUES + value);
    }
    text + "\tret;\n}\n"
}

/// What `ptxas -v` says of one kernel.
#[derive(Debug, Default, PartialEq, Eq)]
struct Said {
    registers: u32,
    stack: u32,
    spill_stores: u64,
    spill_loads: u64,
    shared: u64,
}

fn number_before<T: std::str::FromStr + Default>(text: &str, words: &str) -> T {
    let digits = text.split(words).next().filter(|before| before.len() < text.len());
    digits.and_then(|before| before.rsplit([' ', ',']).find(|part| !part.is_empty())?.parse().ok()).unwrap_or_default()
}

fn said(log: &str, kernel: &str) -> Said {
    let (_, rest) = log.split_once(&format!("Compiling entry function '{kernel}'")).expect("ptxas names the kernel");
    let rest = rest.split("Compiling entry function").next().unwrap_or_default();
    let (_, used) = rest.split_once("Used ").expect("ptxas says what it used");
    Said {
        registers: number_before(used, " registers"),
        stack: number_before(rest.split_once('\n').expect("a line").1, " bytes stack frame"),
        spill_stores: number_before(rest, " bytes spill stores"),
        spill_loads: number_before(rest, " bytes spill loads"),
        shared: number_before(used, " bytes smem"),
    }
}

fn read(of: &FunctionResources, reserved: u64) -> Said {
    let spills = of.spills.unwrap_or_default();
    Said {
        registers: of.registers.expect("the registers are recorded"),
        stack: of.frame.expect("the frame is recorded"),
        spill_stores: spills.store_bytes,
        spill_loads: spills.load_bytes,
        shared: of.shared.saturating_sub(reserved),
    }
}

fn assemble(dir: &Path, target: &str, arguments: &[&str]) -> (Vec<u8>, String) {
    let (source, image) = (dir.join("r.ptx"), dir.join("r.cubin"));
    std::fs::write(&source, ptx(target)).expect("the PTX is written");
    let mut command = Command::new(tools::cuda("ptxas"));
    command.args(["-v", "-arch", target]).args(arguments).arg("-o").arg(&image).arg(&source);
    let output = command.output().expect("ptxas starts");
    let log = String::from_utf8_lossy(&output.stderr).into_owned() + &String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{log}");
    (std::fs::read(&image).expect("ptxas wrote a cubin"), log)
}

#[test]
fn every_target_as_ptxas_says() {
    let dir = tempfile::tempdir().expect("a folder");
    for target in tools::TARGETS {
        for arguments in [&["-maxrregcount=24"][..], &["-c", "-maxrregcount=32"]] {
            let (image, log) = assemble(dir.path(), target, arguments);
            let cubin = cubin::parse(&image).expect("a sound cubin");
            let resources = cubin.resources();
            // Linked code of these targets has a block of shared memory for the system.
            let reserved = if cubin.arch().number >= 90 && !cubin.is_relocatable() { 1024 } else { 0 };
            assert_eq!(resources.functions.len(), 3, "{target}");
            for function in &resources.functions {
                assert!(function.is_kernel && function.code_size > 0, "{target}: {function:?}");
                assert_eq!(read(function, reserved), said(&log, &function.name), "{target} {arguments:?}: {log}");
            }
            let named = |name: &str| resources.functions.iter().find(|function| function.name == name).expect(name);
            assert!(named("crowded").spills.is_some_and(|spills| spills.store_bytes > 0), "{target}");
            assert_eq!((named("empty").spills, named("empty").parameters.unwrap_or(0)), (None, 0), "{target}");
            let memory = named("memory");
            assert_eq!((memory.parameters, memory.max_threads), (Some(12), Some([128, 2, 1])), "{target}");
            assert_eq!(memory.barriers.unwrap_or(0), u32::from(log.contains("used 1 barriers")), "{target}");
            assert_eq!((memory.stack, resources.global), (Some(96), 8), "{target}");
            assert!(memory.constants.iter().any(|bank| bank.bank == 0 && bank.size >= 12), "{target}: {memory:?}");
            assert!(
                resources.constants.iter().any(|bank| bank.bank == 3 && bank.size == 48),
                "{target}: {resources:?}"
            );
        }
    }
}

#[test]
fn symbols_have_sizes() {
    let dir = tempfile::tempdir().expect("a folder");
    let (image, _) = assemble(dir.path(), "sm_90", &["-c"]);
    let cubin = cubin::parse(&image).expect("a sound cubin");
    let size = |name: &str| cubin.symbols().iter().find(|symbol| symbol.name == name).map(|symbol| symbol.size);
    assert_eq!((size("counter"), size("table")), (Some(8), Some(48)));
    assert_eq!(size("empty"), cubin.resources().functions.iter().find(|f| f.name == "empty").map(|f| f.code_size));
}
