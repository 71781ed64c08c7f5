//! The whole dispatch table: the backend that is chosen for every kind of input and every combination of tools.

use super::*;

const PTX_8_0: PtxVersion = PtxVersion { major: 8, minor: 0 };
const TOOLKIT: ToolFacts = toolkit(Some(CudaRelease::new(13, 0)), true);
const NO_TOOLKIT: ToolFacts = toolkit(None, false);
const WHEEL: ToolFacts = toolkit(Some(CudaRelease::new(12, 9)), false);
const LIBRARIES: [Option<CudaRelease>; 5] = [
    None,
    Some(CudaRelease::new(12, 2)),
    Some(CudaRelease::new(12, 9)),
    Some(CudaRelease::new(13, 0)),
    Some(CudaRelease::new(13, 5)),
];
const DRIVERS: [DriverRelease; 4] = [
    DriverRelease::Absent,
    DriverRelease::Unknown,
    DriverRelease::Known(CudaRelease::new(12, 4)),
    DriverRelease::Known(CudaRelease::new(13, 0)),
];

const fn toolkit(ptxas: Option<CudaRelease>, nvlink: bool) -> ToolFacts {
    ToolFacts { ptxas, nvlink, nvjitlink: None, driver: DriverRelease::Absent }
}

/// `toolkit` with a library and a driver beside it.
fn with(toolkit: ToolFacts, nvjitlink: Option<CudaRelease>, driver: DriverRelease) -> ToolFacts {
    ToolFacts { nvjitlink, driver, ..toolkit }
}

fn needs(kind: &str) -> CodegenNeeds {
    let base = CodegenNeeds::none(GpuArch::plain(90));
    let lto_ir = |minor| Some(LtoIrVersion { major: 1, minor });
    match kind {
        "bitcode" => CodegenNeeds { bitcode: true, ..base },
        "partitions" => CodegenNeeds { bitcode: true, joins: true, ..base },
        "ptx 8.0" => CodegenNeeds { ptx: Some(PTX_8_0), ..base },
        "ptx 9.0" => CodegenNeeds { ptx: Some(PtxVersion { major: 9, minor: 0 }), ..base },
        "cubins" => CodegenNeeds { joins: true, ..base },
        "lto-ir 12.2" => CodegenNeeds { lto_ir: lto_ir(59), joins: true, ..base },
        "lto-ir 13.0" => CodegenNeeds { lto_ir: lto_ir(65), joins: true, ..base },
        "mixed" => CodegenNeeds { bitcode: true, ptx: Some(PTX_8_0), joins: true, ..base },
        "mixed, lto-ir 12.9" => {
            CodegenNeeds { bitcode: true, ptx: Some(PTX_8_0), lto_ir: lto_ir(64), joins: true, ..base }
        }
        _ => panic!("{kind}"),
    }
}

/// One letter: p(txas), n(vJitLink), d(river), or - for an error.
fn letter(chosen: &Result<Backend, NoBackend>) -> char {
    match chosen {
        Ok(Backend::Ptxas) => 'p',
        Ok(Backend::NvJitLink) => 'n',
        Ok(Backend::Driver) => 'd',
        Err(_) => '-',
    }
}

/// One word for each library (absent, 12.2, 12.9, 13.0, 13.5) of one letter for each driver (absent, unknown, 12.4, 13.0).
fn row(needs: &CodegenNeeds, toolkit: ToolFacts, lto: bool, choice: BackendChoice) -> String {
    let word =
        |library| DRIVERS.map(|driver| letter(&choose_backend(needs, &with(toolkit, library, driver), lto, choice)));
    LIBRARIES.map(|library| word(library).iter().collect::<String>()).join(" ")
}

