use std::collections::{BTreeSet, HashSet};

use llvm_passes::amdgpu::AmdTarget;
use llvm_passes::extract::{How, Take, UnitPart};
use llvm_passes::pipeline::OptLevel;

use crate::cli::options::Options;
use crate::cli::values::{KernelFolding, Partitioning};
use crate::lto::compile_job::{CompileJob, UnitRange};
use crate::lto::products::CachedPartition;
use crate::lto::result_cache::{ResultCache, job_fields, link_fields};
use crate::machines::amdgcn::job_code::{AmdCode, Hides};
use crate::machines::amdgcn::soundness;
use crate::machines::amdgcn::target::AmdObject;
use crate::machines::job_code::JobCode;
use crate::machines::samples::amd_object;
use crate::sys::cache::{Cache, Key, KeyBuilder, ObjectResults};

/// Asserts that all keys differ, and that the same fields give the same key again.
fn all_differ(keys: &[(&str, Key)], again: Key) {
    assert_eq!(keys[0].1, again);
    for (index, (what, key)) in keys.iter().enumerate() {
        let same = keys[..index].iter().find(|(_, other)| other == key);
        assert!(same.is_none(), "{what} does not change the key: it is that of {same:?}");
    }
}

fn job() -> CompileJob {
    let take = Take { index: 3, how: How::Copy, name: None };
    let target = AmdTarget::new("gfx90a".to_owned(), String::new(), OptLevel::O2);
    CompileJob {
        name: "a.0".to_owned(),
        llvm_options: Vec::new(),
        units: "/a/units".into(),
        ranges: vec![UnitRange { name: "a.o".to_owned(), hash: "aa".to_owned(), start: 0, length: 9 }],
        parts: vec![UnitPart { unit: 0, takes: vec![take] }],
        promoted: Vec::new(),
        keep: BTreeSet::from(["kernel".to_owned()]),
        kernels: Vec::new(),
        code: JobCode::Amdgpu(AmdCode { target, hides: Hides::Unexported, object: "/a/0.o".into() }),
        saved_stages: None,
        cached_code: None,
        traced: false,
    }
}

fn changed(change: impl FnOnce(&mut CompileJob)) -> CompileJob {
    let mut job = job();
    change(&mut job);
    job
}

#[test]
fn an_entry_whose_code_is_not_accepted_is_a_miss() {
    let folder = tempfile::tempdir().unwrap();
    let objects = ObjectResults::new(Vec::new(), true, true);
    let cache =
        ResultCache { folder: Some(Cache::open(folder.path())), objects: Some(&objects), ..ResultCache::default() };
    let key = KeyBuilder::new("partition").finish();
    let entry = |object: Vec<u8>| CachedPartition {
        code: AmdObject { object: Some(object), ..AmdObject::default() },
        messages: Vec::new(),
    };
    let found = || {
        let accept = |found: CachedPartition<AmdObject>| {
            let object = found.code.object.unwrap_or_default();
            soundness::check(&object, "gfx90a", false, &["kernel".to_owned()]).ok().map(|()| object)
        };
        cache.get(Some(&key), accept)
    };
    let sound = amd_object(&["kernel"]);
    for object in [Vec::new(), amd_object(&["other"]), sound[..100].to_vec()] {
        cache.put_here(Some(&key), &entry(object));
        assert_eq!(found(), None);
    }
    cache.put_here(Some(&key), &entry(sound.clone()));
    assert_eq!(found(), Some(sound));
}

#[test]
fn every_field_of_a_job_changes_the_key() {
    let key = |job: &CompileJob| job_fields(job, KeyBuilder::new("partition")).expect("a key").finish();
    let jobs = [
        ("nothing", job()),
        ("unit", changed(|job| job.ranges[0].hash = "ab".to_owned())),
        ("one more unit", changed(|job| job.ranges.push(job.ranges[0].clone()))),
        ("what is taken", changed(|job| job.parts[0].takes[0].index = 4)),
        ("how it is taken", changed(|job| job.parts[0].takes[0].how = How::Owned)),
        ("its name", changed(|job| job.parts[0].takes[0].name = Some("x".to_owned()))),
        ("of which unit", changed(|job| job.parts[0].unit = 1)),
        ("promoted", changed(|job| job.promoted.push((0, "f".to_owned())))),
        ("keep", changed(|job| job.keep.extend(["other".to_owned()]))),
        ("LLVM options", changed(|job| job.llvm_options.push("-x=1".to_owned()))),
    ];
    let keys: Vec<(&str, Key)> = jobs.iter().map(|(what, job)| (*what, key(job))).collect();
    // Paths and names in messages do not affect the code.
    let elsewhere = changed(|job| {
        job.name = "a.7".to_owned();
        job.units = "/b/units".into();
        job.ranges[0].name = "b.o".to_owned();
        job.ranges[0].start = 16;
        job.saved_stages = Some(("/b/1.bc".into(), "/b/2.bc".into()));
        job.traced = true;
    });
    all_differ(&keys, key(&elsewhere));
}

#[test]
fn every_field_of_a_link_changes_the_key() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<HashSet<_>>();
    let key = |options: &Options, registered: &HashSet<String>, dead: &[&str]| {
        let dead: BTreeSet<String> = dead.iter().map(|name| (*name).to_owned()).collect();
        link_fields(KeyBuilder::new("target"), options, registered, &dead).finish()
    };
    let (usual, registered) = (Options::default(), names(&["a", "b"]));
    let cut = |partitioning| Options { partitioning, ..Options::default() };
    let folding = Options { kernel_folding: KernelFolding::Safe, ..Options::default() };
    let keys = [
        ("nothing", key(&usual, &registered, &[])),
        ("registered names joined", key(&usual, &names(&["ab"]), &[])),
        ("no registered names", key(&usual, &HashSet::new(), &[])),
        ("dead kernels", key(&usual, &registered, &["c"])),
        ("size of partitions", key(&cut(Partitioning::Size(7)), &registered, &[])),
        ("whole", key(&cut(Partitioning::Whole), &registered, &[])),
        ("equal kernels", key(&folding, &registered, &[])),
    ];
    // A set of names has no order.
    all_differ(&keys, key(&usual, &names(&["b", "a"]), &[]));
}
