//! Links of generated and of written programs, compared with those of nvlink.

mod compare;
mod generator;
mod tools;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cubin_link::{Input, LinkError, Linked, link};
use generator::{Features, Program};
use offload_bundle::GpuArch;
use offload_bundle::fatbin::{BuilderOptions, FatbinWriter};
use offload_bundle::host_object::{REFERENCE_SECTIONS, ReferenceLists, write_rdc_object};
use tools::{nvlink, output, path, ptxas};

const TARGET: &str = "sm_90";

fn arch(target: &str) -> GpuArch {
    target.parse().expect("a GPU")
}

fn read(objects: &[PathBuf]) -> Vec<Vec<u8>> {
    objects.iter().map(|object| std::fs::read(object).expect("an object")).collect()
}

fn ours(objects: &[PathBuf], bytes: &[Vec<u8>]) -> Result<Linked, LinkError> {
    let inputs: Vec<Input<'_>> =
        objects.iter().zip(bytes).map(|(object, data)| Input { file: path(object), data }).collect();
    link(&inputs, arch(TARGET))
}

/// Assembles the units of a program in PTX, each with the header.
fn assemble(folder: &Path, units: &[&str]) -> Vec<PathBuf> {
    let ptx = |unit: &str| format!(".version 8.8\n.target {TARGET}\n.address_size 64\n{unit}\n");
    units.iter().enumerate().map(|(number, unit)| ptxas(folder, &format!("u{number}"), &ptx(unit), TARGET)).collect()
}

/// Links with both, and expects equal cubins that NVIDIA's tools can read.
fn expect_equal(units: &[&str]) -> Linked {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = assemble(folder.path(), units);
    let linked = ours(&objects, &read(&objects)).expect("our link");
    let theirs = nvlink(folder.path(), TARGET, &objects).expect("nvlink's link");
    assert_eq!(compare::differences(&linked.cubin, &theirs), Vec::<String>::new());
    expect_readable(folder.path(), &linked.cubin);
    linked
}

fn expect_readable(folder: &Path, cubin: &[u8]) {
    let file = folder.join("ours.cubin");
    std::fs::write(&file, cubin).expect("a file");
    // Without nvdisasm's analysis of the code, which is nvlink's, byte for byte.
    let readers = [("nvdisasm", &["-hex", "-ndf"][..]), ("cuobjdump", &["-elf"]), ("cuobjdump", &["-res-usage"])];
    for (tool, options) in readers {
        let done = output(tool, &[options, &[path(&file)]].concat());
        assert!(done.status.success(), "{tool} {options:?}: {}", String::from_utf8_lossy(&done.stderr));
    }
}

/// The reason why a program is left to nvlink.
fn unsupported(units: &[&str]) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = assemble(folder.path(), units);
    match ours(&objects, &read(&objects)) {
        Err(LinkError::Unsupported(reason)) => reason.what,
        other => panic!("{other:?}"),
    }
}

const KERNEL: &str = ".extern .func (.param .b32 r) f (.param .b32 p);
.visible .entry k(.param .u64 out) { .reg .b32 %r<4>; .reg .b64 %rd<4>; ld.param.u64 %rd1, [out];
{ .param .b32 a; .param .b32 b; st.param.b32 [a], 3; call.uni (b), f, (a); ld.param.b32 %r1, [b]; } st.global.u32 [%rd1], %r1; ret; }";

fn function(linkage: &str, name: &str, body: &str) -> String {
    format!(
        "{linkage} .func (.param .b32 r) {name} (.param .b32 p) {{ .reg .b32 %r<20>; .reg .b64 %rd<4>; ld.param.b32 %r1, [p]; {body} st.param.b32 [r], %r1; ret; }}"
    )
}

#[test]
fn a_call_across_units() {
    let linked = expect_equal(&[KERNEL, &function(".visible", "f", "bar.sync 3; add.s32 %r1, %r1, 7;")]);
    assert!(linked.endless_stacks.is_empty());
}

#[test]
fn variables_of_all_memories() {
    let data = ".visible .global .u32 g = 7; .visible .global .align 16 .b8 z[40]; .visible .const .u32 c = 9; .shared .align 8 .b8 s[24]; .extern .shared .align 16 .b8 d[];";
    let body = "ld.volatile.global.u32 %r2, [g]; ld.volatile.global.u32 %r3, [z+4]; ld.const.u32 %r4, [c]; st.volatile.shared.u32 [s], %r1; st.volatile.shared.u32 [d+4], %r2;
add.s32 %r1, %r1, %r2; add.s32 %r1, %r1, %r3; add.s32 %r1, %r1, %r4;";
    let other = ".extern .global .u32 g; .extern .const .u32 c; .visible .global .u64 p = generic(g); .visible .const .align 2 .b8 more[3] = {1, 2, 3};
.visible .entry k2(.param .u64 out) { .reg .b32 %r<4>; ld.const.u32 %r1, [c]; st.volatile.global.u32 [g], %r1; ld.const.u8 %r2, [more+1]; st.volatile.global.u32 [g], %r2; ret; }";
    expect_equal(&[KERNEL, &[data, &function(".visible", "f", body)].join("\n"), other]);
}

