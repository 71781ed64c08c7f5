//! The process that runs one link: the program `fatlink`, which reads the link from standard input and writes lines of JSON.
//!
//! Nothing here touches what a whole process has: no signal handler, no environment, no current folder. The caller may ignore SIGCHLD or
//! wait for any child itself, and the default of SIGPIPE may be in effect.

use std::fs::File;
use std::io::Read;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use fatlink_protocol::{Line, Request, VERSION};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{SendFlags, send};
use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, kill_process_group, test_kill_process_group, waitid};

use crate::cancellation::{Cancellation, is_readable};
use crate::error::Error;
use crate::folder::Folder;

/// How long a cancelled link may take to end what it has started, before it is killed.
const FAREWELL: Duration = Duration::from_millis(100);

/// How long, from the cancellation on, a link waits until what it has killed is gone.
const LAST_MOMENT: Duration = Duration::from_millis(150);

/// How often a caller that observes the link hears that nothing has happened.
const TICK: Duration = Duration::from_millis(50);

/// How much of what a process prints outside of its lines is kept, for the error about its death.
const KEPT_TEXT: usize = 64 << 10;

/// What a process says, or that it says nothing.
pub enum Heard {
    /// One of its lines.
    Line(Line),
    /// Nothing for [`TICK`].
    Nothing,
}

/// How the process ended, as far as it matters.
pub enum End {
    /// It said that it was done, with this exit code.
    Done(u8),
    /// It was cancelled.
    Cancelled,
    /// It is no program of this protocol.
    Foreign,
    /// It ended without a last line.
    Died {
        /// How, if nobody else waited for it.
        status: Option<ExitStatus>,
        /// What it printed.
        text: String,
    },
}

/// What a process still has to do before it may be killed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    /// A link, which would leave files.
    Link,
    /// It ends by itself, so that its exit code tells why.
    End,
    /// It has said its last line. LLVM's destructors would take some milliseconds.
    Nothing,
}

/// A process that waits for a link or runs it. Dropping it ends the process and all that it has started.
#[derive(Debug)]
pub struct Worker {
    child: Child,
    /// Its standard input, a socket: a write to a socket can do without SIGPIPE.
    request: UnixStream,
    stdout: Option<File>,
    stderr: Option<File>,
    /// Bytes of a line that is not complete.
    partial: Vec<u8>,
    /// What is no line of the protocol.
    text: Vec<u8>,
    is_ready: bool,
    /// What it still has to do.
    rest: Rest,
    is_over: bool,
}

impl Worker {
    /// Starts the program in this folder, which is also its place for temporary files, with these variables alone in its environment. `flag` is one of the protocol.
    pub fn start(
        flag: &str,
        program: &Path,
        folder: &Folder,
        variables: &[(std::ffi::OsString, std::ffi::OsString)],
    ) -> Result<Self, Error> {
        let cannot = |source| Error::Start { program: program.to_owned(), source };
        let (request, theirs) = UnixStream::pair().map_err(cannot)?;
        let mut command = Command::new(program);
        command.arg0("fatlink").arg(flag).current_dir(folder.path()).env_clear();
        command.envs(variables.iter().map(|(name, value)| (name, value))).env("TMPDIR", folder.path());
        command.stdin(Stdio::from(OwnedFd::from(theirs))).stdout(Stdio::piped()).stderr(Stdio::piped());
        // A group of its own, so that it can be killed with all that it has started.
        let mut child = command.process_group(0).spawn().map_err(cannot)?;
        let stdout = child.stdout.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let stderr = child.stderr.take().map(|pipe| File::from(OwnedFd::from(pipe)));
        let (partial, text) = (Vec::new(), Vec::new());
        Ok(Worker { child, request, stdout, stderr, partial, text, is_ready: false, rest: Rest::Link, is_over: false })
    }

    /// Whether the process still waits, so that it can get a link.
    pub fn is_alive(&self) -> bool {
        !self.has_ended()
    }

    /// Runs a link, and passes what the process says to `hear`, which may end the link.
    pub fn run(
        &mut self,
        request: &Request,
        cancellation: Option<&Cancellation>,
        hear: &mut dyn FnMut(Heard) -> ControlFlow<()>,
    ) -> End {
        let sent = serde_json::to_vec(request).is_ok_and(|mut text| {
            text.push(b'\n');
            self.send(&text)
        });
        let mut code = None;
        // Without a request there is nothing to hear but the reason.
        while self.stdout.is_some() || self.stderr.is_some() {
            if cancellation.is_some_and(Cancellation::is_cancelled) {
                return End::Cancelled;
            }
            if !self.wait(cancellation) && sent && hear(Heard::Nothing).is_break() {
                return End::Cancelled;
            }
            self.read();
            for line in self.lines() {
                match line {
                    Line::Ready { version } if version != VERSION => return End::Foreign,
                    Line::Ready { .. } => self.is_ready = true,
                    Line::Done { code: ended } => code = Some(ended),
                    line => {
                        if hear(Heard::Line(line)).is_break() {
                            return End::Cancelled;
                        }
                    }
                }
            }
            if let Some(code) = code {
                self.rest = Rest::Nothing;
                return End::Done(code);
            }
        }
        self.rest = Rest::End;
        let status = self.end();
        // A program of this protocol says that it is ready before it can exit.
        if !self.is_ready && status.is_none_or(|status| status.code().is_some()) {
            return End::Foreign;
        }
        End::Died { status, text: String::from_utf8_lossy(&self.text).trim().to_owned() }
    }

