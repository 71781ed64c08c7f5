//! Keys of objects for AMD GPUs.

use std::ffi::OsString;

use super::ResultCache;
use super::complete;
use crate::lto::compile_job::CompileJob;
use crate::lto::target_code::AmdCode;
use crate::sys::cache::{Key, KeyBuilder};

impl ResultCache<'_> {
    /// Returns the key of an object: everything that it depends on. LLVM, which is part of this program, alone makes it.
    pub fn object_key(&self, job: &CompileJob, code: &AmdCode) -> Option<Key> {
        let key = self.key("AMD object")?;
        // Without hashes of the units the key would be that of other code, too.
        if job.ranges.is_empty() {
            return None;
        }
        let variables: Vec<OsString> = std::env::vars_os().map(|(name, _)| name).collect();
        if let Some(why) = complete::unknown_llvm_input(&job.llvm_options, &variables) {
            self.note(why);
            return None;
        }
        if code.target.prints_passes {
            self.note("LLVM prints its passes".to_owned());
            return None;
        }
        key_of(job, code, key)
    }
}

/// Adds all fields of an object's key.
fn key_of(job: &CompileJob, code: &AmdCode, key: KeyBuilder) -> Option<Key> {
    let AmdCode { target, internalizes, object: _ } = code;
    let units: String = job.ranges.iter().map(|range| format!("{}\n", range.hash)).collect();
    let key = key
        .field("units", units.as_bytes())
        .field("parts", &postcard::to_allocvec(&job.parts).ok()?)
        .field("promoted", &postcard::to_allocvec(&job.promoted).ok()?)
        .field("keep", &postcard::to_allocvec(&job.keep).ok()?)
        .field("target", format!("{target:?}").as_bytes())
        .field("internalizes", &[u8::from(*internalizes)])
        .field("LLVM options", format!("{:?}", job.llvm_options).as_bytes());
    Some(key.finish())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use llvm_passes::amdgpu::AmdTarget;
    use llvm_passes::extract::{How, Take, UnitPart};
    use llvm_passes::pipeline::OptLevel;

    use super::*;
    use crate::lto::compile_job::UnitRange;
    use crate::lto::target_code::TargetCode;

    fn code() -> AmdCode {
        let target = AmdTarget::new("gfx90a".to_owned(), "+xnack".to_owned(), OptLevel::O2);
        AmdCode { target, internalizes: true, object: "/a/0.o".into() }
    }

    fn job() -> CompileJob {
        CompileJob {
            name: "amdgcn.gfx90a.0".to_owned(),
            llvm_options: vec!["-x=1".to_owned()],
            units: "/a/units".into(),
            ranges: vec![UnitRange { name: "a.o".to_owned(), hash: "aa".to_owned(), start: 0, length: 9 }],
            parts: vec![UnitPart { unit: 0, takes: vec![Take { index: 3, how: How::Copy, name: None }] }],
            promoted: Vec::new(),
            keep: BTreeSet::from(["kernel".to_owned()]),
            code: TargetCode::Amdgpu(code()),
            keep_stages: None,
            kept: None,
            traced: false,
        }
    }

    type Change<'c> = &'c dyn Fn(&mut CompileJob, &mut AmdCode);

    #[test]
    fn everything_that_an_object_depends_on_changes_the_key() {
        let key = |job: &CompileJob, code: &AmdCode| key_of(job, code, KeyBuilder::new("AMD object")).expect("a key");
        let changed = |change: Change<'_>| {
            let (mut job, mut code) = (job(), code());
            change(&mut job, &mut code);
            key(&job, &code)
        };
        let changes: [Change<'_>; 12] = [
            &|_, _| {},
            &|job, _| job.llvm_options.clear(),
            &|job, _| job.ranges[0].hash = "ab".to_owned(),
            &|job, _| job.parts[0].takes[0].index = 4,
            &|job, _| job.promoted.push((0, "f".to_owned())),
            &|job, _| job.keep.extend(["other".to_owned()]),
            &|_, code| code.target.processor = "gfx942".to_owned(),
            &|_, code| code.target.features.clear(),
            &|_, code| code.target.level = OptLevel::O3,
            &|_, code| code.target.generation = OptLevel::O0,
            &|_, code| code.target.passes = Some("default<O1>".to_owned()),
            &|_, code| code.internalizes = false,
        ];
        let keys: Vec<Key> = changes.iter().map(|change| changed(change)).collect();
        for (place, key) in keys.iter().enumerate() {
            assert!(!keys[..place].contains(key), "change {place} does not change the key");
        }
        // Paths and names in messages do not affect the code.
        let elsewhere = changed(&|job, code| {
            job.name = "amdgcn.gfx90a.7".to_owned();
            job.units = "/b/units".into();
            job.ranges[0].start = 5;
            job.ranges[0].name = "b.o".to_owned();
            job.keep_stages = Some(("/b/1.bc".into(), "/b/2.bc".into()));
            job.traced = true;
            code.object = "/b/7.o".into();
        });
        assert_eq!(elsewhere, keys[0]);
    }
}
