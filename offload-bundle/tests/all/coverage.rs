//! What the library predicts for fatbins that a driver was seen to load: `driver-truth/` has them, made with CUDA 13.0 and some of them
//! damaged afterwards, and `truth.tsv` and `mixes/mixes.tsv` what ran of each on a GPU of sm_90 with driver 580.

use offload_bundle::coverage::{Detail, Driver, containers, outcome};
use offload_bundle::host_object::Search;
use offload_bundle::{GpuArch, fatbin};
use proptest::prelude::*;
use proptest::sample::Index;

use crate::driver_truth::{cases, fatbin_bytes};

#[test]
fn the_library_agrees_with_the_driver() {
    let rows = cases();
    assert_eq!(rows.len(), 34 + 26);
    for (file, seen) in rows {
        let data = fatbin_bytes(&file);
        let found = containers(&data, offload_bundle::archive::reject_thin_members, Search::Sections)
            .expect("sound containers");
        assert_eq!(found.len(), 1, "{file}");
        let told = outcome(&found[0].codes, GpuArch::plain(90), Driver::Branch(580));
        assert_eq!(told.brief(), seen, "{file}: {}", told.reason);
        assert_eq!(told.passed_over.len() + usize::from(told.code.is_some()), found[0].codes.len(), "{file}");
    }
}

#[test]
fn several_fatbins_in_a_file() {
    let both = [fatbin_bytes("c05_sass90_ptx90.fatbin"), vec![0; 8], fatbin_bytes("c01_sass80.fatbin")].concat();
    let read = fatbin::read_containers(&both).expect("sound");
    assert_eq!(read.iter().map(|one| one.entries.len()).collect::<Vec<_>>(), [2, 1]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Whatever the bytes, there is an answer; and one that the entries allow.
    #[test]
    fn damaged_fatbins(
        which in any::<Index>(),
        changes in prop::collection::vec((any::<Index>(), any::<u8>()), 1..8),
        in_headers in any::<bool>(),
        end in any::<Index>(),
        cut in any::<bool>(),
    ) {
        thread_local!(static CASES: Vec<Vec<u8>> = cases().iter().map(|row| fatbin_bytes(&row.0)).collect());
        let mut data = CASES.with(|cases| cases[which.index(cases.len())].clone());
        for (at, byte) in changes {
            let range = if in_headers { data.len().min(16 + 80 + 64) } else { data.len() };
            let at = at.index(range);
            data[at] = byte;
        }
        if cut {
            data.truncate(end.index(data.len()));
        }
        let Ok(found) = containers(&data, offload_bundle::archive::reject_thin_members, Search::Sections) else { return Ok(()) };
        for container in &found {
            for gpu in [0, 75, 87, 90, 103, 121, u32::MAX] {
                for driver in [Driver::NewEnough, Driver::Branch(470), Driver::Branch(580)] {
                    let told = outcome(&container.codes, GpuArch::plain(gpu), driver);
                    prop_assert!(told.code.is_some() || !told.verdict.runs());
                    prop_assert!(!told.reason.is_empty() && !told.brief().is_empty());
                }
            }
        }
        let report = offload_bundle::coverage::ExplainReport::new(&found, None, Driver::Branch(580));
        prop_assert!(serde_json::to_string(&report).is_ok() && !report.text(Detail::Grouped).is_empty());
        let checked = offload_bundle::coverage::CheckReport::new(&found, &Default::default());
        prop_assert!(serde_json::to_string(&checked).is_ok() && !checked.text(Detail::Grouped).is_empty());
    }
}
