//! `cargo xtask bench`: fatlink against LLVM's own linker wrapper, in one run on one machine.
//!
//! Both are started in turn, A B A B …, so that a machine whose speed drifts harms both alike; what counts is
//! the median of the pairs' ratios. The result goes to docs/benchmarks.md.

mod arguments;
mod objects;
mod sources;

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use arguments::Action;
use objects::{Compiler, Targets};

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::step::{Progress, step};
use crate::toolchain::{LLVM, Toolchain};
use crate::{dist, setup};

const CORPORA: &str = "medium, medium-two, large, large-two, flat, changed and scale";

/// Pairs that count; one more goes first to warm up.
const PAIRS: usize = 10;

/// One thing that is timed.
struct Case {
    name: &'static str,
    /// What is compared, for the report.
    describe: &'static str,
    ours: fn(&Bench) -> Command,
    theirs: fn(&Bench) -> Command,
    goal: Goal,
}

#[derive(Clone, Copy)]
enum Goal {
    /// Median of ours / theirs.
    Ratio(f64),
    /// Median of ours - theirs, in milliseconds.
    Overhead(f64),
}

const CASES: [Case; 2] = [
    Case {
        name: "no device code",
        describe: "ld.fatlink against the linker that it calls (ld.lld), one C object",
        ours: |bench| bench.host_link(&bench.dist.join("bin/ld.fatlink"), Some("/usr/lib/llvm-22/bin/ld.lld")),
        theirs: |bench| bench.host_link(Path::new("/usr/lib/llvm-22/bin/ld.lld"), None),
        goal: Goal::Overhead(5.0),
    },
    Case {
        name: "small",
        describe: "samples/two-tu, LTO for sm_90, host linker /bin/true for both, against clang-linker-wrapper 22",
        ours: |bench| bench.device_link(&bench.dist.join("bin/clang-linker-wrapper")),
        theirs: |bench| bench.device_link(&Path::new(LLVM).join("bin/clang-linker-wrapper")),
        goal: Goal::Ratio(0.4),
    },
];

struct Bench {
    folder: PathBuf,
    dist: PathBuf,
    cuda: PathBuf,
    sources: PathBuf,
    environment: Environment,
}

/// Runs every case and writes the report.
pub fn run(repository: &Repository, arguments: &[String]) -> Result<()> {
    let toolchain = setup::install(repository)?;
    match arguments::parse(arguments)? {
        Action::Help => {
            print!("{}", arguments::HELP);
            return Ok(());
        }
        Action::Objects { corpus } => return compile_objects(repository, &toolchain, &corpus),
        Action::Run { .. } | Action::Pack { .. } => {}
    }
    dist::build(repository)?;
    let bench = Bench::new(repository, &toolchain);
    create_folder(&bench.folder)?;
    step("compile the inputs", |progress| bench.compile(progress).map(|()| ""))?;
    let mut rows = String::new();
    let mut missed = Vec::new();
    for case in &CASES {
        step(case.name, |_| {
            let measured = bench.measure(case)?;
            if !measured.meets(case.goal) {
                missed.push(case.name);
            }
            let _ = writeln!(rows, "{}", measured.row(case));
            Ok(measured.summary(case.goal))
        })?;
    }
    let path = repository.root.join("docs/benchmarks.md");
    std::fs::write(&path, report(&rows)).map_err(|error| Failure::file("write", &path, &error))?;
    println!("  written to docs/benchmarks.md");
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("goal missed: {}; the machine may be busy, run it again", missed.join(", "))))
}

/// `--objects`: for measuring by hand.
fn compile_objects(repository: &Repository, toolchain: &Toolchain, corpus: &str) -> Result<()> {
    let compiler = Compiler::new(repository, toolchain, &repository.target.join("bench"));
    let (units, targets, variant) = match corpus {
        "medium" => (sources::medium(), Targets::One, ""),
        "medium-two" => (sources::medium(), Targets::Two, ""),
        "large" => (sources::large(), Targets::One, ""),
        "large-two" => (sources::large(), Targets::Two, ""),
        "flat" => (sources::flat(), Targets::One, ""),
        "changed" => (vec![sources::changed()], Targets::One, "-changed"),
        "scale" => ([sources::shared(), sources::scale()].concat(), Targets::One, ""),
        _ => return Err(Failure::new(format!("no such corpus: {corpus}; there are {CORPORA}"))),
    };
    let mut objects = Vec::new();
    step(&format!("compile {corpus}"), |progress| {
        objects = compiler.objects(progress, &units, targets, variant)?;
        Ok("")
    })?;
    objects.iter().for_each(|object| println!("{}", object.display()));
    Ok(())
}

impl Bench {
    fn new(repository: &Repository, toolchain: &Toolchain) -> Self {
        Bench {
            folder: repository.target.join("bench"),
            dist: repository.dist(),
            cuda: toolchain.cuda(),
            sources: repository.root.join("samples/two-tu"),
            environment: Environment::new(repository, toolchain),
        }
    }

