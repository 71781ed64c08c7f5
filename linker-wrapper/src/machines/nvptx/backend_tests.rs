//! Tests the choice of the backend for every kind of input and every combination of tools.

use super::*;
use offload_bundle::arch::table::{KnownGpu, KnownRelease};

use crate::toolchain::tool_facts::Fact;
use crate::toolchain::tool_facts::testing::KnownTools;

const PTX_8_0: PtxVersion = PtxVersion { major: 8, minor: 0 };
const TOOLKIT: KnownTools = toolkit(Some(CudaRelease::new(13, 0)), true);
const NO_TOOLKIT: KnownTools = toolkit(None, false);
/// ptxas 12.9 without nvlink, as in the Python package.
const WHEEL: KnownTools = toolkit(Some(CudaRelease::new(12, 9)), false);
const LIBRARIES: [Option<CudaRelease>; 5] = [
    None,
    Some(CudaRelease::new(12, 2)),
    Some(CudaRelease::new(12, 9)),
    Some(CudaRelease::new(13, 0)),
    Some(CudaRelease::new(13, 5)),
];
/// No driver, one that does not report its release, and two releases.
const DRIVERS: [Option<Option<CudaRelease>>; 4] =
    [None, Some(None), Some(Some(CudaRelease::new(12, 4))), Some(Some(CudaRelease::new(13, 0)))];

/// A row without any backend.
const NOTHING: &str = "---- ---- ---- ---- ----";

const fn toolkit(ptxas: Option<CudaRelease>, nvlink: bool) -> KnownTools {
    KnownTools { ptxas, nvlink, nvvm: false, nvjitlink: None, driver: None }
}

fn needs(kind: &str) -> CodegenNeeds {
    let base = CodegenNeeds::none(GpuArch::plain(90));
    let of_lto_ir = |minor| {
        let version = Some(LtoIrVersion { major: 1, minor });
        CodegenNeeds { lto_ir: version, oldest_lto_ir: version, joins: true, ..base }
    };
    match kind {
        "bitcode" => CodegenNeeds { bitcode: true, ..base },
        "partitions" => CodegenNeeds { bitcode: true, joins: true, ..base },
        "ptx 8.0" => CodegenNeeds { ptx: Some(PTX_8_0), ..base },
        "ptx 9.0" => CodegenNeeds { ptx: Some(PtxVersion { major: 9, minor: 0 }), ..base },
        "cubins" => CodegenNeeds { joins: true, ..base },
        "lto-ir 12.2" => of_lto_ir(59),
        "lto-ir 12.9" => of_lto_ir(64),
        "lto-ir 13.0" => of_lto_ir(65),
        "lto-ir 12.9 and 13.0" => CodegenNeeds { lto_ir: of_lto_ir(65).lto_ir, ..of_lto_ir(64) },
        "lto-ir 13.0 and cubins" => CodegenNeeds { partial_lto: true, ..of_lto_ir(65) },
        "mixed" => CodegenNeeds { bitcode: true, ptx: Some(PTX_8_0), joins: true, ..base },
        "mixed, lto-ir 12.9" => CodegenNeeds { bitcode: true, ptx: Some(PTX_8_0), partial_lto: true, ..of_lto_ir(64) },
        _ => panic!("{kind}"),
    }
}

/// The chosen backend as a letter: p(txas), n(vJitLink), d(river), or - for an error.
fn letter(needs: &CodegenNeeds, tools: KnownTools, choice: BackendChoice) -> char {
    match choose(needs, &tools.facts(), choice).map(|decision| decision.backend) {
        Ok(Backend::Ptxas) => 'p',
        Ok(Backend::NvJitLink) => 'n',
        Ok(Backend::Driver) => 'd',
        Err(_) => '-',
    }
}

/// The choices as a string: a word for each library (absent, 12.2, 12.9, 13.0, 13.5) with a letter for each driver (absent,
/// unknown, 12.4, 13.0).
fn row(needs: &CodegenNeeds, toolkit: KnownTools, choice: BackendChoice) -> String {
    let letter = |nvjitlink, driver| letter(needs, KnownTools { nvjitlink, driver, ..toolkit }, choice);
    LIBRARIES.map(|library| DRIVERS.map(|driver| letter(library, driver)).iter().collect::<String>()).join(" ")
}

