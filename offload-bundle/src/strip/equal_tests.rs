use proptest::prelude::*;

use super::*;
use crate::arch::GpuArch;
use crate::arch::table::KNOWN;
use crate::coverage::{Code, outcome};
use crate::fatbin;
use crate::samples::{self, compiled_cubin, fatbin_of};

fn stripped(data: &[u8]) -> (Stripped<'_>, Vec<Replaced>) {
    strip_equal(data).expect("a sound file")
}

#[test]
fn what_is_dropped_and_what_runs_instead() {
    let arch = GpuArch::plain;
    let all = [compiled_cubin("sm_86", 1, true), compiled_cubin("sm_89", 1, false), compiled_cubin("sm_90", 1, false)];
    let two = [fatbin_of(&all), fatbin_of(&all)].concat();
    let (small, replaced) = stripped(&two);
    let left = [all[0].clone(), all[2].clone()];
    assert_eq!(small.bytes, [fatbin_of(&left), fatbin_of(&left)].concat());
    assert_eq!(replaced, [Replaced { target: arch(89), instead: arch(86), gpu: arch(89), count: 2 }]);
    assert_eq!((small.summary.dropped.len(), small.summary.kept), (2, 4));
    // There is nothing more to drop.
    assert!(stripped(&small.bytes).0.summary.dropped.is_empty());
}

#[test]
fn what_is_stored_twice() {
    let cubin = compiled_cubin("sm_90", 1, false);
    let twice = fatbin_of(&[cubin.clone(), cubin.clone()]);
    assert_eq!(stripped(&twice).0.bytes, fatbin_of(&[cubin]));
}

#[test]
fn an_archive_is_refused_and_other_files_stay() {
    let fatbin = fatbin_of(&[compiled_cubin("sm_120a", 1, false), compiled_cubin("sm_120", 1, false)]);
    let object = samples::nvcc_object(&fatbin);
    assert!(stripped(&object).0.bytes.len() < object.len());
    let archive = samples::archive(&[("a.o", &object)]);
    let error = strip_equal(&archive).expect_err("an archive");
    assert!(error.to_string().contains("an archive, which is not linked yet"), "{error}");
    for data in [samples::fatbin(true), samples::offload_binaries(), samples::hip_bundle(true), b"text".to_vec()] {
        assert_eq!(stripped(&data).0.bytes, data);
    }
}

/// The code and the workaround that each GPU runs of each fatbin.
fn runs(data: &[u8]) -> Vec<Vec<Option<(u8, bool)>>> {
    let of_gpu = |codes: &[Code], entries: &[fatbin::FatbinEntry<'_>], gpu| {
        let number = outcome(codes, gpu, Runtime::default()).code?.number;
        let payload = entries[number - 1].payload().expect("a sound image");
        let cubin = crate::cubin::parse(&payload).expect("a sound cubin");
        let section = |name| cubin.section(name).expect("a section");
        Some((section(".text.first")[0], section(".nv.info.first").len() > 4))
    };
    let of_fatbin = |container: fatbin::Container<'_>| {
        let codes = coverage::inspect(&container.entries);
        KNOWN.all_gpus().map(|gpu| of_gpu(&codes, &container.entries, gpu)).collect()
    };
    fatbin::read_containers(data).expect("sound fatbins").into_iter().map(of_fatbin).collect()
}

/// Fatbins of a few cubins each, of which some have the same code.
fn fatbins() -> impl Strategy<Value = Vec<Vec<(&'static str, u8, bool)>>> {
    let targets = ["sm_80", "sm_86", "sm_89", "sm_90", "sm_90a", "sm_120", "sm_120a", "sm_121"];
    let cubin = (prop::sample::select(targets.to_vec()), 1u8..3, any::<bool>());
    prop::collection::vec(prop::collection::vec(cubin, 1..6), 1..4)
}

proptest! {
    #[test]
    fn each_gpu_runs_the_code_that_it_ran(fatbins in fatbins()) {
        let cubins = |cubins: &Vec<(&str, u8, bool)>| {
            cubins.iter().map(|(target, code, has)| compiled_cubin(target, *code, *has)).collect::<Vec<_>>()
        };
        let data = fatbins.iter().map(|fatbin| fatbin_of(&cubins(fatbin))).collect::<Vec<_>>().concat();
        let (small, _) = strip_equal(&data).expect("no fault of the choice");
        for (before, after) in runs(&data).concat().into_iter().zip(runs(&small.bytes).concat()) {
            prop_assert_eq!(before.map(|(code, _)| code), after.map(|(code, _)| code));
            // A workaround may be added.
            prop_assert!(before.is_none_or(|(_, has)| !has) || after.is_some_and(|(_, has)| has));
        }
    }
}
