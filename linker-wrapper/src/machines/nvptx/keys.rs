//! What the results of links for NVIDIA's GPUs depend on.

use offload_bundle::arch::PtxVersion;

use crate::cli::device_options::DeviceOptions;
use crate::device::targets::TargetImages;
use crate::machines::interface::{Fields, NotCached, Planned, Step, Tool, Version};
use crate::machines::job_code::JobCode;
use crate::machines::nvptx::complete;
use crate::machines::nvptx::image_policy::Entry;
use crate::machines::nvptx::job_code::NvptxCode;
use crate::machines::nvptx::outputs::{Emission, MachineCode, Outputs};
use crate::machines::nvptx::plan::most_needs;
use crate::machines::nvptx::target::Nvptx;
use crate::toolchain::ptxas::version_text;

/// Prints every option that the code depends on.
fn options_text(options: &DeviceOptions) -> String {
    format!("{:?}", options.keyed())
}

/// The options that results depend on.
#[derive(Clone, Copy)]
struct Requested<'r> {
    options: &'r DeviceOptions,
    ptx_version: Option<PtxVersion>,
    sass: &'r [Entry],
    ptx: &'r [Entry],
}

impl<'r> Requested<'r> {
    fn of(machine: &'r Nvptx<'_>) -> Self {
        let ptx_version = machine.link.request.options.ptx_version;
        Requested { options: machine.options(), ptx_version, sass: &machine.entries.sass, ptx: &machine.entries.ptx }
    }
}

/// The fields of a partition. Only results of ptxas are cached: the key of a library's result would have to cover the library.
pub fn partition(machine: &Nvptx<'_>, code: &JobCode) -> Result<Fields, NotCached> {
    match code {
        JobCode::Nvptx(code) if code.assembler.is_some() => partition_fields(code, Requested::of(machine)),
        _ => Err(None),
    }
}

fn partition_fields(code: &NvptxCode, requested: Requested<'_>) -> Result<Fields, NotCached> {
    // Which machine code is made of the partition is among its outputs.
    let Requested { options, ptx_version, ptx, sass: _ } = requested;
    // Keys have the hashes of the tools.
    #[rustfmt::skip]
    let NvptxCode {
        arch, version: code_version, level, dead, declared_kernels, libdevice: _, emissions, outputs, assembler: _,
    } = code;
    let Outputs { machine_code, ptx: _, ptx_version: _ } = outputs;
    let version = |version: PtxVersion| (version.major, version.minor);
    let emission = |emission: &Emission| {
        let Emission { arch, version: emitted, visible_functions, path: _ } = emission;
        (arch.to_string(), version(*emitted), *visible_functions)
    };
    let emissions: Vec<_> = emissions.iter().map(emission).collect();
    let machine_code =
        machine_code.iter().map(|MachineCode { emission, relocatable, name: _ }| (emission, relocatable));
    let packed = |value: Result<Vec<u8>, postcard::Error>| value.map_err(|_| None);
    Ok(vec![
        ("declared kernels", packed(postcard::to_allocvec(declared_kernels))?),
        ("dead", packed(postcard::to_allocvec(dead))?),
        ("arch", arch.to_string().into_bytes()),
        ("level", format!("{level:?}").into_bytes()),
        ("version", vec![code_version.major, code_version.minor]),
        ("emissions", format!("{emissions:?}").into_bytes()),
        ("machine code", packed(postcard::to_allocvec(&machine_code.collect::<Vec<_>>()))?),
        ("ptx", text_of(ptx)),
        ("ptx version", format!("{ptx_version:?}").into_bytes()),
        ("options", options_text(options).into_bytes()),
    ])
}

/// The fields of what ptxas makes of a text among the images.
pub fn assembly<'a>(machine: &Nvptx<'a>, target: &Planned<'_, Nvptx<'a>>, text: &[u8]) -> Result<Fields, NotCached> {
    // An error is reported by the job.
    let codegen = target.own.codegen(machine.backends).map_err(|_| None)?;
    if !codegen.is_toolkit() {
        return Err(None);
    }
    Ok(vec![
        ("text", text.to_vec()),
        ("arch", target.images.arch.to_string().into_bytes()),
        ("relocatable", vec![u8::from(target.own.needs.joins)]),
        ("options", options_text(machine.options()).into_bytes()),
    ])
}

