//! The program that links, and the environment that it gets.

use std::ffi::OsString;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use fatlink_protocol::{Line, Request, Severity, VERSION};

use crate::cancellation::Cancellation;
use crate::command_line::Prepared;
use crate::diagnostic::Diagnostic;
use crate::error::Error;
use crate::event::Event;
use crate::folder::Folder;
use crate::link::Link;
use crate::linked::Linked;
use crate::pool::{Config, Pool};
use crate::worker::{self, End, Heard};

/// Runs links, each in a process of the program `fatlink`.
///
/// LLVM's options belong to a whole process, and its fatal errors end it: in a process of its own a link disturbs neither its caller nor
/// other links. Threads may share a value, and run links at the same time.
///
/// The process gets none of the caller's environment, and its own folder. It does not outlive the caller.
///
/// ```no_run
/// use fatlink::{Link, Linker};
///
/// let linker = Linker::at("/opt/fatlink/bin/fatlink").cuda("/usr/local/cuda-13.0").ahead(1);
/// let linked = linker.run(&Link::new().file("/build/kernel.o"))?;
/// # Ok::<(), fatlink::Error>(())
/// ```
#[derive(Debug)]
pub struct Linker {
    cuda: Option<PathBuf>,
    pool: Pool,
}

/// The file name of the program.
const PROGRAM: &str = "fatlink";

impl Linker {
    /// Links with the program at this path.
    ///
    /// ```
    /// let linker = fatlink::Linker::at("/opt/fatlink/bin/fatlink");
    /// ```
    pub fn at(program: impl Into<PathBuf>) -> Self {
        let (program, temporary) = (program.into(), PathBuf::from("/tmp"));
        let config = Config { program, variables: Vec::new(), temporary, ahead: 0 };
        Linker { cuda: None, pool: Pool::new(config) }
    }

    /// Links with the program that is installed beside this one: in its folder, or in `bin` beside that.
    ///
    /// ```no_run
    /// let linker = fatlink::Linker::found()?;
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is none.
    pub fn found() -> Result<Self, Error> {
        let own = std::env::current_exe().map_err(|source| Error::File { path: "/proc/self/exe".into(), source })?;
        Self::beside(&own)
    }

    /// Links with the program that is installed beside a file, such as a library: in its folder, or in `bin` beside that.
    ///
    /// ```no_run
    /// let linker = fatlink::Linker::beside("/opt/fatlink/lib/libfatlink.so")?;
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// There is none.
    pub fn beside(file: impl AsRef<Path>) -> Result<Self, Error> {
        let folder = file.as_ref().parent().unwrap_or(Path::new("/"));
        let folders = [Some(folder.to_owned()), folder.parent().map(|parent| parent.join("bin"))];
        let searched: Vec<PathBuf> = folders.into_iter().flatten().collect();
        match searched.iter().map(|folder| folder.join(PROGRAM)).find(|program| program.is_file()) {
            Some(program) => Ok(Self::at(program)),
            None => Err(Error::NoProgram { searched }),
        }
    }

    /// Names the CUDA toolkit, whose ptxas and nvlink links use. Without it, links look where the program does: beside `ptxas` on `PATH`, if
    /// the program gets that variable, and in `/usr/local/cuda`.
    ///
    /// ```
    /// let linker = fatlink::Linker::at("/opt/fatlink/bin/fatlink").cuda("/usr/local/cuda-13.0");
    /// ```
    pub fn cuda(mut self, root: impl Into<PathBuf>) -> Self {
        self.cuda = Some(root.into());
        self
    }

    /// Sets a variable of the program's environment, which is empty otherwise.
    ///
    /// ```
    /// let linker = fatlink::Linker::at("/opt/fatlink/bin/fatlink").variable("LD_LIBRARY_PATH", "/usr/lib/gpu");
    /// ```
    pub fn variable(mut self, name: impl Into<OsString>, value: impl Into<OsString>) -> Self {
        self.pool.config.variables.push((name.into(), value.into()));
        self.pool.discard();
        self
    }

    /// Names the folder for temporary files; without it, `/tmp`. Links leave nothing there.
    ///
    /// ```
    /// let linker = fatlink::Linker::at("/opt/fatlink/bin/fatlink").temporary_files_in("/var/tmp");
    /// ```
    pub fn temporary_files_in(mut self, folder: impl Into<PathBuf>) -> Self {
        self.pool.config.temporary = folder.into();
        self.pool.discard();
        self
    }

    /// Keeps this many processes ready, so that a link need not wait until one has started and LLVM is prepared. Each takes some 20 MB of
    /// memory until it gets a link; each link takes one, and a thread starts another. The first are started by [`Linker::prepare`] or by the
    /// first link. The process and the temporary files of a link that was not cancelled are removed by the thread, too, at the latest when
    /// the linker is dropped.
    ///
    /// ```
    /// let linker = fatlink::Linker::at("/opt/fatlink/bin/fatlink").ahead(2);
    /// ```
    pub fn ahead(mut self, processes: usize) -> Self {
        self.pool.config.ahead = processes;
        self
    }

    /// Starts the processes that [`Linker::ahead`] keeps ready, without waiting until they are.
    ///
    /// ```no_run
    /// let linker = fatlink::Linker::at("/opt/fatlink/bin/fatlink").ahead(2);
    /// linker.prepare()?;
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// The program cannot be started, or there is no place for its folder.
    pub fn prepare(&self) -> Result<(), Error> {
        self.pool.prepare()
    }

