//! Messages of LLVM that are not errors.

use serde::{Deserialize, Serialize};

/// What kind of message it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum MessageKind {
    /// A warning.
    #[default]
    Warning,
    /// A remark of a pass that `-pass-remarks=` and its kin name.
    Remark,
    /// A remark as a YAML document, for the file that `-pass-remarks-output=` names.
    Record,
}

/// A message of LLVM that is not an error.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Message {
    /// Its kind.
    pub kind: MessageKind,
    /// The text, without the source location unless it is a remark.
    pub text: String,
    /// Symbol of the function that was being compiled: mostly a kernel, because other functions are inlined.
    pub function: Option<String>,
    /// `FILE:LINE:COLUMN` of the code, or `FILE:LINE` of the function, if there is debug information.
    pub place: Option<String>,
}
