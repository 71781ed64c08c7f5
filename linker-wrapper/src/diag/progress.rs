//! Shows the progress of the device link as one line on a terminal, for links that take more than a moment.
//!
//! Nothing is shown if standard error is not a terminal.

use std::cell::OnceCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use offload_bundle::printable;

use crate::diag::{demangle, served};

/// Time before the line appears.
const FIRST_AFTER: Duration = Duration::from_millis(500);

/// Time between updates; faster changes flicker.
const INTERVAL: Duration = Duration::from_millis(200);

/// Maximum length of a kernel's name.
const NAME_WIDTH: usize = 40;

/// The line on the terminal, which messages must not disturb.
static SHOWN: Mutex<Option<ProgressBar>> = Mutex::new(None);

/// The line must not appear any more.
static ENDED: AtomicBool = AtomicBool::new(false);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Writes something on standard error: hides the line, and shows it again afterwards. Not to be nested.
pub fn quietly<T>(write: impl FnOnce() -> T) -> T {
    let shown = lock(&SHOWN).clone();
    match shown {
        Some(bar) => bar.suspend(write),
        None => write(),
    }
}

/// Removes the line for good: the process is about to end.
pub fn end() {
    ENDED.store(true, Ordering::Release);
    clear();
}

fn clear() {
    let shown = lock(&SHOWN).take();
    if let Some(bar) = shown {
        bar.finish_and_clear();
    }
}

/// The progress of a device link's jobs, shown until this is dropped.
pub struct Progress {
    jobs: Arc<Mutex<Jobs>>,
    shower: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Progress {
    /// Takes all jobs, by label (such as a kernel's symbol) and estimated cost in any unit: 0 for a job that only fetches its result, whose time
    /// says nothing about the others.
    pub fn new(jobs: &[(String, u64)]) -> Self {
        served::count_jobs(0, jobs.len() as u64);
        let jobs = Arc::new(Mutex::new(Jobs::new(jobs)));
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
        let shower = (!bar.is_hidden()).then(|| {
            let (stop, stopped) = channel();
            let jobs = Arc::clone(&jobs);
            let show = move || {
                let mut pause = FIRST_AFTER;
                while stopped.recv_timeout(pause) == Err(RecvTimeoutError::Timeout) {
                    show(&bar, &jobs);
                    pause = INTERVAL;
                }
            };
            // Without a thread the line is not shown.
            Some((stop, std::thread::Builder::new().spawn(show).ok()?))
        });
        Progress { jobs, shower: shower.flatten() }
    }

    /// Marks the job of this index as running.
    pub fn started(&self, index: usize) {
        lock(&self.jobs).set(index, State::Running(Instant::now()));
    }

    /// Marks the job as done, or found in the cache.
    pub fn finished(&self, index: usize) {
        lock(&self.jobs).set(index, State::Done);
        served::count_jobs(1, 0);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.shower.take() {
            drop(stop);
            let _ = thread.join();
            clear();
        }
    }
}

fn show(bar: &ProgressBar, jobs: &Mutex<Jobs>) {
    let line = lock(jobs).line(Instant::now());
    let mut shown = lock(&SHOWN);
    if ENDED.load(Ordering::Acquire) {
        return;
    }
    if shown.is_none() {
        // Cut off at the terminal's width.
        if let Ok(style) = ProgressStyle::with_template("{wide_msg}") {
            bar.set_style(style);
        }
        *shown = Some(bar.clone());
    }
    // Not under the lock: a message may hold the bar's own lock and wait for this one.
    drop(shown);
    bar.set_message(line);
    bar.tick();
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Waiting,
    Running(Instant),
    Done,
}

struct Job {
    label: String,
    cost: f64,
    state: State,
}

struct Jobs {
    jobs: Vec<Job>,
    /// The names of the jobs, made when the first is shown.
    names: OnceCell<Vec<String>>,
    /// Seconds and cost of the jobs that have ended.
    learnt: (f64, f64),
}

impl Jobs {
    fn new(jobs: &[(String, u64)]) -> Self {
        let job =
            |(label, cost): &(String, u64)| Job { label: label.clone(), cost: *cost as f64, state: State::Waiting };
        Jobs { jobs: jobs.iter().map(job).collect(), names: OnceCell::new(), learnt: (0.0, 0.0) }
    }

