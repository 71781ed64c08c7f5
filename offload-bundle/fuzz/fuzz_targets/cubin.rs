//! Cubins, and all that can be read from and written into them.
#![no_main]

use libfuzzer_sys::fuzz_target;
use offload_bundle::GpuArch;
use offload_bundle::cubin;

fuzz_target!(|data: &[u8]| {
    if let Ok(cubin) = cubin::parse(data) {
        let _ = (
            cubin.arch(),
            cubin.toolkit(),
            cubin.kernels(),
            cubin.nv_compat(),
            cubin.has_debug_info(),
            cubin.resources(),
        );
        assert_eq!(cubin::code_difference(&cubin, &cubin), cubin::CodeDifference::default());
        let copies = cubin.kernels().into_iter().map(|kernel| (kernel.clone(), vec![format!("{kernel}_copy")])).collect();
        if let Ok(copy) = cubin::with_kernel_copies(data, &copies) {
            assert!(cubin::parse(&copy).expect("a cubin").kernels().len() >= 2 * copies.len());
        }
    }
    if let Ok(Some(copy)) = cubin::with_declared_kernels(data, &|_| true) {
        assert_eq!(copy.len(), data.len());
    }
    let target = GpuArch::plain(87);
    if let Ok(copy) = cubin::retargeted(data, target) {
        assert_eq!(copy.len(), data.len());
        // The note may overlap what else is read.
        if let Ok(copy) = cubin::parse(&copy) {
            assert_eq!(copy.arch().number, target.number);
        }
    }
});
