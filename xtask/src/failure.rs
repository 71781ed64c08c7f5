//! Why a command could not do its work.

use std::fmt;
use std::path::Path;

/// What a command of xtask returns.
pub type Result<T> = std::result::Result<T, Failure>;

/// An error, with the output of the tool that failed.
#[derive(Debug)]
pub struct Failure {
    /// One sentence or two for a human.
    pub message: String,
    /// All that a failed tool printed; empty where no tool was involved.
    pub output: String,
}

impl Failure {
    /// An error that no tool's output explains further.
    pub fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), output: String::new() }
    }

    /// A file operation that failed: `action` is what was tried, such as "create".
    pub fn file(action: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::new(format!("cannot {action} {}: {error}", path.display()))
    }

    /// Replaces the message by `what` and the first error in the output, where compilers put the cause.
    pub fn led_by(self, what: &str) -> Self {
        let first = self.output.lines().find(|line| line.starts_with("error"));
        let first = first.map(|line| line.strip_prefix("error: ").unwrap_or(line));
        let message = format!("{what}: {}", first.unwrap_or(&self.message));
        Self { message, output: self.output }
    }

    /// The last line of the output that reports an error, or else the last line.
    pub fn tool_error(&self) -> &str {
        let lines = || self.output.lines().rev().map(str::trim).filter(|line| !line.is_empty());
        lines()
            .find(|line| ["E:", "ERROR:", "error:"].iter().any(|mark| line.starts_with(mark)))
            .or_else(|| lines().next())
            .unwrap_or(&self.message)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.output.is_empty() {
            writeln!(f, "{}\n", self.output.trim_end())?;
        }
        write!(f, "error: {}", self.message)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tool_error_is_the_last_line_that_says_so() {
        let failure = Failure { message: String::new(), output: "a\nERROR: first\nERROR: last\nnotice\n".into() };
        assert_eq!(failure.tool_error(), "ERROR: last");
        let failure = Failure { message: String::new(), output: "a\nkilled\n\n".into() };
        assert_eq!(failure.tool_error(), "killed");
    }
}