    fn set(&mut self, index: usize, state: State) {
        let Some(job) = self.jobs.get_mut(index) else { return };
        if let (State::Running(start), State::Done) = (job.state, state)
            && job.cost > 0.0
        {
            self.learnt.0 += start.elapsed().as_secs_f64();
            self.learnt.1 += job.cost;
        }
        job.state = state;
    }

    /// `device link: about 2 min left, 12 of 96 jobs done, 4 running, longest sort<…>(…) (34 s)`: a narrow terminal cuts off the end, so
    /// what matters most comes first.
    fn line(&self, now: Instant) -> String {
        let done = self.jobs.iter().filter(|job| job.state == State::Done).count();
        let jobs = self.jobs.iter().enumerate();
        let running: Vec<(usize, f64)> = jobs.filter_map(|(index, job)| Some((index, job.running_for(now)?))).collect();
        let mut line = String::from("device link: ");
        if let Some(seconds) = self.left(now, running.len()) {
            line.push_str(&format!("about {} left, ", duration(seconds)));
        }
        line.push_str(&format!("{done} of {} jobs done, {} running", self.jobs.len(), running.len()));
        if let Some((index, seconds)) = running.iter().max_by(|one, other| one.1.total_cmp(&other.1)) {
            let labels = || self.jobs.iter().map(|job| job.label.as_str());
            let names = self.names.get_or_init(|| demangle::shortened_apart(labels(), NAME_WIDTH));
            let name = printable::name(&names[*index]);
            line.push_str(&format!(", longest {name} ({})", duration(*seconds)));
        }
        line
    }