    fn compile(&self, progress: &Progress) -> Result<()> {
        for name in ["kernel", "helper"] {
            let mut clang = Command::new("clang++-22");
            clang.args(["-x", "cuda", "-Wno-unknown-cuda-version", "-fgpu-rdc", "-foffload-lto", "-O2"]);
            clang.args(["--offload-arch=sm_90", "-c"]).arg(self.sources.join(name).with_extension("cu"));
            clang.arg(format!("--cuda-path={}", self.cuda.display())).arg("-o").arg(self.object(name));
            progress.run(&mut clang)?;
        }
        let source = self.folder.join("host.c");
        std::fs::write(&source, "int main(void) { return 0; }\n")
            .map_err(|error| Failure::file("write", &source, &error))?;
        progress.run(Command::new("clang-22").arg("-c").arg(&source).arg("-o").arg(self.object("host"))).map(drop)
    }

    fn object(&self, name: &str) -> PathBuf {
        self.folder.join(name).with_extension("o")
    }

    fn host_link(&self, program: &Path, linker: Option<&str>) -> Command {
        let mut command = Command::new(program);
        command.args(linker.map(|linker| format!("--linker-path={linker}")));
        command.args(["-e", "main", "-o"]).arg(self.folder.join("host.out")).arg(self.object("host"));
        command
    }

    /// The line by which clang calls its wrapper for these objects.
    fn device_link(&self, program: &Path) -> Command {
        let cuda = self.cuda.display();
        let mut command = Command::new(program);
        self.environment.apply(&mut command);
        command.args(["--should-extract=sm_90", "--host-triple=x86_64-pc-linux-gnu", "--linker-path=/bin/true"]);
        command.arg(format!("--device-compiler=nvptx64-nvidia-cuda=--cuda-path={cuda}"));
        command.args(["-O2", "-flto=full"].map(|option| format!("--device-compiler=nvptx64-nvidia-cuda={option}")));
        command.arg(format!("--cuda-path={cuda}")).arg("-o").arg(self.folder.join("device.out"));
        command.args([self.object("kernel"), self.object("helper")]);
        command
    }

    fn measure(&self, case: &Case) -> Result<Measured> {
        let mut pairs = Vec::new();
        for pair in 0..=PAIRS {
            let times = (timed((case.ours)(self))?, timed((case.theirs)(self))?);
            if pair > 0 {
                pairs.push(times);
            }
        }
        Ok(Measured { pairs })
    }
}

fn timed(mut command: Command) -> Result<Duration> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let start = Instant::now();
    let status = command.status().map_err(|error| Failure::new(format!("cannot run {command:?}: {error}")))?;
    if !status.success() {
        return Err(Failure::new(format!("{command:?} failed: {status}")));
    }
    Ok(start.elapsed())
}

/// Wall times of ours and theirs, pair by pair.
struct Measured {
    pairs: Vec<(Duration, Duration)>,
}

impl Measured {
    fn spread(&self, figure: impl Fn(f64, f64) -> f64) -> (f64, f64, f64) {
        let milliseconds = |time: Duration| time.as_secs_f64() * 1000.0;
        let mut figures: Vec<f64> =
            self.pairs.iter().map(|(ours, theirs)| figure(milliseconds(*ours), milliseconds(*theirs))).collect();
        figures.sort_by(f64::total_cmp);
        (figures[0], figures[figures.len() / 2], figures[figures.len() - 1])
    }

    fn compared(&self, goal: Goal) -> (f64, f64, f64) {
        match goal {
            Goal::Ratio(_) => self.spread(|ours, theirs| ours / theirs),
            Goal::Overhead(_) => self.spread(|ours, theirs| ours - theirs),
        }
    }

    fn meets(&self, goal: Goal) -> bool {
        let (Goal::Ratio(limit) | Goal::Overhead(limit)) = goal;
        self.compared(goal).1 <= limit
    }

    fn summary(&self, goal: Goal) -> String {
        let (least, median, most) = self.compared(goal);
        match goal {
            Goal::Ratio(limit) => format!("{median:.2} ({least:.2}-{most:.2}) of the peer's time, goal {limit}"),
            Goal::Overhead(limit) => format!("{median:.1} ({least:.1}-{most:.1}) ms over the peer, goal {limit}"),
        }
    }

    fn row(&self, case: &Case) -> String {
        let (_, ours, _) = self.spread(|ours, _| ours);
        let (_, theirs, _) = self.spread(|_, theirs| theirs);
        let summary = self.summary(case.goal);
        format!("| {} | {} | {ours:.1} | {theirs:.1} | {summary} |", case.name, case.describe)
    }
}

fn report(rows: &str) -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let information = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = information.lines().find_map(|line| line.strip_prefix("model name")?.split_once(": "));
    let model = model.map_or("unknown processor", |(_, name)| name);
    format!(
        "# Benchmarks\n\n\
         Written by `cargo xtask bench` on {}: {cores} cores, {model}, Linux, LLVM 22, CUDA 13.0.\n\
         {PAIRS} pairs after one to warm up, in turn; medians, with the least and the most in parentheses.\n\
         Machines are noisy: trust the comparison, not the milliseconds.\n\n\
         | case | what | fatlink, ms | peer, ms | comparison |\n| --- | --- | --- | --- | --- |\n{rows}",
        today()
    )
}

/// Today's date in UTC, by Howard Hinnant's days-to-civil rule.
fn today() -> String {
    let seconds = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).map_or(0, |time| time.as_secs());
    let days = seconds / 86_400 + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let day_of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted + 2) / 5 + 1;
    let month = if shifted < 10 { shifted + 3 } else { shifted - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!("{year}-{month:02}-{day:02}")
}
