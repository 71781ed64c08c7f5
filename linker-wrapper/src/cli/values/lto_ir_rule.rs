//! Which code of nvcc's units is linked.

/// Whether NVIDIA's LTO-IR is linked, of units that have other code as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum LtoIrRule {
    /// It goes before other code (`-flto`, `-dlto`).
    First,
    /// All units of a target are linked as LTO-IR where they have it, if one of them has no other code for the target, and none otherwise.
    #[default]
    IfNeeded,
    /// Never (`-fno-lto`).
    Never,
}
