//! What may be wrong with code that enters a link: a tool left it, a process or another machine sent it, or a cache has it. Tools are not
//! to be trusted here: ptxas 13.0 reports success when its disk is full, and leaves an empty file.

use std::collections::HashSet;
use std::fmt;

/// Why code is not used, kept or sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Flaw {
    /// There is none.
    Empty,
    /// Its end is missing, or it is damaged otherwise, for this reason.
    Damaged(String),
    /// It is for this target instead.
    OtherTarget(String),
    /// It lacks this kernel.
    NoKernel(String),
}

impl fmt::Display for Flaw {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Flaw::Empty => formatter.write_str("an empty file"),
            Flaw::Damaged(reason) => write!(formatter, "a file that is cut off or damaged ({reason})"),
            Flaw::OtherTarget(found) => write!(formatter, "code for {found}"),
            Flaw::NoKernel(kernel) => write!(formatter, "code without the kernel {kernel}"),
        }
    }
}

/// Checks that code is there at all.
///
/// # Errors
/// [`Flaw::Empty`].
pub fn require_some(bytes: &[u8]) -> Result<(), Flaw> {
    if bytes.is_empty() { Err(Flaw::Empty) } else { Ok(()) }
}

/// Checks that code with the kernels `found` has all that are `wanted`.
///
/// # Errors
/// The first that it lacks.
pub fn require_kernels<'k>(
    found: impl IntoIterator<Item = &'k str>,
    wanted: impl IntoIterator<Item = &'k String>,
) -> Result<(), Flaw> {
    let mut wanted = wanted.into_iter().peekable();
    if wanted.peek().is_none() {
        return Ok(());
    }
    let found: HashSet<&str> = found.into_iter().collect();
    let missing = wanted.find(|kernel| !found.contains(kernel.as_str()));
    missing.map_or(Ok(()), |kernel| Err(Flaw::NoKernel(kernel.clone())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_kernel_that_is_missing_is_named() {
        let wanted = ["a", "b", "c"].map(str::to_owned);
        assert_eq!(require_kernels(["c", "a", "b", "d"], &wanted), Ok(()));
        assert_eq!(require_kernels(["a"], &wanted), Err(Flaw::NoKernel("b".to_owned())));
        assert_eq!(require_kernels([], &[]), Ok(()));
    }
}