    /// Estimated seconds until the end: the remaining work divided by the running jobs, but at least that of the longest job.
    fn left(&self, now: Instant, running: usize) -> Option<f64> {
        let (seconds, cost) = self.learnt;
        let rate = (cost > 0.0).then_some(seconds / cost)?;
        let open = self.jobs.iter().filter(|job| job.state != State::Done);
        let each = open.map(|job| (job.cost * rate - job.running_for(now).unwrap_or_default()).max(0.0));
        let (sum, longest) = each.fold((0.0, 0.0_f64), |(sum, longest), left| (sum + left, longest.max(left)));
        Some((sum / running.max(1) as f64).max(longest))
    }
}

impl Job {
    /// Seconds.
    fn running_for(&self, now: Instant) -> Option<f64> {
        match self.state {
            State::Running(start) => Some(now.saturating_duration_since(start).as_secs_f64()),
            State::Waiting | State::Done => None,
        }
    }
}

/// `34 s`, `2 min`, `1 h 5 min`.
fn duration(seconds: f64) -> String {
    let seconds = seconds.round() as u64;
    match (seconds / 3600, seconds / 60 % 60) {
        (0, 0) => format!("{seconds} s"),
        (0, 1) => format!("1 min {} s", seconds % 60),
        (0, minutes) => format!("{minutes} min"),
        (hours, minutes) => format!("{hours} h {minutes} min"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::io::Read;
    use std::process::{Command, Stdio};

    fn jobs(costs: &[u64]) -> Jobs {
        let named: Vec<_> =
            costs.iter().map(|cost| (format!("_Z{}kernel{cost}i", 6 + cost.to_string().len()), *cost)).collect();
        Jobs::new(&named)
    }

    #[test]
    fn the_line_says_how_far_it_is() {
        let now = Instant::now();
        let ago = |seconds| State::Running(now - Duration::from_secs(seconds));
        let mut all = jobs(&[10, 20, 30, 40]);
        assert_eq!(all.line(now), "device link: 0 of 4 jobs done, 0 running");
        all.jobs[3].state = ago(34);
        all.jobs[2].state = ago(3);
        assert_eq!(all.line(now), "device link: 0 of 4 jobs done, 2 running, longest kernel40(int) (34 s)");
        // 10 units took 10 seconds: 20 + 27 + 6 are left for two.
        all.jobs[0].state = State::Done;
        all.learnt = (10.0, 10.0);
        assert_eq!(
            all.line(now),
            "device link: about 27 s left, 1 of 4 jobs done, 2 running, longest kernel40(int) (34 s)"
        );
        for job in &mut all.jobs {
            job.state = State::Done;
        }
        assert_eq!(all.line(now), "device link: about 0 s left, 4 of 4 jobs done, 0 running");
    }

    #[test]
    fn fetched_results_say_nothing_about_the_time_of_others() {
        let now = Instant::now();
        let mut all = jobs(&[0, 10, 20]);
        for index in [0, 1] {
            all.set(index, State::Running(now - Duration::from_secs(5)));
        }
        all.set(0, State::Done);
        assert_eq!(all.line(now), "device link: 1 of 3 jobs done, 1 running, longest kernel10(int) (5 s)");
        all.set(1, State::Done);
        assert!(all.line(now).ends_with("about 10 s left, 2 of 3 jobs done, 0 running"), "{}", all.line(now));
    }

    #[test]
    fn durations() {
        for (seconds, text) in
            [(0.4, "0 s"), (59.4, "59 s"), (61.0, "1 min 1 s"), (150.0, "2 min"), (3900.0, "1 h 5 min")]
        {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn what_is_not_there_is_ignored() {
        let progress = Progress::new(&[("a".into(), 1)]);
        progress.started(0);
        progress.finished(0);
        progress.finished(7);
        assert_eq!(
            lock(&progress.jobs).line(Instant::now()),
            "device link: about 0 s left, 1 of 1 jobs done, 0 running"
        );
        assert_eq!(quietly(|| 3), 3);
    }

    const LONGEST: Duration = Duration::from_secs(60);

    /// What the process of the next test does; by itself it does nothing.
    #[test]
    fn child_with_a_terminal() {
        if std::env::var_os("FATLINK_TEST_PROGRESS").is_none() {
            return;
        }
        let progress = Progress::new(&[("_Z6kerneli".into(), 10), ("_Z5otheri".into(), 10)]);
        progress.started(0);
        let shown = || lock(&SHOWN).is_some();
        let start = Instant::now();
        // A dumb terminal is to show nothing; another one shows the line when the machine gets to it.
        let limit = if std::env::var_os("TERM").is_some_and(|term| term == "dumb") { FIRST_AFTER * 4 } else { LONGEST };
        while !shown() && start.elapsed() < limit {
            std::thread::sleep(INTERVAL);
        }
        crate::diag::messages::warn("fatlink", "a message");
        drop(progress);
        assert!(!shown());
    }

    /// What a child writes to its terminal.
    fn written(term: &str) -> String {
        use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
        let ours = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
        grantpt(&ours).unwrap();
        unlockpt(&ours).unwrap();
        let name = ptsname(&ours, Vec::new()).unwrap().into_string().unwrap();
        let theirs = File::options().read(true).write(true).open(name).unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "diag::progress::tests::child_with_a_terminal", "--nocapture"]);
        command
            .env("FATLINK_TEST_PROGRESS", "1")
            .env("TERM", term)
            .env("NO_COLOR", "1")
            .stdout(Stdio::null())
            .stderr(theirs);
        let mut child = command.spawn().unwrap();
        drop(command);
        // Reading fails when the last one who had the other end is gone.
        let (mut text, mut buffer, mut file) = (Vec::new(), [0; 4096], File::from(ours));
        while let Ok(length @ 1..) = file.read(&mut buffer) {
            text.extend_from_slice(&buffer[..length]);
        }
        assert!(child.wait().unwrap().success());
        String::from_utf8_lossy(&text).into_owned()
    }

    #[test]
    fn a_terminal_shows_the_line_and_then_nothing() {
        let text = written("xterm");
        let line = "device link: 0 of 2 jobs done, 1 running, longest kernel(int)";
        let before = text.find(line).unwrap_or_else(|| panic!("{text:?}"));
        let message = text.find("fatlink: warning: a message\r\n").unwrap();
        assert!(
            before < message && text[before..message].contains("\x1b[2K"),
            "the message runs into the line: {text:?}"
        );
        assert!(text.trim_end().ends_with("\x1b[2K"), "the line stays: {text:?}");
    }

    #[test]
    fn a_dumb_terminal_shows_messages_alone() {
        assert_eq!(written("dumb"), "fatlink: warning: a message\r\n");
    }
}
