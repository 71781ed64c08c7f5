//! Watches the jobs of a step. Slurm reports a lost node after minutes, and until then the step does not end.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::process::{Child, ExitStatus};
use std::time::{Duration, Instant};

use distributor::JobList;
use rustix::process::{Pid, Signal, kill_process};

use crate::mark::{self, Mark};

/// How long the end of the step may be unnoticed.
const PAUSE: Duration = Duration::from_millis(20);
/// How often the jobs are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How long srun has for ending a step.
const ENDING: Duration = Duration::from_secs(5);

/// How a step ended.
#[derive(Debug)]
pub enum End {
    /// By itself.
    Itself(ExitStatus),
    /// All results are there, and some task does not end.
    Done,
    /// All jobs without results are on nodes that give no sign of life.
    Lost {
        /// The nodes.
        nodes: BTreeSet<String>,
        /// The number of these jobs.
        jobs: usize,
    },
}

/// What is left of a step.
struct Watch<'l> {
    list: &'l JobList,
    /// Jobs without results.
    missing: Vec<usize>,
    /// The marks of these jobs, and since when they have not changed.
    marks: HashMap<usize, (Mark, Instant)>,
    /// Since when all results are there.
    complete: Option<Instant>,
    patience: Duration,
}

/// Waits for the end of a step, and ends it if only lost nodes keep it from ending: if their marks have not changed for so long.
///
/// # Errors
/// The system does not say whether the step has ended.
pub fn until_end(step: &mut Child, list: &JobList, patience: Duration) -> io::Result<End> {
    let mut watch = Watch::new(list, patience);
    let mut looked = Instant::now();
    loop {
        if let Some(status) = step.try_wait()? {
            return Ok(End::Itself(status));
        }
        std::thread::sleep(PAUSE);
        if looked.elapsed() >= LOOK {
            looked = Instant::now();
            if let Some(end) = watch.look(looked) {
                stop(step)?;
                return Ok(end);
            }
        }
    }
}

/// Ends a step. srun waits for its nodes, also for those that are lost.
fn stop(step: &mut Child) -> io::Result<()> {
    let _ = kill_process(Pid::from_child(step), Signal::TERM);
    let begun = Instant::now();
    while begun.elapsed() < ENDING {
        if step.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(PAUSE);
    }
    step.kill()?;
    step.wait().map(drop)
}

impl<'l> Watch<'l> {
    fn new(list: &'l JobList, patience: Duration) -> Self {
        let missing = (0..list.jobs.len()).collect();
        Watch { list, missing, marks: HashMap::new(), complete: None, patience }
    }

    /// Looks at the jobs. Returns why the step has to be ended, if that is so.
    fn look(&mut self, now: Instant) -> Option<End> {
        // They are taken in their order, and network file systems have better things to do before the last one is.
        if !self.list.jobs.last().is_some_and(|job| mark::path(job).exists()) {
            return None;
        }
        self.missing.retain(|index| !self.list.jobs[*index].output().exists());
        if self.missing.is_empty() {
            let since = *self.complete.get_or_insert(now);
            return (now.duration_since(since) >= self.patience).then_some(End::Done);
        }
        let mut is_lost = true;
        for index in &self.missing {
            let mark = mark::read(&self.list.jobs[*index])?;
            let known = self.marks.entry(*index).or_insert_with(|| (mark.clone(), now));
            if known.0 != mark {
                *known = (mark, now);
            }
            is_lost &= now.duration_since(known.1) >= self.patience;
        }
        is_lost.then(|| End::Lost { nodes: self.nodes(), jobs: self.missing.len() })
    }

    /// The nodes that have taken the jobs without results.
    fn nodes(&self) -> BTreeSet<String> {
        self.missing.iter().filter_map(|index| Some(self.marks.get(index)?.0.node.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use distributor::Job;
    use distributor::job_list::Common;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(30);

    fn list(folder: &std::path::Path) -> JobList {
        let job = |name: &str| {
            let output = folder.join(name).to_string_lossy().into_owned();
            Job { args: Vec::new(), inputs: Vec::new(), outputs: vec![output] }
        };
        let common = Common { linker_output: String::new(), args: vec!["true".to_owned()], inputs: Vec::new() };
        JobList { common, jobs: vec![job("a"), job("b")] }
    }

    fn write(list: &JobList, index: usize, text: &str) {
        std::fs::write(mark::path(&list.jobs[index]), text).unwrap();
    }

    #[test]
    fn nodes_whose_marks_do_not_change_are_lost() {
        let folder = tempfile::tempdir().unwrap();
        let list = list(folder.path());
        let mut watch = Watch::new(&list, PATIENCE);
        let begun = Instant::now();
        let at = |seconds| begun + Duration::from_secs(seconds);
        write(&list, 0, "one\n");
        // The second job is not taken yet.
        assert!(watch.look(at(0)).is_none() && watch.look(at(40)).is_none());
        write(&list, 1, "two\n");
        assert!(watch.look(at(41)).is_none());
        write(&list, 1, "two\n.");
        assert!(watch.look(at(70)).is_none() && watch.look(at(99)).is_none());
        let Some(End::Lost { nodes, jobs }) = watch.look(at(100)) else { panic!("nothing is lost") };
        assert_eq!((nodes.into_iter().collect::<Vec<_>>(), jobs), (vec!["one".to_owned(), "two".to_owned()], 2));
    }

    #[test]
    fn a_step_with_all_results_that_does_not_end_is_done() {
        let folder = tempfile::tempdir().unwrap();
        let list = list(folder.path());
        let mut watch = Watch::new(&list, PATIENCE);
        let begun = Instant::now();
        write(&list, 0, "one\n");
        write(&list, 1, "two\n");
        for name in ["a", "b"] {
            assert!(watch.look(begun).is_none());
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        assert!(watch.look(begun).is_none() && watch.look(begun + PATIENCE / 2).is_none());
        assert!(matches!(watch.look(begun + PATIENCE), Some(End::Done)));
    }
}
