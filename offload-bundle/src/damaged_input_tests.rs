//! Damaged bytes: every reader answers with an error or a result, never with a panic.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use proptest::prelude::*;
use proptest::sample::Index;
use rayon::prelude::*;

use crate::coverage::gate::{FileCode, FileGate, GateReport, Requirement};
use crate::coverage::{CheckOptions, Detail, Driver};
use crate::difference::{self, Difference};
use crate::fatbin::{BuilderOptions, FatbinBuilder, StoreMode, Validation};
use crate::recompress::{concatenate, recompress};
use crate::strip::{self, Choice};
use crate::usage::{self, Order};
use crate::{
    GpuArch, annotate, archive, audit, coverage, cubin, fatbin, hip_bundle, host_object, listing, offload_binary,
    samples,
};

/// One change of a file.
#[derive(Debug, Clone)]
enum Damage {
    Byte(Index, u8),
    Number(Index, u64),
    Cut(Index),
    Repeat(Index),
}

fn damage() -> impl Strategy<Value = Damage> {
    // Arithmetic fails for numbers near the limits.
    let numbers = prop_oneof![
        Just(u64::MAX),
        Just(u64::MAX - 7),
        Just(i64::MAX.cast_unsigned()),
        Just(u64::from(u32::MAX)),
        0u64..300,
        any::<u64>(),
    ];
    prop_oneof![
        4 => (any::<Index>(), any::<u8>()).prop_map(|(at, byte)| Damage::Byte(at, byte)),
        4 => (any::<Index>(), numbers).prop_map(|(at, number)| Damage::Number(at, number)),
        1 => any::<Index>().prop_map(Damage::Cut),
        1 => any::<Index>().prop_map(Damage::Repeat),
    ]
}

fn apply(damages: &[Damage], sample: &[u8]) -> Vec<u8> {
    let mut data = sample.to_vec();
    for damage in damages {
        if data.is_empty() {
            break;
        }
        match damage {
            Damage::Byte(at, byte) => {
                let at = at.index(data.len());
                data[at] = *byte;
            }
            Damage::Number(at, number) => {
                // Where fields are: at multiples of 4.
                let at = at.index(data.len()) & !3;
                let end = data.len().min(at + 8);
                let bytes = number.to_le_bytes();
                data[at..end].copy_from_slice(&bytes[..end - at]);
            }
            Damage::Cut(at) => data.truncate(at.index(data.len())),
            Damage::Repeat(at) => {
                let tail = data[at.index(data.len())..].to_vec();
                data.extend(tail);
            }
        }
    }
    data
}

/// Judges a file, and takes the PTX and the modules out that its cells are about.
fn judge(code: &FileCode, data: &[u8]) {
    static REQUIREMENT: LazyLock<Requirement> =
        LazyLock::new(|| "all-supported,sm_61,gfx90a,gfx11-generic@535,580".parse().expect("a requirement"));
    let gate = FileGate::new(code, &REQUIREMENT);
    for job in gate.ptx_jobs() {
        let _ = job.text(code, data);
    }
    let _ = code.modules_for(90, data);
    let file = coverage::OfFile { file: "file".to_owned(), report: gate };
    let _ = GateReport::new(vec![file], &REQUIREMENT, &[], 0).text(true);
}

