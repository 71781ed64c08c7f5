//! How long the jobs of earlier links took. It decides in which order the jobs of a link start, and nothing else: a time that is missing,
//! out of date or wrong costs time at most.
//!
//! All times are one entry of the cache: records of [`RECORD`] bytes, the newest first. Links that end at the same time may each replace what
//! the other has added, which the next link adds again.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, OnceLock, PoisonError};

use llvm_passes::partition::Partition;

use crate::sys::cache::{Cache, Key, KeyBuilder};

/// Bytes of a record: the job, its instructions, and its time in microseconds, all of them little-endian.
const RECORD: usize = 16;
/// The most records that are kept.
const MOST: usize = 16 << 10;

/// What a job is known by, whatever becomes of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

/// How long a job took.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Time {
    id: JobId,
    instructions: u32,
    microseconds: u32,
}

/// A job whose cost is to be known.
#[derive(Debug, Clone, Copy)]
pub struct Unordered {
    /// What it is known by, if it may have run before.
    pub id: Option<JobId>,
    /// Instructions before optimization.
    pub instructions: u64,
    /// What it costs by its code alone, in any unit.
    pub estimate: u64,
}

/// The times of earlier links, and of this one.
#[derive(Debug, Default)]
pub struct JobTimes {
    known: OnceLock<HashMap<JobId, Time>>,
    new: Mutex<Vec<Time>>,
}

impl JobId {
    /// The id of a partition. Of its kernels, the one with the smallest hash stands for all, so that a kernel that comes or goes rarely
    /// makes it another job. Without kernels its other names do. `None` for a program in one piece.
    pub fn of(target: &str, partition: &Partition) -> Option<Self> {
        let id = |name: &String| {
            let key = KeyBuilder::new("job").field("target", target.as_bytes()).field("name", name.as_bytes()).finish();
            let mut first = [0; 8];
            first.copy_from_slice(&key.bytes()[..8]);
            JobId(u64::from_le_bytes(first))
        };
        partition.kernels.iter().map(id).min().or_else(|| partition.keep.iter().map(id).min())
    }
}

impl Time {
    fn of(record: &[u8]) -> Option<Self> {
        let (id, rest) = record.split_first_chunk()?;
        let (instructions, rest) = rest.split_first_chunk()?;
        let (microseconds, _) = rest.split_first_chunk()?;
        let (instructions, microseconds) = (u32::from_le_bytes(*instructions), u32::from_le_bytes(*microseconds));
        Some(Time { id: JobId(u64::from_le_bytes(*id)), instructions, microseconds })
    }

    fn bytes(&self) -> impl Iterator<Item = u8> {
        let Time { id, instructions, microseconds } = self;
        id.0.to_le_bytes().into_iter().chain(instructions.to_le_bytes()).chain(microseconds.to_le_bytes())
    }

    /// The time of a job whose code has this many instructions by now.
    fn of_size(&self, instructions: u64) -> u64 {
        let (then, now) = (u128::from(self.instructions.max(1)), u128::from(instructions.max(1)));
        u64::try_from(u128::from(self.microseconds) * now / then).unwrap_or(u64::MAX).max(1)
    }
}

fn records(content: &[u8]) -> impl Iterator<Item = Time> {
    content.chunks_exact(RECORD).filter_map(Time::of).take(MOST)
}

/// The records of a link before those that were there, of each job the newest.
fn joined(new: &[Time], content: &[u8]) -> Vec<u8> {
    let mut seen = HashSet::new();
    let all = new.iter().rev().copied().chain(records(content));
    all.filter(|time| seen.insert(time.id)).take(MOST).flat_map(|time| time.bytes().collect::<Vec<_>>()).collect()
}

/// Returns what jobs cost: the time of an earlier link where `known` has one. The estimates of the others are scaled to these times.
fn costs(jobs: &[Unordered], known: &HashMap<JobId, Time>) -> Vec<u64> {
    let time = |job: &Unordered| Some(known.get(&job.id?)?.of_size(job.instructions));
    let timed: Vec<(u128, u128)> =
        jobs.iter().filter_map(|job| Some((time(job)?.into(), job.estimate.max(1).into()))).collect();
    let (times, estimates): (Vec<u128>, Vec<u128>) = timed.into_iter().unzip();
    let (times, estimates) = (times.iter().sum::<u128>().max(1), estimates.iter().sum::<u128>().max(1));
    let scaled =
        |estimate: u64| u64::try_from(u128::from(estimate).saturating_mul(times) / estimates).unwrap_or(u64::MAX);
    jobs.iter().map(|job| time(job).unwrap_or_else(|| scaled(job.estimate))).collect()
}

impl JobTimes {
    /// Returns what jobs cost, in the unit of the estimates or, if earlier links had some of the jobs, in microseconds.
    pub fn costs(&self, jobs: &[Unordered], folder: Option<&Cache>) -> Vec<u64> {
        costs(jobs, self.known(folder))
    }

    /// Notes how long a job took.
    pub fn note(&self, id: JobId, instructions: u64, seconds: f64) {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "the cast saturates")]
        let microseconds = (seconds * 1e6) as u32;
        let time = Time { id, instructions: u32::try_from(instructions).unwrap_or(u32::MAX), microseconds };
        if microseconds > 0 {
            self.new.lock().unwrap_or_else(PoisonError::into_inner).push(time);
        }
    }

    fn known(&self, folder: Option<&Cache>) -> &HashMap<JobId, Time> {
        let read = || folder?.get_uncounted(&key());
        // The newest is the first.
        self.known.get_or_init(|| {
            records(&read().unwrap_or_default())
                .collect::<Vec<_>>()
                .into_iter()
                .rev()
                .map(|time| (time.id, time))
                .collect()
        })
    }

    /// Keeps the times of this link's jobs for later links.
    pub fn keep(&self, folder: &Cache) {
        let new = self.new.lock().unwrap_or_else(PoisonError::into_inner);
        if !new.is_empty() {
            // Read again: other links may have ended meanwhile.
            folder.put(&key(), &joined(&new, &folder.get_uncounted(&key()).unwrap_or_default()));
        }
    }
}

