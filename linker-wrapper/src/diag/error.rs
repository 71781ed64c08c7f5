//! Errors are collected and shown together; each says what to do.

use std::fmt;

use crate::diag::messages;

/// One or more messages, each complete in itself: file, member, offset, and what to do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors(Vec<String>);

impl Errors {
    /// One error.
    pub fn one(message: impl fmt::Display) -> Self {
        Errors(vec![message.to_string()])
    }

    /// Each of them.
    pub fn all(messages: impl IntoIterator<Item = impl fmt::Display>) -> Self {
        Errors(messages.into_iter().map(|message| message.to_string()).collect())
    }

    /// The messages.
    pub fn messages(&self) -> &[String] {
        &self.0
    }

    /// Adds a message.
    pub fn push(&mut self, message: impl fmt::Display) {
        self.0.push(message.to_string());
    }

    /// Adds all of another.
    pub fn extend(&mut self, other: Errors) {
        self.0.extend(other.0);
    }

    /// `Ok(value)` if nothing was collected.
    pub fn or<T>(self, value: T) -> Result<T, Errors> {
        if self.0.is_empty() { Ok(value) } else { Err(self) }
    }

    /// Prints every message once, in order.
    pub fn print(&self, program: &str) {
        for (index, message) in self.0.iter().enumerate() {
            if !self.0[..index].contains(message) {
                messages::show(format_args!("{program}: error: {message}"));
            }
        }
    }
}

impl fmt::Display for Errors {
    /// All messages as one sentence.
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0.join("; "))
    }
}

/// The reason alone: libraries put the path, which our message names already, behind it.
pub fn reason(error: &std::io::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

/// Prints a warning.
pub fn warn(program: &str, message: impl fmt::Display) {
    if messages::warnings_are_shown() {
        messages::show(format_args!("{program}: warning: {message}"));
    }
}

/// Runs all results to their end and collects every error.
pub fn collect<T>(results: impl IntoIterator<Item = Result<T, Errors>>) -> Result<Vec<T>, Errors> {
    let mut values = Vec::new();
    let mut errors = Errors::default();
    for result in results {
        match result {
            Ok(value) => values.push(value),
            Err(error) => errors.extend(error),
        }
    }
    errors.or(values)
}
