//! `cargo xtask test`: every test that can run on this machine. A missing tool is a failure, never a skip.

mod environmental;
pub mod nightly;
mod programs;
pub mod quick;
mod report;
pub mod selection;
pub mod stress;
mod tally;

use std::process::Command;

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::lit::lit;
use crate::llvm_release::LlvmRelease;
use crate::repository::Repository;
use crate::step::{Progress, noted_step, step};
use crate::toolchain::{Toolchain, remove_folder};
use crate::{debian, dist, rocm, setup};
use programs::{Built, LIT, TestProgram};
use report::{Report, Summary};
use selection::{Run, Selection, Step};
use tally::Tally;

/// The variable that makes cargo compile the packages of this workspace by clippy.
const COMPILER: (&str, &str) = ("RUSTC_WORKSPACE_WRAPPER", "clippy-driver");

/// Large pages for what programs allocate. A third of the lit tests' time is the kernel's, above all for page faults: nvcc takes 7 % less
/// with them, and clang 5 %.
const LARGE_PAGES: (&str, &str) = ("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1");

struct Checker {
    repository: Repository,
    toolchain: Toolchain,
    environment: Environment,
    /// Whether the programs under test are those in dist/. Those of the dev profile have assertions, and overflow checks.
    shipped: bool,
}

/// Runs every step of the selection, whatever failed before, and returns whether all passed.
pub fn run(repository: &Repository, selection: &Selection) -> Result<bool> {
    let checker = Checker::new(repository, selection.shipped)?;
    let run = Run::begin(selection, &repository.target);
    let Summary { text, failed } = run_steps(&checker, &run)?;
    println!("{text}");
    run.keep(&failed)?;
    Ok(failed.is_empty())
}

/// The steps that take least time first, the tests last.
fn run_steps(checker: &Checker, run: &Run) -> Result<Summary> {
    let mut report = Report::default();
    let mut tests = None;
    for current in run.steps().filter(|step| !step.is_test()) {
        let title = current.title();
        match current {
            _ if run.is_over() => report.not_run(title, selection::OVER),
            Step::Format => _ = report.step(title, || step(title, |progress| format(checker, progress))),
            _ => tests = build(checker, &mut report),
        }
    }
    match tests {
        Some(programs) => run_tests(checker, &programs, run, &mut report)?,
        None => {
            let tests = run.steps().filter(|step| step.is_test());
            tests.for_each(|step| report.not_run(step.title(), "there are no programs to test"));
        }
    }
    Ok(report.finish())
}

/// Builds the tests, and what they test. Warnings of clippy are a failed step, and the tests run all the same.
fn build(checker: &Checker, report: &mut Report) -> Option<Vec<TestProgram>> {
    let mut built = Built::default();
    let title = Step::Build.title();
    report.step(title, || step(title, |progress| programs::build(checker, progress, &mut built)));
    report.step("programs under test", || checker.lay_out(&built))?;
    (!built.tests.is_empty()).then_some(built.tests)
}

/// Runs the tests of a run's steps, and repeats those that failed.
fn run_tests(checker: &Checker, programs: &[TestProgram], run: &Run, report: &mut Report) -> Result<()> {
    let tests = Tests { checker, programs, environmental: environmental::listed(checker)? };
    for current in run.steps().filter(|step| step.is_test()) {
        let title = current.title();
        if run.is_over() {
            report.not_run(title, selection::OVER);
            continue;
        }
        let work = |progress: &Progress| tests.step(current, run, progress);
        report.tests(title, || noted_step(title, work, Tally::note));
    }
    if let Some(names) = run.tests() {
        let title = "tests that failed last time, one at a time";
        let work = |progress: &Progress| tests.alone(&names, run, progress);
        report.tests(title, || noted_step(title, work, Tally::note));
        return Ok(());
    }
    repeat_failed(&tests, run, report)
}

/// Runs the tests that failed once more, each alone, now that all others have ended.
fn repeat_failed(tests: &Tests<'_>, run: &Run, report: &mut Report) -> Result<()> {
    // A broken program fails many tests; these are not a matter of the machine's load.
    const MOST_REPEATED: usize = 10;
    let failed = report.failed_tests();
    if failed.is_empty() || failed.len() > MOST_REPEATED {
        return Ok(());
    }
    let work = |progress: &Progress| tests.alone(&failed, run, progress);
    let again = noted_step("tests that failed, one at a time", work, Tally::note)?;
    let passed: Vec<String> =
        failed.iter().filter(|name| !again.failed.contains(name) && !again.not_run.contains(name)).cloned().collect();
    report.repeated(&passed);
    Ok(())
}

/// The built tests.
struct Tests<'a> {
    checker: &'a Checker,
    programs: &'a [TestProgram],
    /// Those that run last, one at a time.
    environmental: Vec<String>,
}