/// The fields of a linked target.
pub fn target(machine: &Nvptx<'_>, target: &TargetImages<'_>) -> Result<Fields, NotCached> {
    // Results of a library are not cached.
    if !machine.backends.is_toolkit(&most_needs(target, machine)) {
        return Err(None);
    }
    let references = target.images.iter().map(|image| image.rdc.map(|rdc| blake3::hash(&rdc.reference_bytes())));
    let references = references.map(|hash| hash.map_or_else(Vec::new, |hash| hash.as_bytes().to_vec()));
    let references = postcard::to_allocvec(&references.collect::<Vec<_>>()).map_err(|_| None)?;
    let linker = ("linker", format!("{:?}", cubin_link::VERSION).into_bytes());
    Ok([vec![("references", references), linker], requested_fields(Requested::of(machine))].concat())
}

fn requested_fields(requested: Requested<'_>) -> Fields {
    let Requested { options, ptx_version, sass, ptx } = requested;
    vec![
        ("sass", text_of(sass)),
        ("ptx", text_of(ptx)),
        ("ptx version", format!("{ptx_version:?}").into_bytes()),
        ("options", options_text(options).into_bytes()),
    ]
}

fn text_of(entries: &[Entry]) -> Vec<u8> {
    format!("{entries:?}").into_bytes()
}

