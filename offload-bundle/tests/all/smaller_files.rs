//! Files without what some GPUs do not need, and with images stored otherwise: the same is run of them.

use offload_bundle::GpuArch;
use offload_bundle::coverage::{Driver, Gpus, inspect, outcome};
use offload_bundle::fatbin::{self, StoreMode};
use offload_bundle::recompress::recompress;
use offload_bundle::strip::strip_for;
use proptest::prelude::*;
use proptest::sample::{Index, subsequence};

use crate::driver_truth::{cases, fatbin_bytes};

const GPUS: [u32; 12] = [75, 80, 86, 87, 88, 89, 90, 100, 103, 110, 120, 121];

/// For each fatbin of a file, what becomes of it on a GPU, and the image that is taken.
fn fates(file: &[u8], gpu: u32) -> Vec<(&'static str, Option<Vec<u8>>)> {
    let fate = |container: &fatbin::Container<'_>| {
        let codes = inspect(&container.entries);
        let found = outcome(&codes, GpuArch::plain(gpu), Driver::NewEnough);
        let entry = found.code.and_then(|code| container.entries.get(code.number - 1));
        let image =
            entry.map(|entry| entry.payload().map_or_else(|_| entry.stored.to_vec(), std::borrow::Cow::into_owned));
        // The padding of an uncompressed image is not part of it.
        let image =
            image.map(|image| image[..image.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1)].to_vec());
        (found.verdict.word(), image)
    };
    fatbin::read_containers(file).expect("fatbins").iter().map(fate).collect()
}

fn file(picks: &[Index]) -> Vec<u8> {
    let cases = cases();
    picks.iter().flat_map(|pick| fatbin_bytes(&pick.get(&cases).0)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(64) })]

    /// What the GPUs named run is what they ran before, and the next pass finds nothing to drop.
    #[test]
    fn stripped_for_gpus(picks in prop::collection::vec(any::<Index>(), 1..5), gpus in subsequence(&GPUS[..], 1..5)) {
        let file = file(&picks);
        let wanted = Gpus { nvidia: gpus.iter().map(|gpu| GpuArch::plain(*gpu)).collect(), amd: Vec::new() };
        // Images that are damaged at their start cannot be listed.
        if let Ok(stripped) = strip_for(&file, &wanted, Driver::NewEnough, false) {
            for gpu in &gpus {
                prop_assert_eq!(fates(&stripped.bytes, *gpu), fates(&file, *gpu), "sm_{}", gpu);
            }
            let again = strip_for(&stripped.bytes, &wanted, Driver::NewEnough, false).expect("what was written");
            prop_assert!(again.summary.dropped.is_empty());
        }
    }

    /// The same images run in every form, and the forms lead to each other.
    #[test]
    fn stored_otherwise(picks in prop::collection::vec(any::<Index>(), 1..4)) {
        let file = file(&picks);
        let Ok(plain) = recompress(&file, StoreMode::None) else { return Ok(()) };
        let plain = if plain.changed == 0 { file.clone() } else { plain.bytes };
        let has_parts = fatbin::read(&file).expect("fatbins").iter().any(|entry| entry.part.is_some());
        for mode in [StoreMode::Speed, StoreMode::Balance, StoreMode::Size] {
            // Images that are damaged at their start are noticed only if an image changes.
            let Ok(packed) = recompress(&file, mode) else { return Ok(()) };
            let packed = if packed.changed == 0 { file.clone() } else { packed.bytes };
            for gpu in GPUS {
                // Parts of concatenations, of which nothing is known, became entries of their own.
                let before = if has_parts { &plain } else { &file };
                prop_assert_eq!(fates(&packed, gpu), fates(before, gpu), "{:?} sm_{}", mode, gpu);
            }
            let back = recompress(&packed, StoreMode::None).expect("what was written");
            prop_assert!(back.changed == 0 && packed == plain || back.bytes == plain, "{:?}", mode);
        }
    }
}

#[test]
fn what_the_driver_was_seen_to_run_stays() {
    let sm_90 = Gpus { nvidia: vec![GpuArch::plain(90)], amd: Vec::new() };
    let mut smaller = 0;
    for (name, seen) in cases() {
        let file = fatbin_bytes(&name);
        let Ok(stripped) = strip_for(&file, &sm_90, Driver::Branch(580), false) else { continue };
        let codes = inspect(&fatbin::read(&stripped.bytes).expect("what was written"));
        let brief = outcome(&codes, GpuArch::plain(90), Driver::Branch(580)).brief();
        // The number of an entry among those alike changes.
        let plain = |text: &str| text.split(" #").next().map(str::to_owned);
        assert_eq!(plain(&brief), plain(&seen), "{name}");
        smaller += usize::from(stripped.bytes.len() < file.len());
    }
    assert!(smaller > 10, "{smaller}");
}
