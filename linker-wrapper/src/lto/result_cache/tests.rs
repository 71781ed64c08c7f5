use std::collections::{BTreeSet, HashSet};

use llvm_passes::extract::{How, Take, UnitPart};
use llvm_passes::pipeline::OptLevel;
use offload_bundle::arch::{GpuArch, PtxVersion};

use crate::cli::device_options::DeviceOptions;
use crate::cli::values::{KernelFolding, Partitioning};
use crate::lto::compile_job::{CompileJob, UnitRange};
use crate::lto::outputs::{Emission, ImagePtx, ImagePtxVersion, MachineCode, Outputs, Relocatable};
use crate::lto::result_cache::{PartitionFields, TargetFields, Tools, options_text};
use crate::lto::target_code::{NvptxCode, TargetCode};
use crate::plan::image_policy::Entry;
use crate::sys::cache::{Key, KeyBuilder};

const PTX_8_4: PtxVersion = PtxVersion { major: 8, minor: 4 };

fn entry(arch: u32, from: u32) -> Entry {
    Entry { arch: GpuArch::plain(arch), from: GpuArch::plain(from) }
}

/// Returns every option that the code depends on, each changed alone.
fn other_options() -> Vec<(&'static str, DeviceOptions)> {
    let usual = DeviceOptions::default;
    let words = |word: &str| vec![word.to_owned()];
    vec![
        ("level", DeviceOptions { level: OptLevel::O3, ..usual() }),
        ("ptxas level", DeviceOptions { ptxas_level: 2, ..usual() }),
        ("debug", DeviceOptions { debug: true, ..usual() }),
        ("lto", DeviceOptions { lto: false, ..usual() }),
        ("ptxas arguments", DeviceOptions { ptxas_arguments: words("-x"), ..usual() }),
        ("nvlink arguments", DeviceOptions { nvlink_arguments: words("-x"), ..usual() }),
        ("LLVM options", DeviceOptions { llvm_options: words("-x"), ..usual() }),
    ]
}

/// Asserts that all keys differ, and that the same fields give the same key again.
fn all_differ(keys: &[(&str, Key)], again: Key) {
    assert_eq!(keys[0].1, again);
    for (index, (what, key)) in keys.iter().enumerate() {
        let same = keys[..index].iter().find(|(_, other)| other == key);
        assert!(same.is_none(), "{what} does not change the key: it is that of {same:?}");
    }
}

fn job() -> CompileJob {
    let take = Take { index: 3, how: How::Copy, name: None };
    CompileJob {
        name: "sm_90.0".to_owned(),
        llvm_options: Vec::new(),
        units: "/a/units".into(),
        ranges: vec![UnitRange { name: "a.o".to_owned(), hash: "aa".to_owned(), start: 0, length: 9 }],
        parts: vec![UnitPart { unit: 0, takes: vec![take] }],
        promoted: Vec::new(),
        keep: BTreeSet::from(["kernel".to_owned()]),
        code: TargetCode::Nvptx(code()),
        keep_stages: None,
        kept: None,
        traced: false,
    }
}

fn code() -> NvptxCode {
    NvptxCode {
        arch: GpuArch::plain(90),
        version: PTX_8_4,
        level: OptLevel::O2,
        dead: BTreeSet::new(),
        declared_kernels: BTreeSet::new(),
        libdevice: Some("/a/libdevice.bc".into()),
        emissions: vec![Emission {
            arch: GpuArch::plain(90),
            version: PTX_8_4,
            visible_functions: false,
            path: "/a/1.ptx".into(),
        }],
        outputs: Outputs {
            machine_code: vec![MachineCode {
                emission: 0,
                relocatable: Relocatable::Always,
                name: "the kernel a".to_owned(),
            }],
            ptx: vec![ImagePtx { emission: 0, probe: "/a/1.probe.ptx".into(), path: "/a/1.image.ptx".into() }],
            ptx_version: ImagePtxVersion::Lowest,
        },
        assembler: None,
    }
}