/// The tools and libraries that a step reads.
pub fn tools<'t>(machine: &'t Nvptx<'_>, step: Step) -> Result<Vec<Tool<'t>>, String> {
    let (ptxas, nvlink) = machine.backends.toolkit_files().ok_or("only results of ptxas and nvlink are cached")?;
    let ptxas_version: Version<'t> =
        Box::new(|| machine.backends.ptxas().map(|ptxas| ptxas.version.clone()).map_err(|errors| errors.to_string()));
    let mut tools = vec![Tool { name: "ptxas", path: ptxas, version: Some(ptxas_version) }];
    let library = |name, path: &std::path::Path| Tool { name, path: path.to_owned(), version: None };
    tools.extend(machine.libraries.libdevice_path().map(|path| library("libdevice", path)));
    tools.extend(complete::files_of_ptxas(machine.options()).iter().map(|path| library("file of ptxas", path)));
    if step == Step::Link {
        tools.extend(nvlink.map(|path| {
            let program = path.clone();
            let version: Version<'t> = Box::new(move || Ok(version_text(&program).unwrap_or_default()));
            Tool { name: "nvlink", path, version: Some(version) }
        }));
        tools.extend(machine.libraries.device_runtime_path().map(|path| library("device library", path)));
    }
    Ok(tools)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use llvm_passes::pipeline::OptLevel;
    use offload_bundle::arch::GpuArch;

    use super::*;
    use crate::cli::values::LtoIrRule;
    use crate::machines::nvptx::outputs::{ImagePtx, ImagePtxVersion, Relocatable};

    const PTX_8_4: PtxVersion = PtxVersion { major: 8, minor: 4 };

    fn entry(arch: u32, from: u32) -> Entry {
        Entry { arch: GpuArch::plain(arch), from: GpuArch::plain(from) }
    }

    /// Every option that the code depends on, each changed alone.
    fn other_options() -> Vec<(&'static str, DeviceOptions)> {
        let usual = DeviceOptions::default;
        let words = |word: &str| vec![word.to_owned()];
        vec![
            ("level", DeviceOptions { level: OptLevel::O3, ..usual() }),
            ("ptxas level", DeviceOptions { ptxas_level: 2, ..usual() }),
            ("debug", DeviceOptions { debug: true, ..usual() }),
            ("lto", DeviceOptions { lto_ir: LtoIrRule::Never, ..usual() }),
            ("ptxas arguments", DeviceOptions { ptxas_arguments: words("-x"), ..usual() }),
            ("nvlink arguments", DeviceOptions { nvlink_arguments: words("-x"), ..usual() }),
            ("LLVM options", DeviceOptions { llvm_options: words("-x"), ..usual() }),
        ]
    }

    /// Asserts that all fields differ, and that what does not count gives the first ones again.
    fn all_differ(all: &[(&str, Fields)], again: &Fields) {
        assert_eq!(&all[0].1, again);
        for (index, (what, fields)) in all.iter().enumerate() {
            let same = all[..index].iter().find(|(_, other)| other == fields).map(|(what, _)| what);
            assert!(same.is_none(), "{what} does not change the key: it is that of {same:?}");
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

    fn changed(change: impl FnOnce(&mut NvptxCode)) -> NvptxCode {
        let mut code = code();
        change(&mut code);
        code
    }

    #[test]
    fn everything_that_a_partition_depends_on_changes_the_key() {
        let usual = DeviceOptions::default();
        let (ptx, other_ptx) = ([entry(90, 90)], [entry(100, 90)]);
        let requested = Requested { options: &usual, ptx_version: None, sass: &[], ptx: &ptx };
        let fields = |code: &NvptxCode, requested| partition_fields(code, requested).unwrap();
        let codes = [
            ("nothing", code()),
            ("arch", changed(|code| code.arch = GpuArch::plain(80))),
            ("version", changed(|code| code.version = PtxVersion { major: 8, minor: 5 })),
            ("target of an emission", changed(|code| code.emissions[0].arch = GpuArch::plain(100))),
            ("version of an emission", changed(|code| code.emissions[0].version = PtxVersion { major: 9, minor: 0 })),
            ("one more emission", changed(|code| code.emissions.push(code.emissions[0].clone()))),
            ("level of LLVM", changed(|code| code.level = OptLevel::O3)),
            ("a kernel that is left out", changed(|code| code.dead.extend(["other".to_owned()]))),
            ("no machine code", changed(|code| code.outputs.machine_code.clear())),
            ("a declared kernel", changed(|code| code.declared_kernels.extend(["other".to_owned()]))),
            ("emission of machine code", changed(|code| code.outputs.machine_code[0].emission = 1)),
            ("finished machine code", changed(|code| code.outputs.machine_code[0].relocatable = Relocatable::Never)),
        ];
        let mut all: Vec<(&str, Fields)> = codes.iter().map(|(what, code)| (*what, fields(code, requested))).collect();
        let options = other_options();
        all.extend(options.iter().map(|(what, options)| (*what, fields(&code(), Requested { options, ..requested }))));
        all.push(("PTX version", fields(&code(), Requested { ptx_version: Some(PTX_8_4), ..requested })));
        all.push(("PTX", fields(&code(), Requested { ptx: &[], ..requested })));
        all.push(("other PTX", fields(&code(), Requested { ptx: &other_ptx, ..requested })));
        // Paths and names in messages do not affect the code.
        let elsewhere = changed(|code| {
            code.libdevice = Some("/b/libdevice.bc".into());
            code.emissions[0].path = "/b/2.ptx".into();
            code.outputs.machine_code[0].name = "the kernel b".to_owned();
            code.outputs.ptx[0].path = "/b/1.image.ptx".into();
            code.outputs.ptx[0].probe = "/b/1.probe.ptx".into();
        });
        all_differ(&all, &fields(&elsewhere, requested));
    }

    #[test]
    fn everything_that_a_target_depends_on_changes_the_key() {
        let usual = DeviceOptions::default();
        let (sass, ptx) = ([entry(90, 90)], [entry(80, 80)]);
        let requested = Requested { options: &usual, ptx_version: None, sass: &sass, ptx: &ptx };
        let mut all = vec![
            ("nothing", requested_fields(requested)),
            ("SASS", requested_fields(Requested { sass: &[], ..requested })),
            ("PTX", requested_fields(Requested { ptx: &[], ..requested })),
            ("SASS and PTX swapped", requested_fields(Requested { sass: &ptx, ptx: &sass, ..requested })),
            ("PTX version", requested_fields(Requested { ptx_version: Some(PTX_8_4), ..requested })),
        ];
        let options = other_options();
        all.extend(options.iter().map(|(what, options)| (*what, requested_fields(Requested { options, ..requested }))));
        // Options that do not affect the code.
        let (cuda_path, unknown) = (Some("/b".into()), vec!["-x".to_owned()]);
        let others = DeviceOptions { cuda_path, verbose: true, unknown, ..usual.clone() };
        all_differ(&all, &requested_fields(Requested { options: &others, ..requested }));
    }
}
