//! Why modules cannot be joined.

/// Why PTX modules cannot be joined. Parts are counted from 0.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// The list of parts is empty.
    #[error("there is no PTX to join")]
    NoParts,
    /// The first part lacks one of the three directives that a module begins with.
    #[error("the first part does not begin with .version, .target and .address_size")]
    NoHeader,
    /// A part is written for another PTX version or target than the first.
    #[error("parts 0 and {part} have different versions or targets")]
    DifferentHeaders {
        /// The part that differs.
        part: usize,
    },
    /// DWARF sections describe one module and cannot be merged as text.
    #[error("the parts have full debug information")]
    FullDebugInfo,
    /// A name has another type, kind or value in another part.
    #[error("{name} is not the same in two parts")]
    Conflict {
        /// The name.
        name: String,
    },
    /// A part already uses the name that one of its local symbols would get.
    #[error("part {part}: the name {name} is in use")]
    NameInUse {
        /// The part.
        part: usize,
        /// The name.
        name: String,
    },
    /// A local variable and one of another part hold each other's addresses; local variables cannot be announced.
    #[error("the values of {name} and of variables in another part name each other")]
    LocalCircle {
        /// The local variable.
        name: String,
    },
    /// A `.file` directive has no number.
    #[error("part {part}: a .file without a number")]
    UnnumberedFile {
        /// The part.
        part: usize,
    },
    /// Text that LLVM does not write.
    #[error("part {part}: {what} at byte {offset}")]
    Syntax {
        /// The part.
        part: usize,
        /// Where in its text.
        offset: usize,
        /// What is wrong there.
        what: &'static str,
    },
}