    /// Runs a link, and returns what it has made. All that it has started has ended then, and its temporary files are gone; with
    /// [`Linker::ahead`], soon after.
    ///
    /// ```no_run
    /// # use fatlink::{Link, Linker};
    /// let linked = Linker::at("/opt/fatlink/bin/fatlink").run(&Link::new().file("/build/kernel.o"))?;
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// The link failed or was cancelled, or the program could not run it.
    pub fn run(&self, link: &Link) -> Result<Linked, Error> {
        if link.cancellation.as_ref().is_some_and(Cancellation::is_cancelled) {
            return Err(Error::Cancelled);
        }
        let mut seat = self.pool.seat()?;
        let prepared = link.prepare(&seat.folder, self.cuda.as_deref())?;
        let request = Request { version: VERSION, arguments: prepared.words.clone() };
        let mut heard = Listener { link, prepared: &prepared, diagnostics: Vec::new() };
        let end = seat.worker.run(&request, link.cancellation.as_ref(), &mut |said| heard.hear(said));
        let diagnostics = heard.diagnostics;
        if matches!(end, End::Cancelled) {
            // All of it is gone when this returns.
            drop(seat);
            return Err(Error::Cancelled);
        }
        let linked = self.linked(link, &seat.folder, end, (diagnostics, &prepared));
        self.pool.renew(seat);
        linked
    }

    /// What the link has made, or why it has made nothing.
    fn linked(
        &self,
        link: &Link,
        folder: &Folder,
        end: End,
        (diagnostics, prepared): (Vec<Diagnostic>, &Prepared),
    ) -> Result<Linked, Error> {
        match end {
            End::Done(0) if !link.has_image(folder) => Err(Error::Failed { diagnostics: without_code(diagnostics) }),
            End::Done(0) => {
                let results = link.results(folder)?;
                let report = results.report.map(|report| String::from_utf8_lossy(&report).into_owned());
                Ok(Linked { image: results.image, registration: results.registration, report, diagnostics })
            }
            End::Done(code) => Err(Error::Failed { diagnostics: with_error(diagnostics, code) }),
            End::Cancelled => Err(Error::Cancelled),
            End::Foreign => {
                let program = self.pool.config.program.clone();
                Err(Error::OtherRelease { program, version: env!("CARGO_PKG_VERSION") })
            }
            End::Died { status, text } => {
                Err(Error::Failed { diagnostics: died(diagnostics, status, &text, prepared) })
            }
        }
    }
}

impl Link {
    /// Runs the link with the program that [`Linker::found`] finds.
    ///
    /// ```no_run
    /// # use fatlink::Link;
    /// let linked = Link::new().file("/build/kernel.o").run()?;
    /// println!("{} bytes", linked.image.len());
    /// # Ok::<(), fatlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of [`Linker::found`] and [`Linker::run`].
    pub fn run(&self) -> Result<Linked, Error> {
        Linker::found()?.run(self)
    }
}

/// Hears what the process of a link says.
struct Listener<'l> {
    link: &'l Link,
    prepared: &'l Prepared,
    diagnostics: Vec<Diagnostic>,
}

impl Listener<'_> {
    fn hear(&mut self, heard: Heard) -> ControlFlow<()> {
        let observer = &self.link.observer;
        match heard {
            Heard::Nothing => observer.see(&Event::Waiting),
            Heard::Line(Line::Jobs { done, known }) => observer.see(&Event::Jobs { done, known }),
            Heard::Line(Line::Message { severity, text }) => {
                let diagnostic = Diagnostic::of(severity, self.prepared.with_names(text), &self.prepared.names);
                let flow = observer.see(&Event::Diagnostic(&diagnostic));
                self.diagnostics.push(diagnostic);
                flow
            }
            Heard::Line(Line::Ready { .. } | Line::Done { .. }) => ControlFlow::Continue(()),
        }
    }
}

fn without_code(mut diagnostics: Vec<Diagnostic>) -> Vec<Diagnostic> {
    let what = "no unit of the link has device code; compile them with -fgpu-rdc and an --offload-arch, and give the target of bitcode";
    diagnostics.push(Diagnostic::error(what.to_owned()));
    diagnostics
}

/// A failed link has an error.
fn with_error(mut diagnostics: Vec<Diagnostic>, code: u8) -> Vec<Diagnostic> {
    if diagnostics.iter().all(|diagnostic| diagnostic.severity != Severity::Error) {
        diagnostics.push(Diagnostic::error(format!("the link failed with exit code {code}")));
    }
    diagnostics
}

/// The errors of a process that ended without a last line. After a crash a copy of it prints what has happened.
fn died(
    mut diagnostics: Vec<Diagnostic>,
    status: Option<std::process::ExitStatus>,
    text: &str,
    prepared: &Prepared,
) -> Vec<Diagnostic> {
    let printed: Vec<&str> =
        text.lines().filter_map(|line| line.split_once(": error: ").map(|(_, text)| text)).collect();
    for text in &printed {
        let text = prepared.with_names((*text).to_owned());
        diagnostics.push(Diagnostic::of(Severity::Error, text, &prepared.names));
    }
    if printed.is_empty() {
        let ending = worker::ending(status);
        let separator = if text.is_empty() { "" } else { ": " };
        diagnostics.push(Diagnostic::error(format!("the process of the link ended early ({ending}){separator}{text}")));
    }
    diagnostics
}
