//! The result of a job as one file: its reply, and the files that it left. A checksum and the hash of the manifest are in front, so that a
//! damaged result, or that of another job, is never used. What follows is compressed: relocatable cubins are mostly zeros.

use std::io::{ErrorKind, Read};
use std::path::Path;

use blake3::Hash;
use serde::{Deserialize, Serialize};

use crate::diag::error::Errors;
use crate::lto::compile_job::CompileJob;
use crate::lto::error::Error;
use crate::lto::worker::Reply;
use crate::sys::stamp;
use crate::sys::temp_files;

/// The first bytes.
const MAGIC: &[u8; 16] = b"fatlink result 2";

/// Length of the magic, the manifest's hash and the checksum.
const HEADER: usize = 16 + 32 + 32;

/// Size limit in bytes, also of what is uncompressed; no job's machine code comes near it.
const LARGEST: u64 = 4 << 30;

const TOO_SHORT: &str = "it is too short";

/// The fastest level: results wait for nothing but the network.
const LEVEL: i32 = 1;

/// The result of a job that ran elsewhere.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct JobResult {
    /// The reply.
    pub reply: Reply,
    /// The content of each file, in the order of the job's files.
    pub files: Vec<Vec<u8>>,
    /// Wall time of LLVM.
    pub llvm_seconds: f64,
    /// Wall time of the tools.
    pub tool_seconds: f64,
}

/// Why a result cannot be used.
#[derive(Debug, PartialEq, Eq)]
pub enum Unusable {
    /// There is no file.
    Missing,
    /// The content is not the result of this job.
    Damaged(String),
}

impl JobResult {
    /// Encodes the result of the job with this manifest.
    ///
    /// # Errors
    /// The reply cannot be encoded.
    pub fn encode(&self, manifest: &Hash) -> Result<Vec<u8>, Errors> {
        let body = postcard::to_allocvec(self).map_err(|source| Error::EncodeResult { source })?;
        let body = zstd::encode_all(&*body, LEVEL).map_err(|source| Error::CompressResult { source })?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(manifest.as_bytes());
        bytes.extend(blake3::hash(&body).as_bytes());
        bytes.extend(body);
        Ok(bytes)
    }

    /// Reads the result of a job with this manifest.
    ///
    /// # Errors
    /// The result is missing or cannot be used.
    pub fn read(file: &Path, manifest: &Hash, job: &CompileJob) -> Result<Self, Unusable> {
        let damaged = |why: &str| Unusable::Damaged(why.to_owned());
        // A FIFO would block, and a device may have no end.
        let mut open = stamp::open(file).map_err(|error| match error.kind() {
            ErrorKind::InvalidInput => damaged("it is no regular file"),
            _ => Unusable::Missing,
        })?;
        // Nothing more is read of what is not the result of this job.
        let mut bytes = vec![0; HEADER];
        open.read_exact(&mut bytes).map_err(|_| damaged(TOO_SHORT))?;
        check_header(&bytes, manifest).map_err(damaged)?;
        let read = open.take(LARGEST).read_to_end(&mut bytes);
        read.map_err(|error| Unusable::Damaged(error.to_string()))?;
        Self::decode(&bytes, manifest, job).map_err(damaged)
    }

    /// Decodes the result of a job with this manifest.
    ///
    /// # Errors
    /// Why it is not one.
    pub fn decode(bytes: &[u8], manifest: &Hash, job: &CompileJob) -> Result<Self, &'static str> {
        let checksum = check_header(bytes, manifest)?;
        let body = bytes.get(HEADER..).unwrap_or_default();
        if checksum != blake3::hash(body).as_bytes() {
            return Err("its checksum does not match");
        }
        let mut content = Vec::new();
        let unpacked = zstd::Decoder::new(body).and_then(|decoder| decoder.take(LARGEST).read_to_end(&mut content));
        unpacked.map_err(|_| "it cannot be uncompressed")?;
        let result: Self = postcard::from_bytes(&content).map_err(|_| "it cannot be decoded")?;
        let is_whole = result.reply.errors.is_empty() && result.check(job).is_ok();
        if is_whole { Ok(result) } else { Err("it does not have what the job makes") }
    }

    /// Checks that the result has everything that the job makes.
    ///
    /// # Errors
    /// What it lacks.
    pub fn check(&self, job: &CompileJob) -> Result<(), Errors> {
        let Reply { made, emitted, .. } = &self.reply;
        job.code.steps().check(made, emitted.sizes.len(), &self.files, &job.kernels)
    }

    /// Writes the files where a worker of this link would have left them, and returns its reply.
    ///
    /// # Errors
    /// A file cannot be written.
    pub fn unpack(self, job: &CompileJob) -> Result<Reply, Errors> {
        let JobResult { mut reply, files, .. } = self;
        let paths = job.code.steps().files(&reply.made);
        for (path, content) in paths.iter().zip(&files) {
            temp_files::write_file(path, content)?;
        }
        reply.made = job.code.steps().localized(reply.made, paths);
        Ok(reply)
    }
}

