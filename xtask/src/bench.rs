//! `cargo xtask bench`: fatlink against LLVM's own linker wrapper, in one run on one machine.
//!
//! The corpora are generated ([`sources`]) and compiled once ([`objects`]). Each case ([`cases`]) links them with both,
//! in turn, so that a machine whose speed drifts harms both alike ([`timed`]), takes time and memory of all processes
//! ([`measure`]), and compares the machine code kernel by kernel ([`image`]): a linker that loses kernels is fast.

mod alone;
mod arguments;
mod cases;
mod image;
mod link;
mod measure;
mod objects;
mod pack;
mod phases;
mod report;
mod sources;
mod statistics;
mod timed;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use arguments::{Action, Peer, Selection};
use cases::{CASES, Case};
use link::{Link, Linkers, Side};
use measure::{Memory, Sample};
use objects::{Compiler, Targets};

use crate::environment::Environment;
use crate::failure::{Failure, Result};
use crate::repository::{Repository, create_folder};
use crate::step::{self, Progress, step};
use crate::toolchain::LLVM;
use crate::{dist, setup};

/// What the cases share.
pub struct Bench {
    /// All that is made here lies in it.
    folder: PathBuf,
    compiler: Compiler,
    linkers: Linkers,
    peer: Peer,
    /// Instead of a case's own number.
    rounds: Option<usize>,
    /// An object without device code.
    host_object: PathBuf,
    /// Runs of the peer by what it linked and how, for cases that ask for the same.
    peer_samples: BTreeMap<String, Vec<Sample>>,
}

/// Does what the arguments say.
pub fn run(repository: &Repository, arguments: &[String]) -> Result<()> {
    match arguments::parse(arguments)? {
        Action::Help => {
            print!("{}", help());
            Ok(())
        }
        Action::Objects { corpus } => compile_objects(repository, &corpus),
        Action::Pack { file, dist } => write_pack(repository, &file, dist.as_deref()),
        Action::Run(selection) => run_cases(repository, &selection),
    }
}

fn help() -> String {
    let lines = CASES.iter().map(|case| format!("  {:16} {}\n", case.name, case.describe));
    format!("{}\nCorpora: {CORPORA}.\n\nCases:\n{}", arguments::HELP, lines.collect::<String>())
}

/// The named cases in their order; all if none is named.
fn chosen(names: &[String]) -> Result<Vec<&'static Case>> {
    if let Some(unknown) = names.iter().find(|name| CASES.iter().all(|case| case.name != name.as_str())) {
        let known: Vec<_> = CASES.iter().map(|case| case.name).collect();
        return Err(Failure::new(format!("no such case: {unknown}; there are {}", known.join(", "))));
    }
    Ok(CASES.iter().filter(|case| names.is_empty() || names.iter().any(|name| name == case.name)).collect())
}

fn run_cases(repository: &Repository, selection: &Selection) -> Result<()> {
    let cases = chosen(&selection.cases)?;
    if selection.brief {
        step::be_quiet();
    }
    let mut bench = Bench::prepare(repository, selection.dist.as_deref())?;
    bench.peer = selection.peer;
    bench.rounds = selection.rounds;
    let writes_report = !selection.brief && selection.peer == Peer::Clang;
    let mut missed = Vec::new();
    for case in cases {
        let outcome = match measured(case, &mut bench) {
            Ok(outcome) => outcome,
            Err(failure) => {
                eprintln!("{failure}");
                missed.push(format!("{}: failed", case.name));
                continue;
            }
        };
        if selection.brief {
            println!("{}: {}", case.name, outcome.brief);
        } else if writes_report {
            report::keep(&bench.folder, case, &outcome, selection.rounds)?;
        }
        missed.extend(outcome.missed.iter().map(|goal| format!("{}: {goal}", case.name)));
    }
    if writes_report {
        report::write(repository, &bench.folder)?;
        println!("  written to docs/benchmarks.md");
    }
    if missed.is_empty() {
        return Ok(());
    }
    Err(Failure::new(format!("goals missed (the machine may be busy):\n  {}", missed.join("\n  "))))
}

fn measured(case: &Case, bench: &mut Bench) -> Result<cases::Outcome> {
    let mut outcome = cases::Outcome::default();
    step(case.name, |progress| {
        outcome = case.run(bench, progress)?;
        Ok(outcome.brief.clone())
    })?;
    Ok(outcome)
}

/// `--pack`: for another machine.
fn write_pack(repository: &Repository, file: &Path, dist: Option<&Path>) -> Result<()> {
    let bench = Bench::prepare(repository, dist)?;
    step(&format!("write {}", file.display()), |progress| {
        let bytes = pack::write(&bench, progress, file)?;
        Ok(format!("{} MiB", timed::mebibytes(bytes)))
    })
}

const CORPORA: &str = "small, medium, medium-two, large, large-two, flat, changed and scale";

