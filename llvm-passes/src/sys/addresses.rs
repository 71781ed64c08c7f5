//! Addresses of elements.

use inkwell::builder::{Builder, BuilderError};
use inkwell::types::BasicType;
use inkwell::values::{IntValue, PointerValue};

/// Builds the address of an element of what `base` points at. An address out of bounds is undefined where the code runs, not here.
pub(crate) fn element<'ctx>(
    builder: &Builder<'ctx>,
    pointee: impl BasicType<'ctx>,
    base: PointerValue<'ctx>,
    indices: &[IntValue<'ctx>],
) -> Result<PointerValue<'ctx>, BuilderError> {
    // SAFETY: LLVM requires that the indices fit the type, which registration code writes for one fixed record.
    unsafe { builder.build_in_bounds_gep(pointee, base, indices, "") }
}