fn changed_code(change: impl FnOnce(&mut NvptxCode)) -> NvptxCode {
    let mut code = code();
    change(&mut code);
    code
}

fn changed(change: impl FnOnce(&mut CompileJob)) -> CompileJob {
    let mut job = job();
    change(&mut job);
    job
}

#[test]
fn every_field_of_a_partition_changes_the_key() {
    let usual = DeviceOptions::default();
    let key = |fields: &PartitionFields<'_>| fields.key(KeyBuilder::new("partition")).expect("a key");
    let (base, base_code) = (job(), code());
    let ptx = [entry(90, 90)];
    let fields = PartitionFields {
        job: &base,
        code: &base_code,
        ptxas: &[1; 32],
        libdevice: &[2; 32],
        options: &usual,
        ptx_version: None,
        ptx: &ptx,
    };
    let jobs = [
        ("unit", changed(|job| job.ranges[0].hash = "ab".to_owned())),
        ("one more unit", changed(|job| job.ranges.push(job.ranges[0].clone()))),
        ("what is taken", changed(|job| job.parts[0].takes[0].index = 4)),
        ("how it is taken", changed(|job| job.parts[0].takes[0].how = How::Owned)),
        ("its name", changed(|job| job.parts[0].takes[0].name = Some("x".to_owned()))),
        ("of which unit", changed(|job| job.parts[0].unit = 1)),
        ("keep", changed(|job| job.keep.extend(["other".to_owned()]))),
    ];
    let codes = [
        ("arch", changed_code(|code| code.arch = GpuArch::plain(80))),
        ("version", changed_code(|code| code.version = PtxVersion { major: 8, minor: 5 })),
        ("target of an emission", changed_code(|code| code.emissions[0].arch = GpuArch::plain(100))),
        ("version of an emission", changed_code(|code| code.emissions[0].version = PtxVersion { major: 9, minor: 0 })),
        ("one more emission", changed_code(|code| code.emissions.push(code.emissions[0].clone()))),
        ("no machine code", changed_code(|code| code.outputs.machine_code.clear())),
        ("a declared kernel", changed_code(|code| code.declared_kernels.extend(["other".to_owned()]))),
        ("emission of machine code", changed_code(|code| code.outputs.machine_code[0].emission = 1)),
        ("finished machine code", changed_code(|code| code.outputs.machine_code[0].relocatable = Relocatable::Never)),
    ];
    let options = other_options();
    let other_ptx = [entry(100, 90)];
    let mut keys = vec![("nothing", key(&fields))];
    keys.extend(jobs.iter().map(|(what, job)| (*what, key(&PartitionFields { job, ..fields }))));
    keys.extend(codes.iter().map(|(what, code)| (*what, key(&PartitionFields { code, ..fields }))));
    keys.extend(options.iter().map(|(what, options)| (*what, key(&PartitionFields { options, ..fields }))));
    keys.push(("ptxas", key(&PartitionFields { ptxas: &[3; 32], ..fields })));
    keys.push(("libdevice", key(&PartitionFields { libdevice: &[], ..fields })));
    keys.push(("PTX version", key(&PartitionFields { ptx_version: Some(PTX_8_4), ..fields })));
    keys.push(("PTX", key(&PartitionFields { ptx: &[], ..fields })));
    keys.push(("other PTX", key(&PartitionFields { ptx: &other_ptx, ..fields })));
    keys.push(("kind", fields.key(KeyBuilder::new("other")).expect("a key")));
    // Paths and names in messages do not affect the code.
    let elsewhere = changed(|job| {
        job.units = "/b/units".into();
        job.ranges[0].name = "b.o".to_owned();
        job.ranges[0].start = 16;
        job.keep_stages = Some(("/b/1.bc".into(), "/b/2.bc".into()));
        job.traced = true;
    });
    let code_elsewhere = changed_code(|code| {
        code.libdevice = Some("/b/libdevice.bc".into());
        code.emissions[0].path = "/b/2.ptx".into();
        code.outputs.machine_code[0].name = "the kernel b".to_owned();
        code.outputs.ptx[0].path = "/b/1.image.ptx".into();
        code.outputs.ptx[0].probe = "/b/1.probe.ptx".into();
    });
    all_differ(&keys, key(&PartitionFields { job: &elsewhere, code: &code_elsewhere, ..fields }));
}

