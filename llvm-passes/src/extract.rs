//! Building the module of one partition from chosen definitions of many units. Only their bodies are loaded.

use std::ffi::CString;

use inkwell::module::Module;
use serde::{Deserialize, Serialize};

use crate::crash;
use crate::error::IrError;
use crate::pipeline::{NamedBitcode, adopt_flags};
use crate::session::Session;
use crate::sys::Mover;
pub use crate::sys::{How, Visibility};

/// What a partition takes of one unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitPart {
    /// Index among the target's bitcode units.
    pub unit: usize,
    /// What becomes of its globals. All others arrive as declarations if they are referenced.
    pub takes: Vec<Take>,
}

/// What becomes of one global.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Take {
    /// Its index in [`crate::reference_graph::ReferenceGraph::globals`].
    pub index: u32,
    /// How it is taken.
    pub how: How,
    /// The name that all partitions use for it, if that is not its own.
    pub name: Option<String>,
}

/// Builds the module.
///
/// # Errors
/// Unreadable bitcode, or a merge that fails.
pub fn extract<'s>(
    session: &'s Session,
    units: &[NamedBitcode<'s>],
    parts: &[UnitPart],
    visibility: Visibility,
) -> Result<Module<'s>, IrError> {
    let merged = session.context().create_module("partition");
    let mut mover = Mover::new(&merged, visibility);
    for part in parts {
        let Some(unit) = units.get(part.unit) else { continue };
        let module = session.read_lazily(unit.name, unit.bitcode)?;
        adopt_flags(&merged, &module);
        let name = |take: &Take| take.name.as_deref().and_then(|name| CString::new(name).ok());
        let takes: Vec<_> = part.takes.iter().map(|take| (take.index, take.how, name(take))).collect();
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

#[cfg(test)]
mod tests {
    use inkwell::context::Context;

    use super::*;
    use crate::unit::Unit;

    /// A kernel, behind the declaration of an intrinsic as an earlier LLVM had it: without the second argument.
    fn bitcode() -> Vec<u8> {
        bitcode_with(None)
    }

    /// The same, in front of another function that returns this number.
    fn bitcode_with(number: Option<u64>) -> Vec<u8> {
        let context = Context::create();
        let module = context.create_module("m");
        let int = context.i32_type();
        module.add_function("llvm.ctlz.i32", int.fn_type(&[int.into()], false), None);
        let kernel = module.add_function("k", context.void_type().fn_type(&[], false), None);
        let builder = context.create_builder();
        builder.position_at_end(context.append_basic_block(kernel, ""));
        builder.build_return(None).expect("a place to build at");
        if let Some(number) = number {
            let other = module.add_function("other", int.fn_type(&[], false), None);
            builder.position_at_end(context.append_basic_block(other, ""));
            builder.build_return(Some(&int.const_int(number, false))).expect("a place to build at");
        }
        module.write_bitcode_to_memory().as_slice().to_vec()
    }

    fn part(index: usize) -> Vec<UnitPart> {
        let index = u32::try_from(index).expect("a small module");
        vec![UnitPart { unit: 0, takes: vec![Take { index, how: How::Copy, name: None }] }]
    }

    #[test]
    fn intrinsics_that_llvm_replaces_do_not_count() {
        let bytes = bitcode();
        let unit = Unit::new("a.o", &bytes);
        let graph = unit.references().unwrap();
        let index = graph.globals.iter().position(|global| global.name == "k").unwrap();
        let session = Session::new();
        let units = [NamedBitcode { name: "a.o", bitcode: &bytes }];
        let module = extract(&session, &units, &part(index), Visibility::All).unwrap();
        assert_eq!(module.get_function("k").unwrap().count_basic_blocks(), 1);
    }

    #[test]
    fn the_same_code_of_different_units_has_the_same_hash() {
        let hash = |bytes: &[u8], name: &str| {
            let unit = Unit::new("a.o", bytes);
            let graph = unit.references().unwrap();
            let index = graph.globals.iter().position(|global| global.name == name).unwrap();
            let session = Session::new();
            let units = [NamedBitcode { name: "a.o", bitcode: bytes }];
            let module = extract(&session, &units, &part(index), Visibility::All).unwrap();
            crate::pipeline::hash_of(&module)
        };
        let (one, two) = (bitcode_with(Some(1)), bitcode_with(Some(2)));
        assert_eq!(hash(&one, "k"), hash(&two, "k"));
        assert_eq!(hash(&one, "k"), hash(&bitcode(), "k"));
        assert_ne!(hash(&one, "other"), hash(&two, "other"));
        assert_ne!(hash(&one, "other"), hash(&one, "k"));
    }

    #[test]
    fn what_is_not_defined_cannot_be_taken() {
        let bytes = bitcode();
        let session = Session::new();
        let units = [NamedBitcode { name: "a.o", bitcode: &bytes }];
        let error = extract(&session, &units, &part(1), Visibility::All).unwrap_err().to_string();
        assert!(error.contains("the unit does not define llvm.ctlz.i32"), "{error}");
    }
}