/// `--objects`: for measuring by hand.
fn compile_objects(repository: &Repository, corpus: &str) -> Result<()> {
    let toolchain = setup::install(repository)?;
    let compiler = Compiler::new(repository, &toolchain, &repository.target.join("bench"));
    let (units, targets, variant) = match corpus {
        "small" => (sources::small(), Targets::One, sources::SMALL),
        "medium" => (sources::medium(), Targets::One, ""),
        "medium-two" => (sources::medium(), Targets::Two, ""),
        "large" => (sources::large(), Targets::One, ""),
        "large-two" => (sources::large(), Targets::Two, ""),
        "flat" => (sources::flat(), Targets::One, ""),
        "changed" => (vec![sources::changed()], Targets::One, sources::VERSION),
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
    /// Installs what is missing, and builds fatlink unless `dist` names programs.
    fn prepare(repository: &Repository, dist: Option<&Path>) -> Result<Self> {
        let toolchain = setup::install(repository)?;
        let dist = match dist {
            Some(dist) => std::path::absolute(dist).map_err(|error| Failure::file("find", dist, &error))?,
            None => dist::build(repository, &toolchain).map(|()| repository.dist())?,
        };
        let folder = repository.target.join("bench");
        let (mut host_object, mut linkers) = (PathBuf::new(), None);
        step("prepare", |progress| {
            host_object = compile_host(&folder, progress)?;
            let environment = Environment::new(repository, &toolchain);
            linkers = Some(Linkers::new(progress, &host_object, dist, toolchain.cuda(), environment)?);
            Ok("")
        })?;
        Ok(Self {
            linkers: linkers.ok_or_else(|| Failure::new("nothing was prepared"))?,
            compiler: Compiler::new(repository, &toolchain, &folder),
            folder,
            peer: Peer::Clang,
            rounds: None,
            host_object,
            peer_samples: BTreeMap::new(),
        })
    }

    /// Links once; the output lies at [`Bench::output`].
    fn link(&self, side: Side, link: &Link, memory: Memory) -> Result<Sample> {
        let output = self.output(side);
        // A program of an earlier link must not pass for this one's.
        remove(&output)?;
        measure::run(&mut self.linkers.command(side, link, &output), &self.log(), memory)
    }

    fn output(&self, side: Side) -> PathBuf {
        self.folder.join(match side {
            Side::Ours => "program.ours",
            Side::Theirs => "program.theirs",
        })
    }

    /// What the last program that was run printed.
    fn log(&self) -> PathBuf {
        self.folder.join("output.log")
    }

    /// How many kernels the last program has, over all architectures.
    fn kernels(&self, progress: &Progress, side: Side) -> Result<usize> {
        let code = self.code(progress, side)?;
        Ok(code.values().map(|code| code.kernels.len()).sum())
    }

    fn code(&self, progress: &Progress, side: Side) -> Result<BTreeMap<String, image::Code>> {
        image::of_program(progress, &self.output(side), &self.linkers.cuda, &self.folder.join("cubins"))
    }

    /// The folder that fatlink is given for its cache.
    fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    fn kept_cache(&self) -> PathBuf {
        self.folder.join("cache-kept")
    }

    fn empty_cache(&self) -> Result<()> {
        remove(&self.cache())?;
        create_folder(&self.cache())
    }

    /// Whether the last link used its cache at all.
    fn cache_is_used(&self) -> Result<()> {
        let cache = self.cache();
        let mut entries = std::fs::read_dir(&cache).map_err(|error| Failure::file("read", &cache, &error))?;
        match entries.next() {
            Some(_) => Ok(()),
            None => Err(Failure::new("fatlink left nothing in the cache that --offload-cache= named")),
        }
    }

    /// What is in the cache now is what [`Bench::restore_cache`] brings back.
    fn keep_cache(&self) -> Result<()> {
        self.cache_is_used()?;
        remove(&self.kept_cache())?;
        copy_folder(&self.cache(), &self.kept_cache())
    }

    fn restore_cache(&self) -> Result<()> {
        remove(&self.cache())?;
        copy_folder(&self.kept_cache(), &self.cache())
    }
}

fn compile_host(folder: &Path, progress: &Progress) -> Result<PathBuf> {
    create_folder(folder)?;
    let (source, object) = (folder.join("host.c"), folder.join("host.o"));
    std::fs::write(&source, "int main(void) { return 0; }\n")
        .map_err(|error| Failure::file("write", &source, &error))?;
    let mut clang = Command::new(Path::new(LLVM).join("bin/clang"));
    progress.run(clang.arg("-c").arg(&source).arg("-o").arg(&object))?;
    Ok(object)
}

/// A file or a folder, if it is there.
fn remove(path: &Path) -> Result<()> {
    let removed = if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) };
    match removed {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Failure::file("remove", path, &error)),
        _ => Ok(()),
    }
}

fn copy_folder(from: &Path, to: &Path) -> Result<()> {
    create_folder(to)?;
    let entries = std::fs::read_dir(from).map_err(|error| Failure::file("read", from, &error))?;
    for entry in entries {
        let path = entry.map_err(|error| Failure::file("read", from, &error))?.path();
        let copy = to.join(path.file_name().unwrap_or_default());
        if path.is_dir() {
            copy_folder(&path, &copy)?;
        } else {
            std::fs::copy(&path, &copy).map_err(|error| Failure::file("copy", &path, &error))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_name_in_their_own_order() {
        let names = ["large".to_owned(), "small".to_owned()];
        assert_eq!(chosen(&names).unwrap().iter().map(|case| case.name).collect::<Vec<_>>(), ["small", "large"]);
        assert_eq!(chosen(&[]).unwrap().len(), CASES.len());
        assert!(chosen(&["tiny".to_owned()]).err().unwrap().message.contains("no such case: tiny"));
    }
}