/// Passes the bytes to every reader: a reader must not rely on the first bytes of its input.
fn read_all_ways(data: &[u8]) {
    let _ = host_object::file_kind(data);
    let _ = offload_binary::read_all(data);
    if let Ok(inflated) = offload_binary::inflate(data) {
        let _ = offload_binary::read_all(&inflated);
    }
    if let Ok(inflated) = hip_bundle::inflate(data) {
        let _ = hip_bundle::read_all(&inflated);
    }
    let _ = host_object::device_images(data);
    let _ = host_object::carriers(data);
    let _ = host_object::scattered_fatbins(data);
    let _ = host_object::offload_entries(data);
    let _ = host_object::registered_kinds(data);
    let _ = host_object::rdc_objects(data);
    let _ = host_object::section_graph(data);
    let _ = host_object::library_needs(data);
    let _ = archive::members(data);
    let _ = cubin::with_declared_kernels(data, &|_| true);
    if let Ok(cubin) = cubin::parse(data) {
        let _ = (cubin.arch(), cubin.toolkit(), cubin.kernels(), cubin.nv_compat(), cubin.resources());
        assert_eq!(cubin::code_difference(&cubin, &cubin), cubin::CodeDifference::default());
    }
    for entry in fatbin::read(data).unwrap_or_default() {
        let _ = entry.payload();
    }
    if let Ok(rows) = listing::list(data, crate::archive::reject_thin_members) {
        let _ = listing::table(&rows);
    }
    let limits = crate::expansion::Limits { total: 1 << 20, each: 1 << 20 };
    let _ = crate::expansion::check(data, host_object::Search::AllBytes, limits);
    let _ = listing::list_with_results(data, crate::archive::reject_thin_members, host_object::Search::Sections);
    let search = host_object::Search::AllBytes;
    if let Ok(found) = coverage::compared_containers(data, crate::archive::reject_thin_members, search) {
        let _ = coverage::ExplainReport::new(&found, None, Driver::Branch(580)).text(Detail::Grouped);
        let _ = coverage::CheckReport::new(&found, &CheckOptions::default()).text(Detail::Grouped);
    }
    if let Ok(bundles) = coverage::hip_bundles(data, crate::archive::reject_thin_members) {
        let _ = coverage::ExplainReport::new(&[], None, Driver::NewEnough)
            .with_bundles(&bundles, None, &[])
            .text(Detail::Grouped);
        let _ = coverage::CheckReport::new(&[], &CheckOptions::default()).with_bundles(&bundles).text(Detail::Grouped);
    }
    if let Ok(code) = FileCode::read(data, crate::archive::reject_thin_members, search) {
        judge(&code, data);
    }
    if let Ok(annotated) = annotate::annotate(data, "key", "value") {
        // A file that can be annotated is sound, and so is the result.
        let again = annotate::annotate(&annotated.bytes, "key", "value");
        assert_eq!(again.map(|again| again.images), Ok(annotated.images));
    }
    let _ = fatbin::squeeze(data);
    build_all_ways(data);
    if let Ok(images) = difference::images(data, crate::archive::reject_thin_members) {
        assert!(Difference::new(&images, &images, false).equal);
    }
    if let Ok(cubins) =
        usage::usage(data, crate::archive::reject_thin_members, host_object::Search::Sections, Order::Code)
    {
        let _ = usage::text(
            &[(None, &cubins)],
            &usage::Layout::new(&|names, _| names.iter().map(|name| (*name).to_owned()).collect()),
        );
    }
    if let Ok(Some(shares)) = usage::function_shares(data) {
        assert_eq!(shares.total(), data.len() as u64);
    }
    let drop = ["sm_90", "gfx90a"].map(|word| word.parse().expect("a selector")).to_vec();
    let gpus = coverage::Gpus { nvidia: vec![GpuArch::plain(90)], amd: vec!["gfx90a".parse().expect("a GPU")] };
    let _ = strip::strip_for(data, &gpus, Driver::NewEnough, false);
    let _ = strip::strip_equal(data);
    let _ = recompress(data, StoreMode::Speed);
    let _ = concatenate(data, StoreMode::Speed);
    let _ = strip::strip(data, &Choice { drop, allow_empty: true, ..Choice::default() });
}

/// Takes the bytes for images of every kind.
fn build_all_ways(data: &[u8]) {
    for validation in [Validation::Strict, Validation::Nvidia] {
        let mut builder = FatbinBuilder::new(BuilderOptions { validation, ..BuilderOptions::default() });
        for arch in [GpuArch::plain(90), GpuArch::plain(100)] {
            let _ = builder.add_cubin(arch, data, "");
            let _ = builder.add_ptx(arch, data, "", "");
            let _ = builder.add_ltoir(arch, data, "", "");
        }
        let _ = builder.add_tile_ir(data, "", "");
        let _ = builder.add_relocatable(data);
        let _ = builder.finish();
    }
}

fn kept_results() -> Vec<u8> {
    crate::kept_results::write(&BTreeMap::from([([1; 32], vec![1; 100]), ([2; 32], b"two".to_vec())]))
}

fn files() -> Vec<Vec<u8>> {
    let cubin = samples::cubin(GpuArch::plain(100), true);
    let object = samples::host_object(&samples::offload_binaries());
    let twice = [("sm_86", true), ("sm_89", false), ("sm_120a", false), ("sm_120", false)];
    let twice = samples::fatbin_of(&twice.map(|(target, has)| samples::compiled_cubin(target, 1, has)));
    let archive = samples::archive(&[("a_long_name_of_a_member.o", &object), ("b.o", b"x")]);
    vec![
        samples::offload_binaries(),
        samples::fatbin(false),
        samples::fatbin(true),
        cubin,
        object,
        archive,
        samples::rdc_object(&["_0_a"], &[&samples::fatbin(false)]),
        samples::hip_bundle(false),
        samples::hip_bundle(true),
        samples::object_with_results(&samples::offload_binaries(), &kept_results()),
        samples::nvcc_object(&twice),
        twice,
        concatenate(&samples::fatbin(false), StoreMode::Balance).expect("a sound fatbin").bytes,
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn damaged_files(which in 0usize..13, damages in prop::collection::vec(damage(), 1..6)) {
        thread_local!(static FILES: Vec<Vec<u8>> = files());
        FILES.with(|files| {
            let damaged = apply(&damages, &files[which]);
            read_all_ways(&damaged);
            let _ = audit::audit(&damaged);
        });
    }

    #[test]
    fn arbitrary_bytes(data in prop::collection::vec(any::<u8>(), 0..300)) {
        read_all_ways(&data);
    }
}

/// Half a minute of processor time, which `cargo xtask test --quick` leaves out.
mod exhaustive {
    use super::*;

    #[test]
    fn every_truncation() {
        for file in files() {
            (0..file.len()).into_par_iter().for_each(|len| read_all_ways(&file[..len]));
        }
    }

    #[test]
    fn every_byte_at_its_extremes() {
        for file in files() {
            (0..file.len().min(600)).into_par_iter().for_each(|at| {
                for byte in [0, 0x7f, 0xff].into_iter().filter(|byte| *byte != file[at]) {
                    let mut damaged = file.clone();
                    damaged[at] = byte;
                    read_all_ways(&damaged);
                }
            });
        }
    }
}
