//! The checks on how files were compiled, by name, and their levels: `--offload-check=NAME=error|warn|off`.

use crate::cli::error::Error;

/// A property that the files of a link should agree on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// A file lacks a target that others have.
    MissingTarget,
    /// Some files have relocatable device code and others finished code.
    RelocatableCode,
    /// LLVM that wrote the bitcode.
    Producer,
    /// PTX features.
    Features,
    /// Fast floating-point arithmetic.
    FastMath,
    /// Denormal numbers.
    Denormals,
    /// Debug information.
    Debug,
    /// CUDA toolkit that made the machine code.
    Toolkit,
    /// Lanes of a wave of AMD's GPUs.
    WaveSize,
    /// Whether waves of a workgroup share a compute unit.
    WorkgroupMode,
    /// Signaling NaNs on AMD's GPUs.
    IeeeMode,
    /// Atomic operations of floating-point numbers on AMD's GPUs.
    Atomics,
}

/// All checks with their names, in the order of their reports, which is that of the enum.
const NAMES: [(Check, &str); 12] = [
    (Check::MissingTarget, "missing-target"),
    (Check::RelocatableCode, "relocatable-code"),
    (Check::Producer, "producer"),
    (Check::Features, "features"),
    (Check::FastMath, "fast-math"),
    (Check::Denormals, "denormals"),
    (Check::Debug, "debug"),
    (Check::Toolkit, "toolkit"),
    (Check::WaveSize, "wave-size"),
    (Check::WorkgroupMode, "workgroup-mode"),
    (Check::IeeeMode, "ieee-mode"),
    (Check::Atomics, "atomics"),
];

impl Check {
    /// All checks.
    pub fn all() -> impl Iterator<Item = Check> {
        NAMES.iter().map(|(check, _)| *check)
    }

    /// The name that the option uses.
    pub fn name(self) -> &'static str {
        NAMES[self as usize].1
    }
}

/// How a difference is reported.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Not at all: files are not compared.
    Off,
    /// As a warning.
    Warn,
    /// As an error.
    Error,
}

/// The level of every check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels([Level; NAMES.len()]);

impl Default for Levels {
    /// Most warn: no difference is wrong in itself, and few are intended. Waves of different sizes cannot call each other's functions.
    fn default() -> Self {
        Levels(NAMES.map(|(check, _)| if check == Check::WaveSize { Level::Error } else { Level::Warn }))
    }
}

impl Levels {
    /// The level of a check.
    pub fn of(&self, check: Check) -> Level {
        self.0[check as usize]
    }

    /// Reads one value of the option: `NAME=LEVEL`, where `all` names all checks.
    ///
    /// # Errors
    /// No such check or level.
    pub fn set(&mut self, text: &str) -> Result<(), Error> {
        let known = || NAMES.iter().map(|(_, name)| *name).collect::<Vec<_>>().join(", ");
        let (name, level) =
            text.split_once('=').ok_or_else(|| Error::CheckForm { value: text.to_owned(), known: known() })?;
        let level = match level {
            "error" => Level::Error,
            "warn" => Level::Warn,
            "off" => Level::Off,
            _ => return Err(Error::CheckLevel { name: name.to_owned(), level: level.to_owned() }),
        };
        let chosen: Vec<Check> = Check::all().filter(|check| name == "all" || name == check.name()).collect();
        if chosen.is_empty() {
            return Err(Error::UnknownCheck { name: name.to_owned(), known: known() });
        }
        chosen.into_iter().for_each(|check| self.0[check as usize] = level);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stand_where_their_check_says() {
        assert!(Check::all().enumerate().all(|(place, check)| check as usize == place));
    }

    #[test]
    fn the_last_word_counts() {
        let mut levels = Levels::default();
        for text in ["all=off", "debug=error", "toolkit=error", "toolkit=warn"] {
            levels.set(text).unwrap();
        }
        assert_eq!(levels.of(Check::Debug), Level::Error);
        assert_eq!(levels.of(Check::Toolkit), Level::Warn);
        assert_eq!(levels.of(Check::Features), Level::Off);
        for bad in ["", "debug", "debug=", "debug=note", "speed=off", "=off"] {
            assert!(levels.set(bad).is_err(), "{bad}");
        }
    }
}
