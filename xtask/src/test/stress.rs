//! `cargo xtask test --stress`: the built tests beside more busy threads than the machine has cores. Each run is kept.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use super::programs::Built;
use super::report::{Report, Summary};
use super::selection::{Run, Selection, Step};
use super::{Checker, programs, run_tests};
use crate::failure::Result;
use crate::repository::{Repository, create_folder, files_in, write_file};
use crate::step::step;

/// Busy threads for each core.
const LOAD: usize = 4;

/// The budget of a run that has none.
const MINUTES: u64 = 600;

/// The first line of the record of a green run.
const GREEN: &str = "green";

/// Runs all tests once, and returns whether they passed.
pub fn run(repository: &Repository, selection: &Selection) -> Result<bool> {
    let checker = Checker::new(repository, selection.shipped)?;
    let mut built = Built::default();
    step(Step::Build.title(), |progress| programs::build(&checker, progress, &mut built))?;
    checker.lay_out(&built)?;
    let budget = selection.budget.or(Some(MINUTES));
    let run = Run::begin(&Selection { failed: false, budget, ..selection.clone() }, &repository.target);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let mut report = Report::default();
    under_load(cores * LOAD, || run_tests(&checker, &built.tests, &run, &mut report))?;
    let Summary { text, failed } = report.finish();
    println!("{text}");
    let folder = repository.target.join("stress");
    keep(&folder, failed.is_empty(), &text)?;
    let records = files_in(&folder)?;
    let is_green = |path: &&std::path::PathBuf| std::fs::read_to_string(path).is_ok_and(|text| text.starts_with(GREEN));
    let green = records.iter().filter(is_green).count();
    println!("{green} of {} runs under load were green; their records are in {}", records.len(), folder.display());
    Ok(failed.is_empty())
}

/// Does `work` beside this many threads that compute without end.
fn under_load<T>(threads: usize, work: impl FnOnce() -> T) -> T {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while !ended.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            });
        }
        let result = work();
        ended.store(true, Ordering::Relaxed);
        result
    })
}

/// Writes the record of a run into a file of its own.
fn keep(folder: &Path, is_green: bool, text: &str) -> Result<()> {
    create_folder(folder)?;
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let verdict = if is_green { GREEN } else { "red" };
    write_file(&folder.join(format!("{seconds}.txt")), format!("{verdict}\n{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_load_ends_with_the_work() {
        assert_eq!(under_load(3, || 7), 7);
    }

    #[test]
    fn records_tell_whether_a_run_was_green() {
        let folder = tempfile::tempdir().unwrap();
        keep(folder.path(), true, "1 passed, 0 failed, 0 skipped").unwrap();
        let records = files_in(folder.path()).unwrap();
        let text = std::fs::read_to_string(&records[0]).unwrap();
        assert_eq!((records.len(), &*text), (1, "green\n1 passed, 0 failed, 0 skipped\n"));
    }
}
