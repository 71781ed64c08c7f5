use super::*;
use crate::arch::GpuArch;
use crate::arch::table::KNOWN;
use crate::coverage::{CheckOptions, CheckReport, Detail, FoundContainer, compared_containers};
use crate::host_object::Search;
use crate::samples::{self, compiled_cubin as cubin, fatbin_of as fatbin};

fn found(data: &[u8]) -> Vec<FoundContainer> {
    compared_containers(data, crate::archive::reject_thin_members, Search::Sections).expect("a sound file")
}

/// The numbers of the fatbins and entries that can be dropped.
fn dropped(data: &[u8]) -> Vec<(usize, usize)> {
    droppable(&found(data), KNOWN).iter().map(|image| (image.container, image.entry)).collect()
}

#[test]
fn a_cubin_of_a_suffix_goes_and_the_plain_one_stays() {
    let equal = [cubin("sm_120a", 1, false), cubin("sm_120", 1, false)];
    let image = &droppable(&found(&fatbin(&equal)), KNOWN)[0];
    assert_eq!((image.entry, &image.instead[..]), (1, &[Instead { gpu: GpuArch::plain(120), entry: 2 }][..]));
    assert_eq!(image.stored_size, equal[0].1.len().next_multiple_of(8) as u64);
    let other_code = [cubin("sm_120a", 1, false), cubin("sm_120", 2, false)];
    assert_eq!(dropped(&fatbin(&other_code)), []);
}

#[test]
fn what_the_driver_would_finalize_for_another_gpu_is_needed() {
    assert_eq!(dropped(&fatbin(&[cubin("sm_120", 1, false), cubin("sm_121", 1, false)])), []);
}

#[test]
fn a_workaround_is_not_lost() {
    assert_eq!(dropped(&fatbin(&[cubin("sm_86", 1, true), cubin("sm_89", 1, false)])), [(1, 2)]);
    assert_eq!(dropped(&fatbin(&[cubin("sm_86", 1, false), cubin("sm_89", 1, true)])), []);
}

#[test]
fn an_attribute_that_is_not_known_makes_a_difference() {
    let arch = GpuArch::plain;
    let with =
        |number, offset| (arch(number), samples::finished_cubin(arch(number), &[1; 32], &[4, 0x1c, 1, 0, offset], &[]));
    assert_eq!(dropped(&fatbin(&[with(86, 1), with(89, 1)])), [(1, 2)]);
    assert_eq!(dropped(&fatbin(&[with(86, 1), with(89, 2)])), []);
}

#[test]
fn what_gpus_need_stays() {
    // sm_80 cannot run what is for sm_86, nor another major version what is for sm_89.
    assert_eq!(dropped(&fatbin(&[cubin("sm_80", 1, true), cubin("sm_86", 1, true)])), [(1, 2)]);
    assert_eq!(dropped(&fatbin(&[cubin("sm_89", 1, true), cubin("sm_90", 1, true)])), []);
    // A GPU of sm_86 takes what lies between.
    let between = [cubin("sm_80", 1, true), cubin("sm_86", 2, true), cubin("sm_89", 1, true)];
    assert_eq!(dropped(&fatbin(&between)), []);
}

#[test]
fn all_kernels_of_a_gpu_are_for_one_target_afterwards() {
    let equal = [cubin("sm_80", 1, true), cubin("sm_86", 1, true)];
    let other = [cubin("sm_80", 1, true), cubin("sm_86", 2, true)];
    assert_eq!(dropped(&[fatbin(&equal), fatbin(&equal)].concat()), [(1, 2), (2, 2)]);
    assert_eq!(dropped(&[fatbin(&equal), fatbin(&other)].concat()), []);
    // The target that a program sees is the same.
    let suffix = [cubin("sm_120a", 1, false), cubin("sm_120", 1, false)];
    let other_suffix = [cubin("sm_120a", 1, false), cubin("sm_120", 2, false)];
    assert_eq!(dropped(&[fatbin(&suffix), fatbin(&other_suffix)].concat()), [(1, 1)]);
}

#[test]
fn of_an_object_only_images_for_one_target() {
    let both =
        [cubin("sm_86", 1, true), cubin("sm_89", 1, true), cubin("sm_120a", 1, false), cubin("sm_120", 1, false)];
    assert_eq!(dropped(&fatbin(&both)), [(1, 2), (1, 3)]);
    assert_eq!(dropped(&samples::nvcc_object(&fatbin(&both))), [(1, 3)]);
}

#[test]
fn a_finding_says_what_differs_and_how_much_it_is() {
    let both = fatbin(&[cubin("sm_86", 1, true), cubin("sm_89", 1, false)]);
    let report = CheckReport::new(&found(&[both.clone(), both].concat()), &CheckOptions::default());
    let text = report.text(Detail::Grouped);
    let bytes = 2 * report.containers[0].findings[0].bytes.expect("the size of an image");
    let expected = format!(
        "warning: FB027: entry 2 (sass 89) has the code of entry 1 (sass 86), which would run in its place; they differ in attribute 0x35 \
         (SW2861232_WAR); cudaFuncAttributes has binaryVersion 86 and ptxVersion 86 then (on sm_89); {bytes} bytes as stored\n"
    );
    assert!(text.contains(&expected), "{text}");
    // That one is stored twice is another finding.
    let twice = fatbin(&[cubin("sm_86", 1, true), cubin("sm_86", 1, true)]);
    assert_eq!(dropped(&twice), [(1, 1)]);
    let text = CheckReport::new(&found(&twice), &CheckOptions::default()).text(Detail::Full);
    assert!(text.contains("FB006") && !text.contains("FB027"), "{text}");
}
