use super::*;
use crate::{listing, samples};

fn choice(drop: &[&str]) -> Choice {
    let drop = drop.iter().map(|word| word.parse().expect("a selector")).collect();
    Choice { drop, ..Choice::default() }
}

fn images(data: &[u8]) -> Vec<String> {
    let rows = listing::list(data, crate::archive::reject_thin_members).expect("a sound file");
    rows.iter().map(|row| format!("{} {}", row.image, row.target)).collect()
}

#[test]
fn a_fatbin() {
    let fatbin = samples::fatbin(true);
    let both = [fatbin.clone(), fatbin].concat();
    let stripped = strip(&both, &choice(&["sm_100"])).expect("a sound fatbin");
    assert_eq!(images(&stripped.bytes), ["cubin sm_90", "ptx sm_90", "cubin sm_90", "ptx sm_90"]);
    assert_eq!((stripped.summary.dropped.len(), stripped.summary.kept), (2, 4));
}

#[test]
fn what_is_to_be_kept() {
    let keep = vec!["ptx".parse().expect("a selector")];
    let fatbin = samples::fatbin(false);
    let stripped = strip(&fatbin, &Choice { keep, ..Choice::default() });
    assert_eq!(images(&stripped.expect("a sound fatbin").bytes), ["ptx sm_90"]);
}

#[test]
fn hip_bundles() {
    for is_compressed in [false, true] {
        let bundle = samples::hip_bundle(is_compressed);
        let stripped = strip(&bundle, &choice(&["gfx90a"])).expect("a sound bundle");
        assert_eq!(images(&stripped.bytes), ["object gfx1100"]);
        assert!(stripped.bytes.len() < bundle.len());
        let error = strip(&bundle, &choice(&["object"])).expect_err("an empty bundle");
        assert!(error.to_string().contains("the HIP bundle"), "{error}");
    }
    // What follows a smaller bundle stays at a multiple of what HIP requires.
    let mut two = samples::hip_bundle(false);
    two.resize(two.len().next_multiple_of(4096), 0);
    two.extend(samples::hip_bundle(true));
    let stripped = strip(&two, &choice(&["gfx90a"])).expect("sound bundles").bytes;
    let offsets: Vec<u64> = crate::hip_bundle::bundles(&stripped).unwrap().iter().map(|bundle| bundle.offset).collect();
    assert_eq!((offsets.len(), offsets[1] % 4096), (2, 0));
}

#[test]
fn nothing_left() {
    let mut all = choice(&["ptx", "cubin"]);
    let fatbin = samples::fatbin(false);
    let error = strip(&fatbin, &all).expect_err("an empty fatbin");
    assert!(error.to_string().contains("the fatbin"), "{error}");
    all.allow_empty = true;
    assert_eq!(strip(&fatbin, &all).expect("an empty fatbin").bytes.len(), 16);
}

#[test]
fn objects_and_archives() {
    let object = samples::host_object(&samples::offload_binaries());
    let stripped = strip(&object, &choice(&["sm_80"])).expect("a sound object").bytes;
    assert_eq!(images(&stripped), ["bitcode sm_90"]);
    assert!(stripped.len() < object.len());
    assert_eq!(crate::host_object::offload_entries(&stripped), crate::host_object::offload_entries(&object));
    let archive =
        samples::archive(&[("a_name_longer_than_sixteen_bytes.o", &object), ("b.o", b"odd"), ("c.o", &object)]);
    let stripped = strip(&archive, &choice(&["sm_80"])).expect("a sound archive").bytes;
    assert_eq!(images(&stripped), ["bitcode sm_90", "bitcode sm_90"]);
    assert_eq!(crate::archive::members(&stripped).expect("a sound archive").len(), 3);
}

#[test]
fn nothing_to_drop() {
    for data in [samples::fatbin(true), samples::offload_binaries()] {
        assert_eq!(strip(&data, &choice(&["sm_75"])).expect("a sound file").bytes, data);
    }
}

#[test]
fn a_bare_cubin_stays() {
    let cubin = samples::cubin(crate::GpuArch::plain(90), false);
    assert_eq!(strip(&cubin, &choice(&["ptx"])).expect("a sound cubin").summary.kept, 1);
    let error = strip(&cubin, &choice(&["sm_90"])).expect_err("nothing but a cubin");
    assert!(error.to_string().starts_with("the cubin for sm_90 cannot be dropped"), "{error}");
}

#[test]
fn an_offload_binary_of_no_bytes() {
    let mut damaged = samples::offload_binaries();
    damaged[8..16].fill(0);
    let error = strip(&damaged, &choice(&["sm_80"])).expect_err("a damaged offload binary");
    assert!(error.to_string().contains("impossible size of 0 bytes"), "{error}");
}