/// Checks what is in front of the body, and returns the checksum.
fn check_header<'b>(bytes: &'b [u8], manifest: &Hash) -> Result<&'b [u8], &'static str> {
    let header = bytes.get(..HEADER).ok_or(TOO_SHORT)?;
    let (magic, header) = header.split_at(MAGIC.len());
    let (of, checksum) = header.split_at(manifest.as_bytes().len());
    if magic != MAGIC {
        return Err("it is no result of fatlink");
    }
    if of != manifest.as_bytes() {
        return Err("it is the result of another job");
    }
    Ok(checksum)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use llvm_passes::amdgpu::AmdTarget;
    use llvm_passes::pipeline::OptLevel;
    use proptest::prelude::*;

    use super::*;
    use crate::machines::amdgcn::job_code::{AmdCode, AmdMade, Hides};
    use crate::machines::job_code::{JobCode, Made};
    use crate::machines::samples::amd_object;

    fn job() -> CompileJob {
        let target = AmdTarget::new("gfx90a".to_owned(), String::new(), OptLevel::O2);
        let code = AmdCode { target, hides: Hides::Unexported, object: "0.o".into() };
        CompileJob {
            name: "gfx90a.0".to_owned(),
            llvm_options: Vec::new(),
            units: "units".into(),
            ranges: Vec::new(),
            parts: Vec::new(),
            promoted: Vec::new(),
            keep: BTreeSet::new(),
            kernels: vec!["kernel".to_owned()],
            code: JobCode::Amdgpu(code),
            saved_stages: None,
            cached_code: None,
            traced: false,
        }
    }

    fn manifest() -> Hash {
        blake3::hash(b"manifest")
    }

    fn reply(calls: &[&str]) -> Reply {
        let calls = calls.iter().map(|name| (*name).to_owned()).collect();
        Reply { made: Made::Amdgpu(AmdMade { calls, ..AmdMade::default() }), ..Reply::default() }
    }

    fn result() -> JobResult {
        JobResult { reply: reply(&[]), files: vec![amd_object(&["kernel"])], llvm_seconds: 1.5, ..JobResult::default() }
    }

    #[test]
    fn a_result_is_read_by_its_own_job_only() {
        let bytes = result().encode(&manifest()).unwrap();
        let read = JobResult::decode(&bytes, &manifest(), &job()).unwrap();
        assert_eq!((read.files, read.llvm_seconds), (result().files, 1.5));
        let other = JobResult::decode(&bytes, &blake3::hash(b"other"), &job());
        assert_eq!(other.unwrap_err(), "it is the result of another job");
    }

    #[test]
    fn a_result_has_what_the_job_makes() {
        let failed = Reply { errors: vec!["no".to_owned()], ..reply(&[]) };
        for (reply, files, fits) in [
            (reply(&[]), 1, true),
            (reply(&[]), 0, false),
            (reply(&[]), 2, false),
            (Reply::default(), 1, false),
            (failed, 1, false),
            (reply(&["f"]), 1, false),
            (reply(&["f"]), 0, true),
        ] {
            let result = JobResult { reply, files: vec![amd_object(&["kernel"]); files], ..JobResult::default() };
            let bytes = result.encode(&manifest()).unwrap();
            assert_eq!(JobResult::decode(&bytes, &manifest(), &job()).is_ok(), fits, "{result:?}");
        }
    }

    #[test]
    fn a_result_has_the_kernels_of_its_job() {
        let sound = amd_object(&["kernel", "other"]);
        for (object, fits) in [
            (sound.clone(), true),
            (Vec::new(), false),
            (sound[..sound.len() - 1].to_vec(), false),
            (amd_object(&["other"]), false),
        ] {
            let bytes = JobResult { files: vec![object], ..result() }.encode(&manifest()).unwrap();
            assert_eq!(JobResult::decode(&bytes, &manifest(), &job()).is_ok(), fits);
        }
    }

    proptest! {
        #[test]
        fn no_damaged_result_is_used(place in any::<prop::sample::Index>(), by in 1..=u8::MAX, cut in any::<bool>()) {
            let mut bytes = result().encode(&manifest()).unwrap();
            let place = place.index(bytes.len());
            if cut { bytes.truncate(place) } else { bytes[place] ^= by }
            prop_assert!(JobResult::decode(&bytes, &manifest(), &job()).is_err());
        }

        #[test]
        fn any_bytes_with_a_right_checksum_are_a_result_or_an_error(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            packed in any::<bool>(),
        ) {
            let body = if packed { zstd::encode_all(&*bytes, LEVEL).unwrap() } else { bytes };
            let header = [&MAGIC[..], manifest().as_bytes(), blake3::hash(&body).as_bytes()].concat();
            let _ = JobResult::decode(&[header, body].concat(), &manifest(), &job());
        }
    }
}
