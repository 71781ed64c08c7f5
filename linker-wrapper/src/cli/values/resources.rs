//! How much of the machine a link may use, where its results are kept, and what is measured.

use std::time::Duration;

use crate::cli::error::Error;
use crate::diag::byte_size;

/// `--wrapper-jobs=`: how many device link jobs run at a time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Jobs {
    /// One per core.
    #[default]
    Cores,
    /// So many.
    Number(usize),
    /// As many as the jobserver of the `make` that started this link allows.
    Jobserver,
}

impl Jobs {
    /// Reads the option's value.
    ///
    /// # Errors
    /// Anything but `jobserver` and a positive number.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text.parse() {
            Ok(jobs) if jobs > 0 => Ok(Jobs::Number(jobs)),
            _ if text == "jobserver" => Ok(Jobs::Jobserver),
            _ => Err(Error::value("--wrapper-jobs=", "a positive integer or 'jobserver'", text)),
        }
    }
}

/// `--offload-memory=`: the memory that jobs may use at the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MemoryChoice {
    /// So many bytes.
    Bytes(u64),
    /// Percentage of the memory that is free at the start, 1 to 100.
    Percent(u64),
}

impl MemoryChoice {
    /// Reads the option's value: `8G`, `512M` or `50%`.
    ///
    /// # Errors
    /// Anything else, or no memory at all.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let choice = match text.strip_suffix('%') {
            Some(number) => {
                let percent = number.parse().ok().filter(|percent| (1..=100).contains(percent));
                percent.map(MemoryChoice::Percent)
            }
            None => byte_size::parse(text).filter(|bytes| *bytes > 0).map(MemoryChoice::Bytes),
        };
        choice.ok_or_else(|| Error::value("--offload-memory=", "a size such as 8G, or 1% to 100%", text))
    }
}

/// `--offload-partition-size=`: how device code is cut into jobs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Partitioning {
    /// Into jobs of the default size, where the program is large enough.
    #[default]
    Usual,
    /// Into jobs of about this many instructions.
    Size(u64),
    /// Not at all.
    Whole,
}

impl Partitioning {
    /// Reads the option's value.
    ///
    /// # Errors
    /// Anything but `whole` and a positive number.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text.parse() {
            Ok(size) if size > 0 => Ok(Partitioning::Size(size)),
            _ if text == "whole" => Ok(Partitioning::Whole),
            _ => Err(Error::value("--offload-partition-size=", "a number of instructions or 'whole'", text)),
        }
    }
}

/// Reads the value of `--offload-cache-size=`, in bytes.
///
/// # Errors
/// Anything but a positive size.
pub fn cache_size(text: &str) -> Result<u64, Error> {
    match byte_size::parse(text) {
        Some(bytes) if bytes > 0 => Ok(bytes),
        _ => Err(Error::value("--offload-cache-size=", "a size such as 500M or 10G", text)),
    }
}

/// `--offload-stats=`: the form of the statistics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StatsFormat {
    /// For people.
    Text,
    /// For programs.
    Json,
}

impl StatsFormat {
    /// Reads the option's value; without one it means text.
    ///
    /// # Errors
    /// Another word.
    pub fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "" | "text" => Ok(StatsFormat::Text),
            "json" => Ok(StatsFormat::Json),
            _ => Err(Error::value("--offload-stats=", "'text' or 'json'", text)),
        }
    }
}

/// Reads the value of `--wrapper-time-trace-granularity=`.
///
/// # Errors
/// Anything but a number of microseconds.
pub fn granularity(text: &str) -> Result<Duration, Error> {
    match text.parse() {
        Ok(microseconds) => Ok(Duration::from_micros(microseconds)),
        Err(_) => Err(Error::value("--wrapper-time-trace-granularity=", "a number of microseconds", text)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory() {
        for (text, choice) in [
            ("8G", Some(MemoryChoice::Bytes(8 << 30))),
            ("50%", Some(MemoryChoice::Percent(50))),
            ("100%", Some(MemoryChoice::Percent(100))),
            ("0%", None),
            ("101%", None),
            ("%", None),
            ("0", None),
            ("all", None),
        ] {
            assert_eq!(MemoryChoice::parse(text).ok(), choice, "{text}");
        }
    }

    #[test]
    fn statistics() {
        assert_eq!(
            ["", "text", "json", "xml"].map(|text| StatsFormat::parse(text).ok()),
            [Some(StatsFormat::Text), Some(StatsFormat::Text), Some(StatsFormat::Json), None]
        );
    }
}
