//! Steps: each says in one line what it does and how long it took.
//!
//! On a terminal the line also shows the time that runs and what the tool last said; in a pipe it stays quiet.
//! What the tools print is kept, and shown only when they fail.

use std::ffi::OsStr;
use std::io::{BufRead, BufReader, IsTerminal, PipeReader, Write};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use crate::failure::{Failure, Result};

static QUIET: AtomicBool = AtomicBool::new(false);

/// From now on steps say nothing, unless a tool fails.
pub fn be_quiet() {
    QUIET.store(true, Ordering::Relaxed);
}

/// How far a step is; threads of one step may share it.
pub struct Progress {
    status: Option<Sender<String>>,
}

/// Runs `work` as one step. The note that it returns is put at the end of the line.
pub fn step<Note: AsRef<str>>(title: &str, work: impl FnOnce(&Progress) -> Result<Note>) -> Result<()> {
    if QUIET.load(Ordering::Relaxed) {
        return work(&Progress { status: None }).map(drop);
    }
    let start = Instant::now();
    print!("  {title} ... ");
    flush();
    let outcome = if std::io::stdout().is_terminal() {
        let (sender, receiver) = channel();
        std::thread::scope(|scope| {
            scope.spawn(|| paint(title, start, receiver));
            // Dropped at the end of the call, which ends the painter.
            let progress = Progress { status: Some(sender) };
            work(&progress)
        })
    } else {
        work(&Progress { status: None })
    };
    let seconds = start.elapsed().as_secs_f64();
    match &outcome {
        Ok(note) if note.as_ref().is_empty() => println!("{seconds:.1} s"),
        Ok(note) => println!("{} ({seconds:.1} s)", note.as_ref()),
        Err(_) => println!("FAILED ({seconds:.1} s)"),
    }
    outcome.map(|_| ())
}

/// Repaints the step's line until the step is over.
fn paint(title: &str, start: Instant, status: Receiver<String>) {
    const CLEAR: &str = "\r\x1b[K";
    // A line longer than the terminal must not wrap: it could not be repainted.
    const NO_WRAP: &str = "\x1b[?7l";
    const WRAP: &str = "\x1b[?7h";
    const INTERVAL: Duration = Duration::from_millis(200);
    let (mut said, mut painted) = (String::new(), Instant::now());
    loop {
        match status.recv_timeout(INTERVAL) {
            Ok(line) => said = line,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break,
        }
        if painted.elapsed() >= INTERVAL {
            print!("{CLEAR}{NO_WRAP}  {title} ... {:.0} s  {said}{WRAP}", start.elapsed().as_secs_f64());
            flush();
            painted = Instant::now();
        }
    }
    print!("{CLEAR}  {title} ... ");
    flush();
}

fn flush() {
    // Nobody is left to tell when the terminal is gone.
    let _ = std::io::stdout().flush();
}

impl Progress {
    /// Runs a tool to its end and returns what it printed, both streams in order.
    pub fn run(&self, command: &mut Command) -> Result<String> {
        let (status, output) = self.status(command)?;
        if status.success() {
            return Ok(output);
        }
        Err(Failure { message: format!("`{}` failed: {status}", shown(command)), output })
    }

    /// The same for a tool whose exit status means something.
    pub fn status(&self, command: &mut Command) -> Result<(ExitStatus, String)> {
        let (mut child, reader) = spawn(command)?;
        let output = self.follow(reader);
        let status = child.wait().map_err(|error| {
            Failure::new(format!("cannot wait for {}: {error}", command.get_program().to_string_lossy()))
        })?;
        Ok((status, output))
    }

    fn follow(&self, reader: PipeReader) -> String {
        let mut output = String::new();
        for line in BufReader::new(reader).split(b'\n').map_while(std::result::Result::ok) {
            let line = String::from_utf8_lossy(&line);
            if let Some(status) = &self.status {
                // The painter lives as long as this sender.
                let _ = status.send(printable(&line));
            }
            output += &line;
            output.push('\n');
        }
        output
    }
}

/// Starts a tool with both its streams in one pipe, so that its output keeps its order.
fn spawn(command: &mut Command) -> Result<(Child, PipeReader)> {
    let (reader, stdout, stderr) = one_pipe().map_err(|error| Failure::new(format!("cannot make a pipe: {error}")))?;
    let child = command.stdin(Stdio::null()).stdout(stdout).stderr(stderr).spawn();
    // The command would keep its ends of the pipe open, and the pipe would never end.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    child.map(|child| (child, reader)).map_err(|error| {
        let program = command.get_program().to_string_lossy();
        Failure::new(format!("cannot run {program}: {error}; `cargo xtask setup` installs what this project needs"))
    })
}

fn one_pipe() -> std::io::Result<(PipeReader, Stdio, Stdio)> {
    let (reader, writer) = std::io::pipe()?;
    Ok((reader, writer.try_clone()?.into(), writer.into()))
}

/// Escape sequences and tabs would move the cursor.
fn printable(line: &str) -> String {
    line.chars().filter(|c| !c.is_control()).collect()
}

/// The command line as a human would type it.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

/// A word that a POSIX shell reads back as it is.
pub fn quoted(word: &OsStr) -> String {
    let word = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+./:,@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        return word.into_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const QUIET: Progress = Progress { status: None };

    #[test]
    fn words_survive_a_shell() {
        assert_eq!(quoted(OsStr::new("-O2")), "-O2");
        assert_eq!(quoted(OsStr::new("")), "''");
        assert_eq!(quoted(OsStr::new("it's $HOME")), "'it'\\''s $HOME'");
    }

    #[test]
    fn failures_keep_the_output() {
        assert_eq!(QUIET.run(Command::new("echo").arg("hello")).unwrap(), "hello\n");
        let failure = QUIET.run(Command::new("ls").arg("/nowhere")).unwrap_err();
        assert_eq!(failure.message, "`ls /nowhere` failed: exit status: 2");
        assert!(failure.output.contains("/nowhere"), "{}", failure.output);
    }

    #[test]
    fn a_missing_tool_is_named() {
        let failure = QUIET.run(&mut Command::new("no-such-tool")).unwrap_err();
        assert!(failure.message.starts_with("cannot run no-such-tool: "), "{}", failure.message);
        assert!(failure.message.contains("cargo xtask setup"), "{}", failure.message);
    }
}