#[test]
fn every_field_of_a_target_changes_the_key() {
    let usual = DeviceOptions::default();
    let key = |fields: &TargetFields<'_>| fields.key(KeyBuilder::new("target"));
    let registered = HashSet::from(["a".to_owned(), "b".to_owned()]);
    let (alive, dead) = (BTreeSet::new(), BTreeSet::from(["c".to_owned()]));
    let (sass, ptx) = ([entry(90, 90)], [entry(80, 80)]);
    let tools = Tools { ptxas: [1; 32], nvlink: Some([2; 32]), libdevice: Some([3; 32]), device_library: None };
    let fields = || TargetFields {
        arch: GpuArch::plain(90),
        images: vec![1, 2],
        registered: &registered,
        dead: &alive,
        sass: &sass,
        ptx: &ptx,
        ptx_version: None,
        options: &usual,
        partitioning: Partitioning::Usual,
        folding: KernelFolding::Off,
        object_results: Vec::new(),
        tools: &tools,
    };
    let (joined, none) = (HashSet::from(["ab".to_owned()]), HashSet::new());
    let options = other_options();
    let other_tools = [
        ("ptxas", Tools { ptxas: [9; 32], ..tools.clone() }),
        ("nvlink", Tools { nvlink: None, ..tools.clone() }),
        ("libdevice", Tools { libdevice: None, ..tools.clone() }),
        ("device library", Tools { device_library: Some([4; 32]), ..tools.clone() }),
    ];
    let mut keys = vec![
        ("nothing", key(&fields())),
        ("arch", key(&TargetFields { arch: GpuArch::plain(80), ..fields() })),
        ("images", key(&TargetFields { images: vec![1, 3], ..fields() })),
        ("registered names joined", key(&TargetFields { registered: &joined, ..fields() })),
        ("no registered names", key(&TargetFields { registered: &none, ..fields() })),
        ("results in objects", key(&TargetFields { object_results: vec![1], ..fields() })),
        ("dead kernels", key(&TargetFields { dead: &dead, ..fields() })),
        ("SASS", key(&TargetFields { sass: &[], ..fields() })),
        ("PTX", key(&TargetFields { ptx: &[], ..fields() })),
        ("SASS and PTX swapped", key(&TargetFields { sass: &ptx, ptx: &sass, ..fields() })),
        ("PTX version", key(&TargetFields { ptx_version: Some(PTX_8_4), ..fields() })),
        ("size of partitions", key(&TargetFields { partitioning: Partitioning::Size(7), ..fields() })),
        ("equal kernels", key(&TargetFields { folding: KernelFolding::Safe, ..fields() })),
        ("whole", key(&TargetFields { partitioning: Partitioning::Whole, ..fields() })),
    ];
    keys.extend(options.iter().map(|(what, options)| (*what, key(&TargetFields { options, ..fields() }))));
    keys.extend(other_tools.iter().map(|(what, tools)| (*what, key(&TargetFields { tools, ..fields() }))));
    // A set of names has no order.
    let again = HashSet::from(["b".to_owned(), "a".to_owned()]);
    all_differ(&keys, key(&TargetFields { registered: &again, ..fields() }));
}

#[test]
fn options_that_do_not_affect_the_code_are_not_in_the_key() {
    let (usual, cuda_path) = (DeviceOptions::default(), Some("/b".into()));
    let others = DeviceOptions { cuda_path, verbose: true, unknown: vec!["-x".to_owned()], ..usual.clone() };
    assert_eq!(options_text(&usual), options_text(&others));
}
