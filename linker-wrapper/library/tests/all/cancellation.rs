//! A link that is cancelled ends at once, with all that it has started, and leaves no file.

use std::ops::ControlFlow;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::{SAMPLES, cuda, entries, folder, processes_with, program};
use fatlink::{Cancellation, Error, Event, Link, Linker};
use tempfile::TempDir;

/// More than a cancellation ever takes, whatever else the machine does; benchmarks measure it.
const LONGEST: Duration = Duration::from_secs(60);

/// A toolkit like the real one, whose ptxas tells its version and otherwise never ends: it writes to the private folder of the link, starts a
/// process of its own, and ignores SIGTERM.
fn endless_toolkit() -> TempDir {
    let toolkit = folder();
    for entry in entries(&cuda()) {
        let name = entry.file_name().unwrap().to_owned();
        if name != "bin" {
            std::os::unix::fs::symlink(&entry, toolkit.path().join(name)).unwrap();
        }
    }
    let bin = toolkit.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    for entry in entries(&cuda().join("bin")) {
        let name = entry.file_name().unwrap().to_owned();
        if name != "ptxas" {
            std::os::unix::fs::symlink(&entry, bin.join(name)).unwrap();
        }
    }
    let script = format!(
        "#!/bin/sh\n[ \"$1\" = --version ] && exec {}/bin/ptxas --version\ntrap '' TERM\ntouch {}/started\n\
         while :; do sleep 0.01; echo more >> \"$TMPDIR/more\"; done\n",
        cuda().display(),
        toolkit.path().display()
    );
    let ptxas = bin.join("ptxas");
    std::fs::write(&ptxas, script).unwrap();
    std::fs::set_permissions(&ptxas, std::fs::Permissions::from_mode(0o755)).unwrap();
    toolkit
}

fn link() -> Link {
    Link::new().file(SAMPLES.path("kernel.o")).file(SAMPLES.path("helper.o"))
}

fn endless_linker(toolkit: &Path, temporary: &Path) -> Linker {
    Linker::at(program()).cuda(toolkit).variable("PATH", "/usr/bin:/bin").temporary_files_in(temporary)
}

/// No file of the link is left, and soon no process: those that were killed may take a moment to disappear.
fn nothing_is_left(toolkit: &Path, temporary: &Path) {
    assert_eq!(entries(temporary), Vec::<std::path::PathBuf>::new());
    for folder in [toolkit, temporary] {
        assert_eq!(processes_with(folder.as_os_str()), Vec::<String>::new());
    }
}

fn wait_until_ptxas_runs(toolkit: &Path) {
    let start = Instant::now();
    while !toolkit.join("started").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "ptxas was not started");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn another_thread_cancels_a_link() {
    let (toolkit, temporary) = (endless_toolkit(), folder());
    let linker = endless_linker(toolkit.path(), temporary.path());
    let cancellation = Cancellation::new().unwrap();
    let link = link().cancelled_by(&cancellation);
    let running = std::thread::spawn(move || (linker.run(&link), Instant::now()));
    wait_until_ptxas_runs(toolkit.path());
    let start = Instant::now();
    cancellation.cancel();
    let (result, end) = running.join().unwrap();
    nothing_is_left(toolkit.path(), temporary.path());
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert!(end - start < LONGEST, "{:?}", end - start);
    // Links that have not begun are cancelled, too.
    let late = Linker::at("/no/such/program").run(&Link::new().cancelled_by(&cancellation));
    assert!(matches!(late, Err(Error::Cancelled)));
}

#[test]
fn the_observer_cancels_a_link() {
    let (toolkit, temporary) = (endless_toolkit(), folder());
    let linker = endless_linker(toolkit.path(), temporary.path());
    let (started, cancelled) = (toolkit.path().join("started"), Arc::new(Mutex::new(None)));
    let noted = Arc::clone(&cancelled);
    let link = link().observed_by(move |event| {
        if !matches!(event, Event::Waiting) || !started.exists() {
            return ControlFlow::Continue(());
        }
        *noted.lock().unwrap() = Some(Instant::now());
        ControlFlow::Break(())
    });
    let result = linker.run(&link);
    let took = cancelled.lock().unwrap().unwrap().elapsed();
    nothing_is_left(toolkit.path(), temporary.path());
    assert!(matches!(result, Err(Error::Cancelled)), "{result:?}");
    assert!(took < LONGEST, "{took:?}");
}

/// What a process does that [`a_link_does_not_outlive_its_caller`] kills.
#[test]
fn a_caller_that_waits_forever() {
    let Some(toolkit) = std::env::var_os("ENDLESS_TOOLKIT") else { return };
    let temporary = std::env::var_os("ENDLESS_TEMPORARY").unwrap();
    let result = endless_linker(Path::new(&toolkit), Path::new(&temporary)).run(&link());
    panic!("{result:?}");
}

#[test]
fn a_link_does_not_outlive_its_caller() {
    let (toolkit, temporary) = (endless_toolkit(), folder());
    let mut caller = Command::new(std::env::current_exe().unwrap());
    caller.args(["--exact", "cancellation::a_caller_that_waits_forever"]);
    caller.env("ENDLESS_TOOLKIT", toolkit.path()).env("ENDLESS_TEMPORARY", temporary.path());
    let mut caller = caller.spawn().unwrap();
    wait_until_ptxas_runs(toolkit.path());
    caller.kill().unwrap();
    caller.wait().unwrap();
    let start = Instant::now();
    while !processes_with(toolkit.path().as_os_str()).is_empty() && start.elapsed() < Duration::from_secs(60) {
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(processes_with(toolkit.path().as_os_str()), Vec::<String>::new());
    // The private folder stays, as nobody is left who could remove it, but not the files of the link.
    let private = entries(temporary.path());
    assert_eq!(private.len(), 1);
    assert_eq!(entries(&private[0]), Vec::<std::path::PathBuf>::new());
}

#[test]
fn processes_that_wait_end_with_their_linker() {
    let temporary = folder();
    let linker = Linker::at(program()).temporary_files_in(temporary.path()).ahead(3);
    linker.prepare().unwrap();
    assert_eq!(entries(temporary.path()).len(), 3);
    drop(linker);
    assert_eq!(entries(temporary.path()).len(), 0);
}
