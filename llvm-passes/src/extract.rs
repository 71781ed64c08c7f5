//! The module of one partition: chosen definitions out of many units, of which only the bodies that are
//! wanted are loaded.

use std::ffi::CString;

use inkwell::module::Module;
use serde::{Deserialize, Serialize};

use crate::pipeline::{NamedBitcode, follow_first_about_denormals};
use crate::session::Session;
use crate::sys::Mover;
use crate::{IrError, crash};

/// What a partition takes of one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPart {
    /// The unit, by its place among the target's bitcode units.
    pub unit: usize,
    /// What becomes of its globals. Those not named here arrive as declarations, if at all.
    pub takes: Vec<Take>,
}

/// What becomes of one global.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// Its number in the unit's [`crate::reference_graph::ReferenceGraph`].
    pub number: u32,
    /// How it is taken.
    pub how: How,
    /// The name by which all partitions know it, if it is not its own.
    pub name: Option<String>,
}

/// How a global comes into a partition. The values are those in sys/mover.cpp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum How {
    /// With its body, for this partition alone.
    Copy = 0,
    /// With its body, to look into; its owner is another partition.
    Available = 1,
    /// By name; its owner is another partition.
    Declaration = 2,
    /// With its content, of which the final link keeps one copy.
    Folded = 3,
    /// With its body, for all partitions: this one owns it.
    Owned = 4,
}

/// Makes the module.
///
/// # Errors
/// A unit that cannot be read, or a merge that fails.
pub fn extract<'s>(
    session: &'s Session,
    units: &[NamedBitcode<'s>],
    parts: &[UnitPart],
) -> Result<Module<'s>, IrError> {
    let merged = session.context().create_module("partition");
    let mut mover = Mover::new(&merged);
    for part in parts {
        let Some(unit) = units.get(part.unit) else { continue };
        let module = session.read_lazily(unit.name, unit.bitcode)?;
        follow_first_about_denormals(&merged, &module);
        let name = |take: &Take| take.name.as_deref().and_then(|name| CString::new(name).ok());
        let takes: Vec<_> = part.takes.iter().map(|take| (take.number, take.how, name(take))).collect();
        let moved = crash::during(&format!("merging {}", unit.name), || mover.take(module, &takes));
        let diagnosed = session.take_errors();
        if let Err(message) = moved {
            return Err(IrError::merge(unit.name, format!("{message}{diagnosed}")));
        }
        if !diagnosed.is_empty() {
            return Err(IrError::merge(unit.name, diagnosed));
        }
    }
    drop(mover);
    Ok(merged)
}