#[test]
fn every_combination_of_inputs_and_tools() {
    // Inputs, with or without LTO, then auto without a toolkit, nvjitlink, and driver. The last two do not depend on the toolkit.
    let table = [
        ("bitcode", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("bitcode", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("partitions", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("partitions", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("ptx 8.0", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("ptx 8.0", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("ptx 9.0", true, "-d-d -d-d -d-d nnnn nnnn", "---- ---- ---- nnnn nnnn", "-d-d -d-d -d-d -d-d -d-d"),
        ("ptx 9.0", false, "-d-d -d-d -d-d nnnn nnnn", "---- ---- ---- nnnn nnnn", "-d-d -d-d -d-d -d-d -d-d"),
        // Only with tools of its own major version of CUDA.
        ("lto-ir 12.2", true, "---- nnnn nnnn ---- ----", "---- nnnn nnnn ---- ----", "---- ---- ---- ---- ----"),
        ("lto-ir 12.2", false, "---- ---- ---- ---- ----", "---- ---- ---- ---- ----", "---- ---- ---- ---- ----"),
        ("lto-ir 12.9", true, "---- ---- nnnn ---- ----", "---- ---- nnnn ---- ----", "---- ---- ---- ---- ----"),
        ("lto-ir 12.9 and 13.0", true, NOTHING, NOTHING, NOTHING),
        // nvJitLink loses functions that only the cubins call.
        ("lto-ir 13.0 and cubins", true, NOTHING, NOTHING, NOTHING),
        ("lto-ir 13.0", true, "---- ---- ---- nnnn nnnn", "---- ---- ---- nnnn nnnn", "---- ---- ---- ---- ----"),
        ("lto-ir 13.0", false, "---- ---- ---- ---- ----", "---- ---- ---- ---- ----", "---- ---- ---- ---- ----"),
        ("mixed", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("mixed", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("mixed, lto-ir 12.9", true, NOTHING, NOTHING, NOTHING),
        ("mixed, lto-ir 12.9", false, NOTHING, NOTHING, NOTHING),
        // Linking machine code needs only nvlink, which is absent, too.
        ("cubins", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("cubins", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
    ];
    for (kind, lto, auto, nvjitlink, driver) in table {
        let needs = CodegenNeeds { lto, ..needs(kind) };
        assert_eq!(row(&needs, NO_TOOLKIT, BackendChoice::Auto), auto, "{kind}, lto {lto}, auto");
        for toolkit in [TOOLKIT, NO_TOOLKIT, WHEEL] {
            let only = |choice| row(&needs, toolkit, choice);
            assert_eq!(only(BackendChoice::Only(Backend::NvJitLink)), nvjitlink, "{kind}, lto {lto}, nvjitlink");
            assert_eq!(only(BackendChoice::Only(Backend::Driver)), driver, "{kind}, lto {lto}, driver");
        }
    }
}

#[test]
fn a_toolkit_that_supports_the_link_is_always_preferred() {
    for (kind, toolkit, can) in [
        ("bitcode", TOOLKIT, true),
        ("partitions", TOOLKIT, true),
        ("ptx 8.0", TOOLKIT, true),
        ("ptx 9.0", TOOLKIT, true),
        ("cubins", TOOLKIT, true),
        ("mixed", TOOLKIT, true),
        ("lto-ir 12.2", TOOLKIT, false),
        ("lto-ir 13.0", TOOLKIT, false),
        ("mixed, lto-ir 12.9", TOOLKIT, false),
        ("bitcode", WHEEL, true),
        ("ptx 8.0", WHEEL, true),
        ("ptx 9.0", WHEEL, false),
        ("partitions", WHEEL, false),
        ("cubins", WHEEL, false),
        ("mixed", WHEEL, false),
    ] {
        let needs = needs(kind);
        let all = |letter: &str| [letter.repeat(4).as_str(); 5].join(" ");
        let ptxas = row(&needs, toolkit, BackendChoice::Only(Backend::Ptxas));
        assert_eq!(ptxas, all(if can { "p" } else { "-" }), "{kind}, ptxas");
        // The library and the driver make no difference if the toolkit suffices.
        let auto = row(&needs, toolkit, BackendChoice::Auto);
        let without = row(&needs, NO_TOOLKIT, BackendChoice::Auto);
        assert_eq!(auto, if can { all("p") } else { without }, "{kind}, auto");
    }
}

#[test]
fn nvlink_links_lto_ir_if_it_has_its_optimizer() {
    let complete = KnownTools { nvvm: true, nvjitlink: Some(CudaRelease::new(13, 0)), ..TOOLKIT };
    assert_eq!(letter(&needs("lto-ir 13.0"), complete, BackendChoice::Auto), 'p');
    assert_eq!(letter(&needs("lto-ir 13.0 and cubins"), complete, BackendChoice::Auto), 'p');
    assert_eq!(letter(&needs("lto-ir 12.9"), complete, BackendChoice::Auto), '-');
    assert_eq!(letter(&needs("lto-ir 12.9 and 13.0"), complete, BackendChoice::Auto), '-');
    let older = KnownTools { ptxas: Some(CudaRelease::new(12, 9)), ..complete };
    assert_eq!(letter(&needs("lto-ir 12.9"), older, BackendChoice::Auto), 'p');
    assert_eq!(letter(&needs("mixed, lto-ir 12.9"), older, BackendChoice::Auto), 'p');
    assert_eq!(letter(&needs("lto-ir 13.0"), older, BackendChoice::Auto), 'n');
    let off = CodegenNeeds { lto: false, ..needs("lto-ir 13.0") };
    assert_eq!(letter(&off, complete, BackendChoice::Auto), '-');
    let without_ptxas = KnownTools { ptxas: None, ..complete };
    assert_eq!(letter(&needs("lto-ir 13.0"), without_ptxas, BackendChoice::Auto), 'n');
}

#[test]
fn the_choice_depends_on_the_target() {
    let of = |major, minor| Some(CudaRelease::new(major, minor));
    for (arch, ptxas, nvjitlink, driver, expected) in [
        ("sm_120", of(13, 0), None, None, 'p'),
        ("sm_120", of(12, 4), of(12, 9), None, 'n'),
        ("sm_120", of(12, 4), of(12, 2), Some(of(13, 0)), 'd'),
        ("sm_120", of(12, 4), of(12, 2), Some(of(12, 4)), '-'),
        ("sm_70", of(13, 0), of(12, 9), None, 'n'),
        ("sm_70", of(13, 0), of(13, 0), Some(of(13, 0)), 'd'),
        ("sm_70", of(13, 0), of(13, 0), None, '-'),
    ] {
        let needs = CodegenNeeds { arch: arch.parse().unwrap(), ..needs("bitcode") };
        let tools = KnownTools { ptxas, nvlink: true, nvvm: false, nvjitlink, driver };
        assert_eq!(letter(&needs, tools, BackendChoice::Auto), expected, "{arch} {tools:?}");
    }
}

#[test]
fn one_table_row_adds_a_target() {
    let release = |row: KnownRelease| row.release;
    let newest = *KNOWN.releases.last().unwrap();
    let next = KnownRelease {
        release: CudaRelease { minor: newest.release.minor + 1, ..newest.release },
        ptx: newest.ptx.next(),
        ..newest
    };
    let gpu = KnownGpu { number: 130, plain: next.ptx, ..*KNOWN.gpus.last().unwrap() };
    let (gpus, releases) = ([KNOWN.gpus, &[gpu]].concat(), [KNOWN.releases, &[next]].concat());
    let targets = TargetTable { gpus: &gpus, releases: &releases, ..KNOWN };
    let needs = CodegenNeeds { arch: "sm_130".parse().unwrap(), ..needs("bitcode") };
    let unsupported = |row: KnownRelease| {
        let facts = toolkit(Some(release(row)), true).facts();
        Abilities { needs: &needs, facts: &facts, targets }.unsupported(Backend::Ptxas).unwrap()
    };
    assert_eq!(unsupported(next), None);
    let (arch, needed, known) = (needs.arch, next.ptx, newest.ptx);
    let too_new = Unsupported::TargetNewer { arch, needed, known, release: release(newest) };
    assert_eq!(unsupported(newest), Some(too_new));
}

#[test]
fn irrelevant_facts_are_not_looked_up() {
    let facts = |tools: KnownTools| {
        let forbidden = || -> Fact<_> { Fact::new(Box::new(|| panic!("this fact was looked up"))) };
        ToolFacts { nvjitlink: forbidden(), driver: forbidden(), ..tools.facts() }
    };
    assert!(choose(&needs("mixed"), &facts(TOOLKIT), BackendChoice::Auto).is_ok());
    assert!(choose(&needs("cubins"), &facts(WHEEL), BackendChoice::Only(Backend::Ptxas)).is_err());
    assert!(!is_toolkit(&needs("lto-ir 12.2"), &facts(TOOLKIT), BackendChoice::Auto));
    let no_driver = ToolFacts {
        nvjitlink: KnownTools { nvjitlink: Some(CudaRelease::new(13, 0)), ..TOOLKIT }.facts().nvjitlink,
        ..facts(TOOLKIT)
    };
    assert!(choose(&needs("lto-ir 13.0"), &no_driver, BackendChoice::Auto).is_ok());
}

#[test]
fn a_ptxas_that_does_not_work_is_an_error() {
    let broken = || Fact::new(Box::new(|| Err(std::io::Error::other("cannot run ptxas").into())));
    let tools = KnownTools { nvjitlink: Some(CudaRelease::new(13, 0)), ..TOOLKIT };
    let facts = || ToolFacts { ptxas: broken(), ..tools.facts() };
    let error = choose(&needs("bitcode"), &facts(), BackendChoice::Auto).unwrap_err();
    assert_eq!(error.to_string(), "cannot run ptxas");
    assert!(!is_toolkit(&needs("bitcode"), &facts(), BackendChoice::Auto));
    // It does not matter if ptxas is not needed.
    assert!(choose(&needs("cubins"), &facts(), BackendChoice::Auto).is_ok());
    assert!(choose(&needs("bitcode"), &facts(), BackendChoice::Only(Backend::NvJitLink)).is_ok());
}

fn error(kind: &str, tools: KnownTools, choice: BackendChoice) -> String {
    choose(&needs(kind), &tools.facts(), choice).unwrap_err().to_string()
}

#[test]
fn errors_name_what_each_backend_lacks_and_give_advice() {
    let of = |major, minor| Some(CudaRelease::new(major, minor));
    let library = |nvjitlink| KnownTools { nvjitlink, ..TOOLKIT };
    assert_eq!(
        error("ptx 9.0", library(of(12, 9)), BackendChoice::Only(Backend::NvJitLink)),
        "--offload-backend=nvjitlink cannot link the code for sm_90: PTX 9.0 is newer than nvJitLink 12.9, which knows 8.8: \
         name a newer one, or compile with an older CUDA"
    );
    let tools = KnownTools { driver: Some(of(12, 4)), ..library(of(12, 2)) };
    let all = error("lto-ir 13.0", tools, BackendChoice::Auto);
    assert!(all.starts_with("no available backend can link the code for sm_90: "), "{all}");
    for part in [
        "LTO-IR to link, and NVIDIA's optimizer is not beside nvlink",
        "LTO-IR 1.65 is newer than nvJitLink 12.2, which knows 1.59",
        "which the driver's linker does not read",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let complete = KnownTools { nvvm: true, ..TOOLKIT };
    assert_eq!(
        error("lto-ir 12.9", complete, BackendChoice::Only(Backend::Ptxas)),
        "--offload-backend=ptxas cannot link the code for sm_90: LTO-IR 1.64 is of CUDA 12, and ptxas 13.0 links only that of its \
         own major version: compile the files with the toolkit of this link, or name a tool of theirs"
    );
    assert_eq!(
        error("lto-ir 13.0 and cubins", library(of(13, 0)), BackendChoice::Only(Backend::NvJitLink)),
        "--offload-backend=nvjitlink cannot link the code for sm_90: there is other code beside the LTO-IR, for which nvJitLink \
         loses functions that it calls: name a toolkit whose nvlink has NVIDIA's optimizer with --cuda-path=<dir>, or compile all \
         files to LTO-IR or none"
    );
    // A tool that was not found has an error of its own.
    assert_eq!(error("bitcode", NO_TOOLKIT, BackendChoice::Auto), "ptxas not found");
    let driver = error("bitcode", TOOLKIT, BackendChoice::Only(Backend::Driver));
    assert_eq!(driver, "--offload-backend=driver cannot link the code for sm_90: driver not found");
    // The library is mentioned because it would help here.
    let partitions = error("partitions", WHEEL, BackendChoice::Auto);
    assert!(partitions.contains("there is no nvlink") && partitions.ends_with("; nvJitLink not found"), "{partitions}");
}

#[test]
fn decisions_give_their_reason() {
    let of = |kind, tools: KnownTools, choice| choose(&needs(kind), &tools.facts(), choice).unwrap();
    let library = |tools| KnownTools { nvjitlink: Some(CudaRelease::new(13, 0)), ..tools };
    let with_driver = KnownTools { driver: Some(None), ..TOOLKIT };
    let only_driver = BackendChoice::Only(Backend::Driver);
    for (kind, tools, choice, backend, expected) in [
        ("bitcode", TOOLKIT, BackendChoice::Auto, Backend::Ptxas, "it can do the whole link and needs no driver"),
        ("cubins", TOOLKIT, BackendChoice::Auto, Backend::Ptxas, "only machine code has to be linked"),
        ("bitcode", library(NO_TOOLKIT), BackendChoice::Auto, Backend::NvJitLink, "ptxas was not found"),
        (
            "partitions",
            library(WHEEL),
            BackendChoice::Auto,
            Backend::NvJitLink,
            "several objects must be linked, and there is no nvlink",
        ),
        (
            "lto-ir 13.0",
            library(TOOLKIT),
            BackendChoice::Auto,
            Backend::NvJitLink,
            "there is LTO-IR to link, and NVIDIA's optimizer is not beside nvlink (nvvm/lib64/libnvvm.so)",
        ),
        ("bitcode", with_driver, only_driver, Backend::Driver, "--offload-backend=driver selects it"),
    ] {
        let decision = of(kind, tools, choice);
        assert_eq!((decision.backend, &*decision.reason), (backend, expected), "{kind}");
    }
}

#[test]
fn a_decision_names_the_program_that_runs() {
    let shown = |kind| choose(&needs(kind), &TOOLKIT.facts(), BackendChoice::Auto).unwrap().to_string();
    assert_eq!(
        shown("bitcode"),
        "sm_90: ptxas 13.0 (ptxas): it can do the whole link and needs no driver; fatlink links the cubins, or nvlink if there is \
         something that fatlink does not know"
    );
    assert!(shown("cubins").starts_with("sm_90: nvlink (nvlink): only machine code has to be linked; "));
    let cubins = CodegenNeeds { linker: CubinLinker::Fatlink, ..needs("cubins") };
    // Needs no other program.
    let decision = choose(&cubins, &NO_TOOLKIT.facts(), BackendChoice::Auto).unwrap().to_string();
    assert_eq!(
        decision,
        "sm_90: fatlink: only machine code has to be linked; fatlink links the cubins: --offload-device-linker= selects it"
    );
    let old = CodegenNeeds { arch: GpuArch::plain(70), ..cubins };
    assert_eq!(
        choose(&old, &TOOLKIT.facts(), BackendChoice::Auto).unwrap_err().to_string(),
        "--offload-device-linker=fatlink cannot link the code for sm_70: fatlink's linker is not proven for sm_70; select nvlink, or \
         leave the option out"
    );
}

#[test]
fn a_named_tool_is_rejected_for_what_another_version_of_it_can_do() {
    let of = |major, minor| Some(CudaRelease::new(major, minor));
    let rejected = |part: Part, kind: &str, tools: KnownTools| {
        let mut facts = tools.facts();
        facts.named.set(part, "/named".into());
        let chosen = choose(&needs(kind), &facts, BackendChoice::Auto);
        chosen.err().map(|errors| errors.to_string()).filter(|text| text.contains("/named"))
    };
    let old_ptxas = toolkit(of(12, 9), true);
    assert_eq!(
        rejected(Part::Ptxas, "ptx 9.0", KnownTools { nvjitlink: of(13, 0), ..old_ptxas }).as_deref(),
        Some(
            "--ptxas-path=/named cannot link the code for sm_90: PTX 9.0 is newer than ptxas 12.9, which knows 8.8: name a newer \
             one, or compile with an older CUDA, leave the option out, or choose another tool with --offload-backend="
        )
    );
    let driver = Some(of(13, 0));
    let old_library = KnownTools { nvjitlink: of(12, 9), driver, ..NO_TOOLKIT };
    assert!(rejected(Part::NvJitLink, "ptx 9.0", old_library).is_some());
    assert!(rejected(Part::NvJitLink, "bitcode", KnownTools { driver, ..NO_TOOLKIT }).is_some());
    // No ptxas reads LTO-IR, and nvlink has an option of its own.
    let library = |tools| KnownTools { nvjitlink: of(13, 0), ..tools };
    assert_eq!(rejected(Part::Ptxas, "lto-ir 12.2", library(old_ptxas)), None);
    assert_eq!(rejected(Part::Ptxas, "bitcode", library(old_ptxas)), None);
    assert_eq!(rejected(Part::Ptxas, "partitions", library(toolkit(of(12, 9), false))), None);
}
