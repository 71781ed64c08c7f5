//! The fork server, a copy of this program that prepares for tasks once and forks a process for each of them: such a process begins where
//! the server is, and does not start, load and prepare anything again.
//!
//! The server gets a task by a message on a socket, its standard input: one argument, with three pipes. Two become the standard output and
//! standard error of the task's process. Into the third the server writes the wait status of that process when it ends. The server ends
//! when the other end of the socket is closed.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, IoSlice, IoSliceMut, Write, pipe};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, SocketFlags, SocketType, recvmsg, sendmsg, socketpair,
};
use rustix::process::{
    Pid, PidfdFlags, Signal, WaitOptions, getpid, getppid, pidfd_open, set_parent_process_death_signal, waitpid,
};
use rustix::stdio::{dup2_stderr, dup2_stdin, dup2_stdout};

use crate::sys::process::watch::{self, Tool, Watched};
use crate::sys::process::{Ended, Running, itself, pass_on_lines, spawn, stand_still_if_ending};

/// The longest argument of a task, in bytes: the path of a file.
const LONGEST: usize = 16 << 10;

/// The number of pipes of a task.
const PIPES: usize = 3;

/// The fork server of a link, which starts with its first task.
#[derive(Default)]
pub struct ForkServer(OnceLock<Option<Started>>);

struct Started {
    arguments: Vec<OsString>,
    /// Closed before the server is waited for.
    socket: Option<OwnedFd>,
    child: Child,
    running: Option<Running>,
}

impl ForkServer {
    /// Runs a task to its end, and passes each line of its standard output to `line` as soon as it is written. `arguments`, which say what
    /// the server prepares for, start it. `None` if it was started with other arguments, or does not run, or no longer: the task may have
    /// run in part.
    pub fn run(&self, arguments: &[OsString], task: &OsStr, line: &mut dyn FnMut(&[u8])) -> Option<Ended> {
        let started = self.0.get_or_init(|| Started::new(arguments).ok()).as_ref()?;
        let socket = started.socket.as_ref().filter(|_| started.arguments == arguments)?;
        let tool = send(socket, task).ok()?;
        let Watched { stdout, stderr, told, .. } =
            watch::until_the_end(tool, Duration::MAX, &mut |output| pass_on_lines(output, line));
        stand_still_if_ending();
        Some(Ended { status: told?, stdout, stderr })
    }
}

impl Started {
    fn new(arguments: &[OsString]) -> io::Result<Self> {
        let (own, other) = socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?;
        let mut command = Command::new(itself());
        // What is wrong with the server shows where a task runs without it.
        command.args(arguments).stdin(Stdio::from(other)).stdout(Stdio::null()).stderr(Stdio::null());
        let (child, running) = spawn(&mut command)?;
        Ok(Started { arguments: arguments.to_vec(), socket: Some(own), child, running: Some(running) })
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        self.socket = None;
        // Before its number may be reused.
        self.running = None;
        // Nothing depends on how it ends.
        let _ = self.child.wait();
    }
}

/// Sends a task with the writing ends of its pipes.
fn send(socket: &OwnedFd, task: &OsStr) -> io::Result<Tool> {
    if task.is_empty() || task.len() > LONGEST {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let ((stdout, out), (stderr, err), (end, told)) = (pipe()?, pipe()?, pipe()?);
    let pipes = [out.as_fd(), err.as_fd(), told.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PIPES))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    ancillary.push(SendAncillaryMessage::ScmRights(&pipes));
    // Where the server is gone, that is an error instead of a signal. A message is sent whole.
    sendmsg(socket, &[IoSlice::new(task.as_bytes())], &mut ancillary, SendFlags::NOSIGNAL)?;
    Ok(Tool::elsewhere(stdout.into(), stderr.into(), end.into()))
}

/// The process of a task, in the server that forked it.
struct Forked {
    pid: Pid,
    /// Readable when it has ended. Kernels before 5.3 do not have it.
    end: Option<OwnedFd>,
    told: File,
}

/// How long the server waits for processes whose end it is not told.
const PAUSE: Timespec = Timespec { tv_sec: 0, tv_nsec: 10_000_000 };

/// Serves tasks until the socket, standard input, is closed, and returns the exit code: in the server, and in each forked process, where
/// `run` has run the task. This process must have no other threads.
pub fn serve(run: &dyn Fn(OsString) -> u8) -> u8 {
    let mut all: Vec<Forked> = Vec::new();
    let own = getpid();
    loop {
        wait(&all);
        all.retain_mut(Forked::is_running);
        let (task, pipes) = match receive() {
            Ok(Some(received)) => received,
            Ok(None) => return 0,
            Err(error) if [io::ErrorKind::WouldBlock, io::ErrorKind::Interrupted].contains(&error.kind()) => continue,
            Err(_) => return 1,
        };
        match fork::fork() {
            Ok(fork::Fork::Parent(pid)) => all.extend(Forked::new(pid, pipes)),
            Ok(fork::Fork::Child) => {
                drop(all);
                return if connect(pipes, own).is_ok() { run(task) } else { 1 };
            }
            // The pipes are closed, which shows that the task did not run.
            Err(_) => {}
        }
    }
}