impl Tests<'_> {
    /// Runs the tests of a step.
    fn step(&self, step: Step, run: &Run, progress: &Progress) -> Result<Tally> {
        if step == Step::Environmental {
            return self.alone(&self.environmental, run, progress);
        }
        let programs = self.programs.iter().filter(|program| (program.name == LIT) == (step == Step::Lit)).collect();
        programs::run_all(programs, |program| {
            if run.is_over() {
                return Ok(Tally { not_run: vec![program.name.clone()], ..Tally::default() });
            }
            program.run(self.checker, progress, &self.without_environmental(program))
        })
    }

    /// The arguments that leave out a program's tests that run later.
    fn without_environmental(&self, program: &TestProgram) -> Vec<String> {
        let later = self.environmental.iter().filter_map(|name| name.strip_prefix(&program.name)?.strip_prefix(' '));
        let mut arguments: Vec<String> = later.flat_map(|test| ["--skip".to_owned(), test.to_owned()]).collect();
        arguments.extend((!arguments.is_empty()).then(|| "--exact".to_owned()));
        arguments
    }

    /// Runs these tests, each alone.
    fn alone(&self, names: &[String], run: &Run, progress: &Progress) -> Result<Tally> {
        let mut tally = Tally::default();
        for name in names {
            if run.is_over() {
                tally.not_run.push(name.clone());
                continue;
            }
            let (program, test) = name.split_once(' ').unwrap_or((name, ""));
            let arguments = match test {
                "" => Vec::new(),
                _ => vec!["--exact".to_owned(), test.to_owned()],
            };
            let program = self.programs.iter().find(|known| known.name == program);
            let program = program.ok_or_else(|| Failure::new(format!("there is no test program {name}")))?;
            let mut outcome = program.run(self.checker, progress, &arguments)?;
            if outcome.failed.is_empty() && outcome.passed + outcome.skipped() == 0 {
                outcome.failed.push(name.clone());
                outcome.output = format!("{name}: there is no such test\n");
            }
            tally.add(outcome);
        }
        Ok(tally)
    }
}

impl Checker {
    /// Installs what is missing.
    fn new(repository: &Repository, shipped: bool) -> Result<Self> {
        let toolchain = setup::install(repository)?;
        let repository = if shipped { repository.clone() } else { repository.for_tests() };
        let environment = Environment::new(&repository, &toolchain).with(LARGE_PAGES.0, LARGE_PAGES.1);
        Ok(Self { repository, toolchain, environment, shipped })
    }

    /// Cargo with clippy as the compiler: a build of its own for the warnings would check everything once more. The programs link with the
    /// C library of those that are shipped, and have no line tables, which take a fifth of the time to compile.
    fn cargo(&self, subcommand: &str) -> Command {
        let mut cargo = self.repository.cargo(subcommand);
        self.environment.apply(&mut cargo);
        dist::compile_for(&mut cargo, &self.toolchain);
        cargo.env(COMPILER.0, COMPILER.1).env("CARGO_PROFILE_DEV_DEBUG", "false");
        cargo
    }

    /// Lays out the programs under test.
    fn lay_out(&self, built: &Built) -> Result<()> {
        match self.shipped {
            true => dist::build(&self.repository, &self.toolchain, LlvmRelease::default()),
            false => dist::lay_out_debug(&self.repository, &self.toolchain, &built.files),
        }
    }
}

/// Programs with gigabytes of device code.
pub fn big(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    dist::build(repository, &toolchain, LlvmRelease::default())?;
    let environment = Environment::new(repository, &toolchain);
    step("link programs with 2.3 GB of device code", |progress| {
        suite(repository, progress, "big", lit(&environment, &[]))
    })
}

/// Programs of hipcc.
pub fn rocm(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    rocm::install(&toolchain)?;
    dist::build(repository, &toolchain, LlvmRelease::default())?;
    let mut lit = lit(&Environment::new(repository, &toolchain), &[]);
    lit.env("FATLINK_ROCM", rocm::place(&toolchain));
    step("compile and link programs with hipcc", |progress| suite(repository, progress, "rocm", lit))
}

/// Links by Bazel, which comes with Debian's Java.
pub fn bazel(repository: &Repository) -> Result<()> {
    let toolchain = setup::install(repository)?;
    dist::build(repository, &toolchain, LlvmRelease::default())?;
    let environment = Environment::new(repository, &toolchain);
    step("link by Bazel", |progress| {
        debian::install_for(progress, "bazel", "bazel-bootstrap")?;
        suite(repository, progress, "bazel", lit(&environment, &[]))
    })
}

/// Runs the lit tests in a folder beside the usual ones, with the programs in dist/.
fn suite(repository: &Repository, progress: &Progress, folder: &str, mut lit: Command) -> Result<()> {
    let scratch = repository.target.join(folder);
    lit.arg("--param").arg(format!("scratch={}", scratch.display()));
    lit.env("FATLINK_DIST", repository.dist()).args(["--quiet", "--verbose"]);
    let outcome = progress.run(lit.arg(repository.root.join("lit-tests").join(folder)));
    remove_folder(&scratch)?;
    outcome.map(drop).map_err(|failure| Failure { message: "lit tests failed".to_owned(), ..failure })
}

fn format(checker: &Checker, progress: &Progress) -> Result<()> {
    let outcome = progress.run(checker.cargo("fmt").args(["--all", "--", "--check", "--files-with-diff"]));
    outcome.map(drop).map_err(|failure| Failure {
        message: "these files are not formatted: run `cargo fmt --all`".to_owned(),
        output: failure.output,
    })
}