#[test]
fn recursion_has_no_limit() {
    let body = "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), f, (a); ld.param.b32 %r2, [b]; } add.s32 %r1, %r1, %r2;";
    let linked = expect_equal(&[KERNEL, &function(".visible", "f", body)]);
    assert_eq!(linked.endless_stacks, ["k"]);
}

#[test]
fn repeated_weak_functions_are_there_once() {
    let weak = function(".weak", "f", "add.s32 %r1, %r1, 7;");
    let caller =
        KERNEL.replace(".extern .func (.param .b32 r) f (.param .b32 p);", "").replace("entry k(", "entry other(");
    let both = [&*weak, &caller].join("\n");
    let linked = expect_equal(&[KERNEL, &weak, &both]);
    // The name of its section, and that of the section's symbol.
    assert_eq!(linked.cubin.windows(8).filter(|bytes| bytes == b".text.f\0").count(), 2);
}

#[test]
fn dead_functions_may_refer_to_nothing() {
    let dead = ".extern .func (.param .b32 r) nowhere (.param .b32 p);\n".to_owned()
        + &function(
            ".visible",
            "dead",
            "{ .param .b32 a; .param .b32 b; st.param.b32 [a], %r1; call.uni (b), nowhere, (a); ld.param.b32 %r1, [b]; }",
        );
    expect_equal(&[KERNEL, &function(".visible", "f", "add.s32 %r1, %r1, 7;"), &dead]);
}

#[test]
fn undefined_and_repeated_names_are_errors_in_both() {
    let folder = tempfile::tempdir().expect("a folder");
    let objects = assemble(folder.path(), &[KERNEL]);
    let Err(LinkError::Undefined(missing)) = ours(&objects, &read(&objects)) else { panic!("an error") };
    assert_eq!(missing.iter().map(|reference| &*reference.name).collect::<Vec<_>>(), ["f"]);
    assert!(nvlink(folder.path(), TARGET, &objects).expect_err("an error").contains("Undefined reference to 'f'"));

    let f = function(".visible", "f", "");
    let objects = assemble(folder.path(), &[KERNEL, &f, &f]);
    let Err(LinkError::MultipleDefinition { name, second, .. }) = ours(&objects, &read(&objects)) else {
        panic!("an error")
    };
    assert_eq!((&*name, &*second), ("f", path(&objects[2])));
    assert!(nvlink(folder.path(), TARGET, &objects).expect_err("an error").contains("Multiple definition of 'f'"));
}

#[test]
fn what_is_not_known_has_a_reason() {
    let f = function(".visible", "f", "");
    assert_eq!(unsupported(&[KERNEL, &f, ".common .global .u32 shared_by_name;"]), "common variable shared_by_name");
    let pressure: String = (2..18).map(|n| format!("ld.volatile.global.u32 %r{n}, [%rd1+{n}]; ")).collect();
    let kept: String = (2..18).map(|n| format!("st.volatile.global.u32 [%rd1+{n}], %r{n}; ")).collect();
    let large = function(".weak", "f", &format!("cvt.u64.u32 %rd1, %r1; {pressure} bar.sync 0; {kept}"));
    let small = function(".weak", "f", "add.s32 %r1, %r1, 7;");
    // The result depends on the order only if the later one has fewer registers.
    let replaced = [KERNEL, &large, &small];
    assert!(unsupported(&replaced).starts_with("definition of the weak function f that replaces"), "{replaced:?}");
    expect_equal(&[KERNEL, &small, &large]);
}

#[test]
fn other_gpus_are_left_to_nvlink() {
    let folder = tempfile::tempdir().expect("a folder");
    let ptx = format!(".version 8.8\n.target sm_80\n.address_size 64\n{}", function(".visible", "f", ""));
    let object = ptxas(folder.path(), "u", &ptx, "sm_80");
    let data = std::fs::read(&object).expect("an object");
    let error = link(&[Input { file: "u.o", data: &data }], arch("sm_80")).expect_err("an error");
    assert!(matches!(&error, LinkError::Unsupported(_)), "{error}");
}

/// What the host code of a unit of nvcc refers to: these kernels, and nothing else. A list without any name would not count.
fn references(kernels: &[String]) -> ReferenceLists {
    use object::write::{Object, StandardSegment};
    use object::{Architecture, BinaryFormat, Endianness, SectionKind};
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let segment = object.segment_name(StandardSegment::Data).to_vec();
    for (number, name) in REFERENCE_SECTIONS.iter().enumerate() {
        let section = object.add_section(segment.clone(), name.as_bytes().to_vec(), SectionKind::ReadOnlyData);
        // The second is that of visible kernels.
        let names = kernels.iter().filter(|_| number == 1);
        let list: Vec<u8> = names.flat_map(|name| name.bytes().chain([0])).chain([0]).collect();
        object.append_section_data(section, &list, 1);
    }
    ReferenceLists::of_object(&object.write().expect("an object")).expect("lists")
}