#[test]
fn the_dispatch_table() {
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
        ("lto-ir 12.2", true, "---- nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "---- ---- ---- ---- ----"),
        ("lto-ir 12.2", false, "---- ---- ---- ---- ----", "---- ---- ---- ---- ----", "---- ---- ---- ---- ----"),
        ("lto-ir 13.0", true, "---- ---- ---- nnnn nnnn", "---- ---- ---- nnnn nnnn", "---- ---- ---- ---- ----"),
        ("lto-ir 13.0", false, "---- ---- ---- ---- ----", "---- ---- ---- ---- ----", "---- ---- ---- ---- ----"),
        ("mixed", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("mixed", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        (
            "mixed, lto-ir 12.9",
            true,
            "---- ---- nnnn nnnn nnnn",
            "---- ---- nnnn nnnn nnnn",
            "---- ---- ---- ---- ----",
        ),
        (
            "mixed, lto-ir 12.9",
            false,
            "---- ---- ---- ---- ----",
            "---- ---- ---- ---- ----",
            "---- ---- ---- ---- ----",
        ),
        // Joining machine code needs nvlink alone, which is not there either.
        ("cubins", true, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
        ("cubins", false, "-ddd nnnn nnnn nnnn nnnn", "---- nnnn nnnn nnnn nnnn", "-ddd -ddd -ddd -ddd -ddd"),
    ];
    for (kind, lto, auto, nvjitlink, driver) in table {
        let needs = needs(kind);
        assert_eq!(row(&needs, NO_TOOLKIT, lto, BackendChoice::Auto), auto, "{kind}, lto {lto}, auto");
        for toolkit in [TOOLKIT, NO_TOOLKIT, WHEEL] {
            let only = |choice| row(&needs, toolkit, lto, choice);
            assert_eq!(only(BackendChoice::Only(Backend::NvJitLink)), nvjitlink, "{kind}, lto {lto}, nvjitlink");
            assert_eq!(only(BackendChoice::Only(Backend::Driver)), driver, "{kind}, lto {lto}, driver");
        }
    }
}

#[test]
fn a_toolkit_that_can_do_it_is_taken_whatever_else_there_is() {
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
        // ptxas 12.9 without nvlink, as the Python package has it.
        ("bitcode", WHEEL, true),
        ("ptx 8.0", WHEEL, true),
        ("ptx 9.0", WHEEL, false),
        ("partitions", WHEEL, false),
        ("cubins", WHEEL, false),
        ("mixed", WHEEL, false),
    ] {
        let needs = needs(kind);
        let all = |letter: &str| [letter.repeat(4).as_str(); 5].join(" ");
        let ptxas = row(&needs, toolkit, true, BackendChoice::Only(Backend::Ptxas));
        assert_eq!(ptxas, all(if can { "p" } else { "-" }), "{kind}, ptxas");
        // Nobody has to look for a library or a driver when the toolkit is enough.
        let auto = row(&needs, toolkit, true, BackendChoice::Auto);
        let without = row(&needs, NO_TOOLKIT, true, BackendChoice::Auto);
        assert_eq!(auto, if can { all("p") } else { without }, "{kind}, auto");
    }
}

#[test]
fn targets_decide_too() {
    let of = |arch: &str, kind| CodegenNeeds { arch: arch.parse().unwrap(), ..needs(kind) };
    for (arch, toolkit, library, driver, expected) in [
        ("sm_120", TOOLKIT, None, DriverRelease::Absent, 'p'),
        (
            "sm_120",
            toolkit(Some(CudaRelease::new(12, 4)), true),
            Some(CudaRelease::new(12, 9)),
            DriverRelease::Absent,
            'n',
        ),
        (
            "sm_120",
            toolkit(Some(CudaRelease::new(12, 4)), true),
            Some(CudaRelease::new(12, 2)),
            DriverRelease::Known(CudaRelease::new(13, 0)),
            'd',
        ),
        (
            "sm_120",
            toolkit(Some(CudaRelease::new(12, 4)), true),
            Some(CudaRelease::new(12, 2)),
            DriverRelease::Known(CudaRelease::new(12, 4)),
            '-',
        ),
        ("sm_70", TOOLKIT, Some(CudaRelease::new(12, 9)), DriverRelease::Absent, 'n'),
        ("sm_70", TOOLKIT, Some(CudaRelease::new(13, 0)), DriverRelease::Known(CudaRelease::new(13, 0)), 'd'),
        ("sm_70", TOOLKIT, Some(CudaRelease::new(13, 0)), DriverRelease::Absent, '-'),
    ] {
        let chosen = choose_backend(&of(arch, "bitcode"), &with(toolkit, library, driver), true, BackendChoice::Auto);
        assert_eq!(letter(&chosen), expected, "{arch} {toolkit:?} {library:?} {driver:?}");
    }
}

#[test]
fn an_error_says_what_each_backend_lacks_and_what_to_do() {
    let error = |kind, toolkit, library, driver, choice| {
        choose_backend(&needs(kind), &with(toolkit, library, driver), true, choice).unwrap_err().to_string()
    };
    let only_nvjitlink = BackendChoice::Only(Backend::NvJitLink);
    assert_eq!(
        error("ptx 9.0", TOOLKIT, Some(CudaRelease::new(12, 9)), DriverRelease::Absent, only_nvjitlink),
        "PTX 9.0 is newer than nvJitLink 12.9, which knows 8.8: name a newer one, or compile with an older CUDA"
    );
    let all = error(
        "lto-ir 13.0",
        TOOLKIT,
        Some(CudaRelease::new(12, 2)),
        DriverRelease::Known(CudaRelease::new(12, 4)),
        BackendChoice::Auto,
    );
    for part in [
        "LTO-IR to link, which ptxas does not read",
        "LTO-IR 1.65 is newer than nvJitLink 12.2, which knows 1.59",
        "which the driver's linker does not read",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
    let driver = error("bitcode", TOOLKIT, None, DriverRelease::Absent, BackendChoice::Only(Backend::Driver));
    assert!(
        driver.starts_with("the driver's linker is not there: link where NVIDIA's driver is installed"),
        "{driver}"
    );
}

#[test]
fn reasons() {
    let of = |kind, toolkit, choice, backend| {
        reason(
            &needs(kind),
            &with(toolkit, Some(CudaRelease::new(13, 0)), DriverRelease::Absent),
            true,
            choice,
            backend,
        )
    };
    for (kind, toolkit, choice, backend, expected) in [
        ("bitcode", TOOLKIT, BackendChoice::Auto, Backend::Ptxas, "it can do the whole link and needs no driver"),
        ("cubins", TOOLKIT, BackendChoice::Auto, Backend::Ptxas, "machine code needs joining alone"),
        ("bitcode", NO_TOOLKIT, BackendChoice::Auto, Backend::NvJitLink, "ptxas is not there"),
        (
            "partitions",
            WHEEL,
            BackendChoice::Auto,
            Backend::NvJitLink,
            "several pieces must be joined, and there is no nvlink",
        ),
        (
            "lto-ir 13.0",
            TOOLKIT,
            BackendChoice::Auto,
            Backend::NvJitLink,
            "there is LTO-IR to link, which ptxas does not read",
        ),
        (
            "bitcode",
            TOOLKIT,
            BackendChoice::Only(Backend::Driver),
            Backend::Driver,
            "--offload-backend=driver asks for it",
        ),
    ] {
        assert_eq!(of(kind, toolkit, choice, backend), expected);
    }
}

#[test]
fn issue_11_11_a_named_tool_is_refused_for_what_another_version_of_it_can_do() {
    let named = |tool, kind: &str, ptxas: Option<CudaRelease>, library| {
        let toolkit = toolkit(ptxas, true);
        check_named(tool, &needs(kind), &with(toolkit, library, DriverRelease::Absent), true).map_err(|why| why.0[0].1)
    };
    let newer = Unsupported::PtxNewer(
        PtxVersion { major: 9, minor: 0 },
        newest_ptx(CudaRelease::new(12, 9)),
        CudaRelease::new(12, 9),
    );
    assert_eq!(named(Backend::Ptxas, "ptx 9.0", Some(CudaRelease::new(12, 9)), None), Err(newer));
    assert_eq!(named(Backend::NvJitLink, "ptx 9.0", None, Some(CudaRelease::new(12, 9))), Err(newer));
    assert_eq!(named(Backend::NvJitLink, "bitcode", None, None), Err(Unsupported::Absent));
    // No ptxas reads it, and nvlink has an option of its own.
    assert_eq!(named(Backend::Ptxas, "lto-ir 12.2", Some(CudaRelease::new(12, 9)), None), Ok(()));
    assert_eq!(named(Backend::Ptxas, "bitcode", Some(CudaRelease::new(12, 9)), None), Ok(()));
    let no_nvlink = toolkit(Some(CudaRelease::new(12, 9)), false);
    assert_eq!(check_named(Backend::Ptxas, &needs("partitions"), &no_nvlink, true), Ok(()));
}