    /// Returns false if nobody reads any more.
    fn send(&self, mut text: &[u8]) -> bool {
        while !text.is_empty() {
            match send(&self.request, text, SendFlags::NOSIGNAL) {
                Ok(sent) => text = text.get(sent..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(_) => return false,
            }
        }
        true
    }

    /// Waits for output or the cancellation; returns false if there was neither for a while.
    fn wait(&self, cancellation: Option<&Cancellation>) -> bool {
        let outputs = [&self.stdout, &self.stderr].into_iter().flatten().map(AsFd::as_fd);
        let all = outputs.chain(cancellation.map(Cancellation::fd));
        let mut polled: Vec<PollFd<'_>> = all.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
        // A signal that the caller handles is no event here.
        !matches!(poll(&mut polled, Timespec::try_from(TICK).ok().as_ref()), Ok(0))
    }

    /// Reads what there is.
    fn read(&mut self) {
        drain(&mut self.stdout, &mut self.partial);
        drain(&mut self.stderr, &mut self.text);
        let surplus = self.text.len().saturating_sub(KEPT_TEXT);
        self.text.drain(..surplus);
    }

    /// Takes the lines that are complete.
    fn lines(&mut self) -> Vec<Line> {
        let Some(end) = self.partial.iter().rposition(|byte| *byte == b'\n') else { return Vec::new() };
        let rest = self.partial.split_off(end + 1);
        let complete = std::mem::replace(&mut self.partial, rest);
        let mut lines = Vec::new();
        for line in complete.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice(line) {
                Ok(line) => lines.push(line),
                // What a library in the process prints, such as LLVM.
                Err(_) => self.text.extend([line, b"\n"].concat()),
            }
        }
        lines
    }

    /// Whether the process has ended, without reaping it: its number stays its own.
    fn has_ended(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
        match self.pid().map(|pid| waitid(WaitId::Pid(pid), options)) {
            Some(Ok(status)) => status.is_some(),
            // Somebody else has waited for it.
            Some(Err(_)) | None => true,
        }
    }

    fn pid(&self) -> Option<Pid> {
        i32::try_from(self.child.id()).ok().and_then(Pid::from_raw)
    }

    /// Ends the process, with all that it has started, and returns how it ended.
    fn end(&mut self) -> Option<ExitStatus> {
        if std::mem::replace(&mut self.is_over, true) {
            return None;
        }
        let signal = |signal| self.pid().map(|group| kill_process_group(group, signal));
        let start = Instant::now();
        if self.rest == Rest::Link && !self.has_ended() {
            // It ends its children, removes its files and returns what it has of make's jobserver.
            signal(Signal::TERM);
        }
        while self.rest != Rest::Nothing && !self.has_ended() && start.elapsed() < FAREWELL {
            std::thread::sleep(Duration::from_millis(1));
        }
        // Before the process is reaped: until then no other group can have its number.
        signal(Signal::KILL);
        let status = self.child.wait().ok();
        // What was killed takes a moment to die.
        while self.pid().is_some_and(|group| test_kill_process_group(group).is_ok()) && start.elapsed() < LAST_MOMENT {
            std::thread::sleep(Duration::from_millis(1));
        }
        status
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.end();
    }
}

/// How a process ended, for an error.
pub fn ending(status: Option<ExitStatus>) -> String {
    match status.map(|status| (status.code(), status.signal())) {
        Some((Some(code), _)) => format!("exit code {code}"),
        Some((None, Some(signal))) => format!("killed by signal {signal}"),
        Some((None, None)) | None => "it is not known how".to_owned(),
    }
}

/// Reads some of a pipe's contents if there are any, and closes it at its end.
fn drain(pipe: &mut Option<File>, into: &mut Vec<u8>) {
    let Some(open) = pipe.as_mut().filter(|open| is_readable(open.as_fd())) else { return };
    let mut buffer = [0; 16 * 1024];
    match open.read(&mut buffer) {
        Ok(0) => *pipe = None,
        Ok(read) => into.extend_from_slice(&buffer[..read]),
        Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
        Err(_) => *pipe = None,
    }
}