/// Links with nvlink as units of nvcc.
fn as_units(folder: &Path, bytes: &[Vec<u8>], lists: &ReferenceLists) -> Result<Vec<u8>, String> {
    let units = bytes.iter().enumerate().map(|(number, cubin)| {
        let mut writer = FatbinWriter::new(BuilderOptions { compress: false, ..BuilderOptions::default() });
        writer.add_cubin(arch(TARGET), cubin.as_slice(), "").expect("a cubin");
        let object = write_rdc_object(&format!("unit{number}"), &writer.finish(), Some(lists)).expect("an object");
        let file = folder.join(format!("unit{number}.o"));
        std::fs::write(&file, object).expect("a file");
        file
    });
    nvlink(folder, TARGET, &units.collect::<Vec<_>>())
}

#[test]
fn kernels_to_which_no_host_code_refers_are_dead_code() {
    let mut equal = 0;
    for seed in 300..360 {
        let folder = tempfile::tempdir().expect("a folder");
        let program =
            Program::new(seed, TARGET, Features { weak: seed % 2 == 0, system: seed % 3 == 0, ..Features::ALL });
        let units = 0..program.units;
        let objects: Vec<PathBuf> =
            units.map(|unit| ptxas(folder.path(), &format!("u{unit}"), &program.ptx(unit), TARGET)).collect();
        let bytes = read(&objects);
        let inputs: Vec<_> = bytes.iter().map(|data| Input { file: "unit", data }).collect();
        for kept in [&["k"][..], &["k0", "k2", "k4", "k6"], &["k1", "k3", "k5", "k7"]] {
            let keeps = |name: &str| kept.iter().any(|start| name.starts_with(start));
            let Ok(ours) = cubin_link::link_kernels(&inputs, arch(TARGET), &keeps) else { continue };
            // nvlink removes some of them.
            if !ours.unused_constants.is_empty() {
                continue;
            }
            let theirs = as_units(folder.path(), &bytes, &references(&ours.kernels)).expect("nvlink's link");
            let differences = compare::differences(&ours.cubin, &theirs);
            assert_eq!(differences, Vec::<String>::new(), "program {seed}, kernels {kept:?}");
            equal += 1;
        }
    }
    assert!(equal >= 20, "{equal} programs");
}

/// Links programs of these numbers, and counts what comes of them.
fn generated(seeds: std::ops::Range<u64>, features: Features) -> BTreeMap<&'static str, usize> {
    let mut counts = BTreeMap::new();
    for seed in seeds {
        let folder = tempfile::tempdir().expect("a folder");
        let program = Program::new(seed, TARGET, features);
        let units = 0..program.units;
        let objects: Vec<PathBuf> =
            units.map(|unit| ptxas(folder.path(), &format!("u{unit}"), &program.ptx(unit), TARGET)).collect();
        let bytes = read(&objects);
        let kind = match (ours(&objects, &bytes), nvlink(folder.path(), TARGET, &objects)) {
            (Err(LinkError::Unsupported(_)), _) => "unsupported",
            (Ok(ours), Ok(theirs)) => {
                assert_eq!(compare::differences(&ours.cubin, &theirs), Vec::<String>::new(), "program {seed}");
                expect_readable(folder.path(), &ours.cubin);
                "equal"
            }
            (ours, theirs) => panic!("program {seed}: {:?} and {:?}", ours.err(), theirs.err()),
        };
        *counts.entry(kind).or_insert(0) += 1;
    }
    counts
}

#[test]
fn generated_programs_are_equal() {
    let none = Features { shared: false, pointers: false, recursion: false, system: false, weak: false, runs: false };
    let counts = generated(1..16, none);
    assert!(counts["equal"] >= 12, "{counts:?}");
    let counts = generated(100..116, Features { weak: false, ..Features::ALL });
    assert!(counts["equal"] >= 10, "{counts:?}");
    let counts = generated(200..216, Features::ALL);
    assert!(counts["equal"] >= 5, "{counts:?}");
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let folder = tempfile::tempdir().expect("a folder");
    let program = Program::new(3, TARGET, Features { weak: false, ..Features::ALL });
    let units = 0..program.units;
    let objects: Vec<PathBuf> =
        units.map(|unit| ptxas(folder.path(), &format!("u{unit}"), &program.ptx(unit), TARGET)).collect();
    let bytes = read(&objects);
    let with = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
        pool.install(|| ours(&objects, &bytes))
    };
    let first = with(1);
    for threads in [2, 3, 16] {
        assert_eq!(with(threads), first, "{threads} threads");
    }
}
