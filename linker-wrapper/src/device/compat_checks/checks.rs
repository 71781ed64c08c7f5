//! The checks by name, and how much each of them weighs: `--offload-check=NAME=error|warn|off`. PURE.

/// What the files of a link may disagree about.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Check {
    /// A file lacks a target that others have.
    MissingTarget,
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
}

/// What a disagreement is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Nothing: it is not looked for.
    Off,
    /// A warning.
    Warn,
    /// An error.
    Error,
}

/// One row of the table of checks.
struct Row {
    check: Check,
    name: &'static str,
    /// What files differ in.
    what: &'static str,
    /// Why that matters, and what to do.
    advice: &'static str,
}

/// All checks. The reasons stand at length in docs/checks.md.
const ROWS: [Row; 7] = [
    Row {
        check: Check::MissingTarget,
        name: "missing-target",
        what: "the targets that they were compiled for",
        advice: "on such a GPU the kernels of a file without code for it are missing; compile all files with the same --offload-arch",
    },
    Row {
        check: Check::Producer,
        name: "producer",
        what: "the LLVM that wrote their bitcode",
        advice: "bitcode of an older LLVM is upgraded, with a loss of attributes; compile all files with one compiler",
    },
    Row {
        check: Check::Features,
        name: "features",
        what: "the PTX version that they were compiled for",
        advice: "headers may choose other code by it, of which one copy prevails; compile all files with one CUDA toolkit and \
                 the same --cuda-feature",
    },
    Row {
        check: Check::FastMath,
        name: "fast-math",
        what: "fast floating-point arithmetic",
        advice: "of an inline function in several files one copy prevails, fast or not; compile all files with or without -ffast-math",
    },
    Row {
        check: Check::Denormals,
        name: "denormals",
        what: "denormal numbers",
        advice: "of an inline function in several files one copy prevails, and CUDA's mathematical functions follow one of the files; \
                 compile all files with or without -fgpu-flush-denormals-to-zero",
    },
    Row {
        check: Check::Debug,
        name: "debug",
        what: "debug information",
        advice: "a debugger and a profiler will see a part of the code alone, and full debug information of one file keeps ptxas \
                 from optimizing the others; compile all files with the same -g",
    },
    Row {
        check: Check::Toolkit,
        name: "toolkit",
        what: "the major version of the CUDA toolkit that made their machine code",
        advice: "NVIDIA promises compatibility within a major version alone; compile all files with one CUDA toolkit",
    },
];

impl Check {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Check> {
        ROWS.iter().map(|row| row.check)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// As the option spells it.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// What files differ in.
    pub fn what(self) -> &'static str {
        self.row().what
    }

    /// Why that matters, and what to do.
    pub fn advice(self) -> &'static str {
        self.row().advice
    }
}

/// The level of every check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Levels([Level; ROWS.len()]);

impl Default for Levels {
    /// All warn: none of them is wrong in itself, and none is what somebody means who does not know of it.
    fn default() -> Self {
        Levels([Level::Warn; ROWS.len()])
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
    pub fn set(&mut self, text: &str) -> Result<(), String> {
        let names = || ROWS.iter().map(|row| row.name).collect::<Vec<_>>().join(", ");
        let (name, level) = text.split_once('=').ok_or_else(|| {
            format!("--offload-check=: expected <name>=error|warn|off, got '{text}'; the checks are {}", names())
        })?;
        let level = match level {
            "error" => Level::Error,
            "warn" => Level::Warn,
            "off" => Level::Off,
            _ => return Err(format!("--offload-check={name}=: expected error, warn or off, got '{level}'")),
        };
        let chosen: Vec<Check> = Check::all().filter(|check| name == "all" || name == check.name()).collect();
        if chosen.is_empty() {
            return Err(format!(
                "--offload-check=: there is no check '{name}'; the checks are {} (all stands for all)",
                names()
            ));
        }
        chosen.into_iter().for_each(|check| self.0[check as usize] = level);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_stand_where_their_check_says() {
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