/// The key of the entry. It does not depend on the program: another build has other results, which take about as long.
fn key() -> Key {
    KeyBuilder::new("job times").finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(kernels: &[&str], keep: &[&str]) -> Partition {
        Partition {
            kernels: kernels.iter().map(|name| (*name).to_owned()).collect(),
            keep: keep.iter().map(|name| (*name).to_owned()).collect(),
            ..Partition::default()
        }
    }

    fn time(id: u64, instructions: u32, microseconds: u32) -> Time {
        Time { id: JobId(id), instructions, microseconds }
    }

    fn of(times: &[Time]) -> HashMap<JobId, Time> {
        times.iter().map(|time| (time.id, *time)).collect()
    }

    fn job(id: u64, instructions: u64, estimate: u64) -> Unordered {
        Unordered { id: Some(JobId(id)), instructions, estimate }
    }

    #[test]
    fn a_partition_is_known_by_its_names_and_target() {
        let one = JobId::of("sm_90", &partition(&["a", "b", "c"], &["x"]));
        assert_eq!(one, JobId::of("sm_90", &partition(&["c", "b", "a"], &[])));
        assert_ne!(one, JobId::of("sm_80", &partition(&["a", "b", "c"], &[])));
        // Of three kernels, only one is missed.
        let without = [["b", "c"], ["a", "c"], ["a", "b"]].map(|two| JobId::of("sm_90", &partition(&two, &[])));
        assert_eq!(without.iter().filter(|id| **id == one).count(), 2);
        assert!(JobId::of("sm_90", &partition(&[], &["x"])).is_some());
        assert_eq!(JobId::of("sm_90", &partition(&[], &[])), None);
    }

    #[test]
    fn known_times_count_and_estimates_are_scaled_to_them() {
        let known = of(&[time(1, 100, 3000), time(2, 100, 1000)]);
        let unknown = Unordered { id: None, instructions: 7, estimate: 30 };
        let jobs = [job(1, 100, 10), job(2, 200, 10), job(3, 100, 20), unknown];
        assert_eq!(costs(&jobs, &known), [3000, 2000, 5000, 7500]);
        assert_eq!(costs(&jobs, &HashMap::new()), [10, 10, 20, 30]);
        let extreme = [job(1, u64::MAX, 0), job(2, 0, u64::MAX), job(3, u64::MAX, u64::MAX)];
        assert_eq!(costs(&extreme, &of(&[time(1, 0, u32::MAX), time(2, u32::MAX, 0)])).len(), 3);
    }

    #[test]
    fn the_newest_time_of_a_job_is_kept_and_their_number_is_bounded() {
        let old = joined(&[time(1, 1, 10), time(2, 1, 20)], &[]);
        let new = joined(&[time(2, 1, 21), time(3, 1, 30), time(2, 1, 22)], &old);
        assert_eq!(records(&new).collect::<Vec<_>>(), [time(2, 1, 22), time(3, 1, 30), time(1, 1, 10)]);
        let many: Vec<Time> = (0..MOST as u64 + 9).map(|id| time(id, 1, 1)).collect();
        let content = joined(&[time(0, 1, 5)], &joined(&many, &new));
        assert_eq!(content.len(), MOST * RECORD);
        assert_eq!(records(&content).next(), Some(time(0, 1, 5)));
    }

    #[test]
    fn any_bytes_are_records_or_nothing() {
        for length in 0..3 * RECORD {
            assert_eq!(records(&vec![0xff; length]).count(), length / RECORD);
        }
        assert_eq!(records(&vec![7; (MOST + 5) * RECORD]).count(), MOST);
    }

    #[test]
    fn times_are_there_for_the_next_link_and_a_damaged_entry_is_none() {
        let folder = tempfile::tempdir().unwrap();
        let open = || Cache::open(folder.path().join("cache"));
        let times = JobTimes::default();
        times.new.lock().unwrap().extend([time(1, 5, 50), time(2, 6, 60)]);
        times.keep(&open());
        assert_eq!(JobTimes::default().known(Some(&open())), &of(&[time(1, 5, 50), time(2, 6, 60)]));
        assert!(JobTimes::default().known(None).is_empty());
        let entry = walk(folder.path());
        std::fs::write(&entry, b"damaged").unwrap();
        assert!(JobTimes::default().known(Some(&open())).is_empty());
        times.keep(&open());
        assert_eq!(JobTimes::default().known(Some(&open())).len(), 2);
    }

    /// The only entry of a cache.
    fn walk(folder: &std::path::Path) -> std::path::PathBuf {
        let all = std::fs::read_dir(folder).unwrap().map(|found| found.unwrap().path());
        let mut all: Vec<_> = all.filter(|path| !path.ends_with("CACHEDIR.TAG")).collect();
        let path = all.pop().unwrap();
        if path.is_dir() { walk(&path) } else { path }
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_one_warning() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("file");
        std::fs::write(&file, "").unwrap();
        let cache = Cache::open(file);
        let times = JobTimes::default();
        times.new.lock().unwrap().push(time(1, 5, 50));
        times.keep(&cache);
        assert!(cache.warning().is_some());
        assert!(JobTimes::default().known(Some(&cache)).is_empty());
    }
}
