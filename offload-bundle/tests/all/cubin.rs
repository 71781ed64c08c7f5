//! What cubins of the real ptxas and nvlink say of themselves.

use offload_bundle::cubin::{self, Memory, SymbolBinding, SymbolKind};
use offload_bundle::{CudaRelease, GpuArch};

use crate::tools;

#[test]
fn architectures_and_toolkit() {
    let dir = tempfile::tempdir().expect("a folder");
    // A family target is not told from the plain one.
    let cases = [
        ("sm_75", "sm_75"),
        ("sm_90", "sm_90"),
        ("sm_90a", "sm_90a"),
        ("sm_100", "sm_100"),
        ("sm_100f", "sm_100"),
        ("sm_103a", "sm_103a"),
        ("sm_121a", "sm_121a"),
    ];
    for (asked, recorded) in cases {
        let arch: GpuArch = asked.parse().expect("an architecture");
        let ptx = tools::whole_ptx(&arch.min_ptx().to_string(), asked);
        for (args, relocatable) in [(&["-c"][..], true), (&[], false)] {
            let bytes = tools::ptxas(dir.path(), &ptx, asked, args);
            let cubin = cubin::parse(&bytes).expect("a sound cubin");
            assert_eq!(cubin.arch().to_string(), recorded);
            assert_eq!(cubin.is_relocatable(), relocatable, "{asked}");
            assert_eq!(cubin.toolkit(), Some(CudaRelease::new(13, 0)), "{asked}");
            assert_eq!((cubin.abi_version(), cubin.is_64_bit()), (8, true));
            assert_eq!(cubin.finalizable(), arch.number >= 100, "{asked}");
            let mut kernels = cubin.kernels();
            kernels.sort();
            assert_eq!(kernels, ["first", "second"], "{asked}");
        }
    }
}

#[test]
fn symbols_of_an_object_and_of_a_linked_program() {
    let dir = tempfile::tempdir().expect("a folder");
    let ptx = tools::sample_ptx("8.0", "sm_90").replace("helper, (a)", "missing, (a)");
    let ptx = ptx.replacen(".visible .entry", ".extern .shared .align 4 .b8 buffer[];\n.visible .entry", 1);
    let ptx = ptx.replace("\tst.global.u32 ", "\tst.shared.u32 \t[buffer], %r1;\n\tst.global.u32 ");
    let bytes = tools::ptxas(dir.path(), &ptx, "sm_90", &["-c"]);
    let cubin = cubin::parse(&bytes).expect("a sound cubin");
    let found = |name: &str| {
        let symbol = cubin.symbols().iter().find(|symbol| symbol.name == name);
        let symbol = symbol.unwrap_or_else(|| panic!("no {name}"));
        (symbol.defined, symbol.binding, symbol.kind, symbol.memory)
    };
    assert_eq!(found("first"), (true, SymbolBinding::Global, SymbolKind::Kernel, None));
    assert_eq!(found("helper"), (true, SymbolBinding::Weak, SymbolKind::Function, None));
    assert_eq!(found("missing"), (false, SymbolBinding::Global, SymbolKind::Function, None));
    assert_eq!(found("counter"), (true, SymbolBinding::Global, SymbolKind::Object, Some(Memory::Global)));
    assert_eq!(found("buffer"), (false, SymbolBinding::Global, SymbolKind::Object, Some(Memory::Shared)));

    let whole = tools::ptxas(dir.path(), &tools::whole_ptx("8.0", "sm_90"), "sm_90", &["-c"]);
    let (input, output) = (dir.path().join("whole.cubin"), dir.path().join("linked.cubin"));
    std::fs::write(&input, whole).expect("the input is written");
    let args = ["-arch".as_ref(), "sm_90".as_ref(), input.as_os_str(), "-o".as_ref(), output.as_os_str()];
    tools::run(&tools::cuda("nvlink"), args);
    let bytes = std::fs::read(&output).expect("nvlink wrote a cubin");
    let cubin = cubin::parse(&bytes).expect("a sound cubin");
    assert!(!cubin.is_relocatable());
    let mut kernels = cubin.kernels();
    kernels.sort();
    assert_eq!(kernels, ["first", "second"]);
    assert_eq!(cubin.toolkit(), Some(CudaRelease::new(13, 0)));
}

#[test]
fn debug_information() {
    let dir = tempfile::tempdir().expect("a folder");
    let ptx = tools::whole_ptx("8.0", "sm_90");
    for (args, debug, lines) in [(&["-g"][..], true, true), (&["-lineinfo"], false, true), (&[], false, false)] {
        let bytes = tools::ptxas(dir.path(), &ptx, "sm_90", args);
        let cubin = cubin::parse(&bytes).expect("a sound cubin");
        assert_eq!((cubin.has_debug_info(), cubin.has_line_info()), (debug, lines), "{args:?}");
    }
}

#[test]
fn every_truncation_is_an_error_and_no_panic() {
    let dir = tempfile::tempdir().expect("a folder");
    let bytes = tools::ptxas(dir.path(), &tools::whole_ptx("8.0", "sm_90"), "sm_90", &[]);
    assert!(cubin::parse(&bytes).is_ok());
    // The section table is at the end, but a little in front of it may be padding or program headers.
    for len in 0..bytes.len() - 512 {
        assert!(cubin::parse(&bytes[..len]).is_err(), "{len} of {} bytes", bytes.len());
    }
}