/// Waits for a task or the end of a process.
fn wait(all: &[Forked]) {
    let socket = rustix::stdio::stdin();
    let ends = all.iter().filter_map(|forked| forked.end.as_ref()).map(AsFd::as_fd);
    let mut events: Vec<PollFd<'_>> =
        ends.chain([socket]).map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)).collect();
    let is_told = all.iter().all(|forked| forked.end.is_some());
    // A signal ends the wait early, which is harmless.
    let _ = poll(&mut events, (!is_told).then_some(&PAUSE));
}

/// Returns the next task with its pipes, if there is one; `None` if there will be no more.
fn receive() -> io::Result<Option<(OsString, [OwnedFd; PIPES])>> {
    let mut task = vec![0; LONGEST];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PIPES))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let received = recvmsg(rustix::stdio::stdin(), &mut [IoSliceMut::new(&mut task)], &mut ancillary, flags)?;
    if received.bytes == 0 {
        return Ok(None);
    }
    task.truncate(received.bytes);
    let rights = |message| match message {
        RecvAncillaryMessage::ScmRights(pipes) => Some(pipes),
        _ => None,
    };
    let pipes: Vec<OwnedFd> = ancillary.drain().filter_map(rights).flatten().collect();
    let pipes = pipes.try_into().map_err(|_| io::ErrorKind::InvalidData)?;
    Ok(Some((OsString::from_vec(task), pipes)))
}

/// Connects a process that `server` has forked to the pipes of its task.
fn connect([out, err, _]: [OwnedFd; PIPES], server: Pid) -> io::Result<()> {
    // Nobody needs the result of a process whose server was killed.
    set_parent_process_death_signal(Some(Signal::TERM))?;
    if getppid() != Some(server) {
        return Err(io::ErrorKind::BrokenPipe.into());
    }
    dup2_stdin(File::open("/dev/null")?)?;
    dup2_stdout(out)?;
    Ok(dup2_stderr(err)?)
}

impl Forked {
    fn new(pid: i32, [_, _, told]: [OwnedFd; PIPES]) -> Option<Self> {
        let pid = Pid::from_raw(pid)?;
        Some(Forked { pid, end: pidfd_open(pid, PidfdFlags::empty()).ok(), told: told.into() })
    }

    /// Whether the process runs. If it has ended, its status is told.
    fn is_running(&mut self) -> bool {
        match waitpid(Some(self.pid), WaitOptions::NOHANG) {
            Ok(None) => true,
            Ok(Some((_, status))) => {
                // Whoever waited for it is gone.
                let _ = self.told.write_all(&status.as_raw().to_ne_bytes());
                false
            }
            Err(error) => error == rustix::io::Errno::INTR,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use rustix::fs::{FileType, fstat};
    use rustix::process::kill_process;

    use super::*;

    /// Is the server of the other tests where the socket is standard input.
    #[test]
    #[expect(clippy::exit, reason = "the thread of the test is the only one of a forked process")]
    fn serves() {
        let stdin = fstat(rustix::stdio::stdin()).unwrap();
        if FileType::from_raw_mode(stdin.st_mode) == FileType::Socket {
            let code = serve(&|task| match task.to_str() {
                Some("abort") => std::process::abort(),
                Some(words) => {
                    rustix::io::write(rustix::stdio::stderr(), b"complaint").unwrap();
                    rustix::io::write(rustix::stdio::stdout(), words.as_bytes()).unwrap();
                    7
                }
                None => 1,
            });
            std::process::exit(code.into());
        }
    }

    fn run(server: &ForkServer, task: &str) -> Option<(Vec<String>, Ended)> {
        let name = module_path!().split_once("::").unwrap().1;
        let arguments = [format!("{name}::serves"), "--exact".to_owned(), "--nocapture".to_owned()].map(OsString::from);
        let mut lines = Vec::new();
        let ended = server
            .run(&arguments, OsStr::new(task), &mut |line| lines.push(String::from_utf8_lossy(line).into_owned()))?;
        Some((lines, ended))
    }

    #[test]
    fn each_task_has_a_process_of_its_own() {
        let server = ForkServer::default();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let (lines, ended) = run(&server, "one\ntwo\nrest").unwrap();
                    assert_eq!((lines, ended.status.code()), (vec!["one".to_owned(), "two".to_owned()], Some(7)));
                    assert_eq!((&*ended.stdout, &*ended.stderr), (&b"rest"[..], &b"complaint"[..]));
                });
            }
        });
        let (_, ended) = run(&server, "abort").unwrap();
        assert_eq!(ended.status.signal(), Some(Signal::ABORT.as_raw()));
        assert_eq!(run(&server, "after a crash").unwrap().1.status.code(), Some(7));
    }

    #[test]
    fn without_the_server_nothing_runs() {
        let server = ForkServer::default();
        run(&server, "once").unwrap();
        let child = &server.0.get().unwrap().as_ref().unwrap().child;
        kill_process(Pid::from_child(child), Signal::KILL).unwrap();
        assert!(run(&server, "again").is_none());
        assert!(run(&server, "and again").is_none());
        assert!(run(&ForkServer::default(), &"x".repeat(LONGEST + 1)).is_none());
    }

    #[test]
    fn a_server_with_other_arguments_does_not_run_the_task() {
        let server = ForkServer::default();
        run(&server, "once").unwrap();
        assert!(server.run(&["--other".into()], OsStr::new("once"), &mut |_| {}).is_none());
    }
}
