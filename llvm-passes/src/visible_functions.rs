//! Making functions of a monolithic program visible to ptxas.
//!
//! ptxas often gives a local function more registers than a visible one, up to twice as many, and every kernel that calls it then
//! has as many. Other linkers leave all functions visible. But if a kernel's registers are bounded, ptxas rejects a call of a
//! visible function that exceeds the bound, while it makes a local function fit. So what such kernels reach stays local.

use std::collections::BTreeSet;

use inkwell::attributes::AttributeLoc;
use inkwell::module::{Linkage, Module};
use inkwell::values::FunctionValue;
use offload_bundle::arch::GpuArch;

use crate::reference_graph::{self, ReferenceGraph};

/// Maximum number of registers of a thread.
const MOST_REGISTERS: u64 = 255;

/// Makes those local functions of an optimized program visible that no kernel with bounded registers reaches.
pub fn expose(module: &Module<'_>, arch: GpuArch) {
    let local: Vec<_> = module.get_functions().filter(|function| can_be_exposed(*function)).collect();
    if local.is_empty() {
        return;
    }
    let bounded = module.get_functions().filter(|function| is_bounded(*function, arch)).map(name).collect();
    let reached = reached(&reference_graph::of_module(module), bounded);
    for function in local.into_iter().filter(|function| !reached.contains(&name(*function))) {
        function.set_linkage(Linkage::External);
    }
}

fn name(function: FunctionValue<'_>) -> String {
    function.get_name().to_string_lossy().into_owned()
}

/// Whether the function is a local definition whose name is valid in PTX: LLVM replaces other characters in local names only.
fn can_be_exposed(function: FunctionValue<'_>) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    matches!(function.get_linkage(), Linkage::Internal | Linkage::Private)
        && function.count_basic_blocks() > 0
        && function.get_name().to_bytes().iter().all(is_plain)
}

/// Whether the kernel's attributes leave a thread fewer registers than it could have.
fn is_bounded(function: FunctionValue<'_>, arch: GpuArch) -> bool {
    let numbers = |name: &str| {
        let value = function.get_string_attribute(AttributeLoc::Function, name)?;
        let text = value.get_string_value().to_string_lossy().into_owned();
        // An unreadable value counts as the tightest bound.
        Some(text.split(',').map(|number| number.trim().parse().unwrap_or(u64::MAX)).fold(1, u64::saturating_mul))
    };
    // Of one block.
    let registers: u64 = if matches!(arch.number, 53 | 62) { 32 << 10 } else { 64 << 10 };
    let threads = numbers("nvvm.reqntid").or_else(|| numbers("nvvm.maxntid")).unwrap_or(1);
    let all = threads.saturating_mul(numbers("nvvm.minctasm").unwrap_or(1)).max(1);
    numbers("nvvm.maxnreg").is_some() || registers / all < MOST_REGISTERS
}

/// The names of everything that these globals reach, by call or by address.
fn reached(graph: &ReferenceGraph, from: BTreeSet<String>) -> BTreeSet<String> {
    let starts = graph.globals.iter().enumerate().filter(|(_, global)| from.contains(&global.name));
    let mut open: Vec<usize> = starts.map(|(index, _)| index).collect();
    let mut seen: BTreeSet<usize> = open.iter().copied().collect();
    while let Some(global) = open.pop().and_then(|index| graph.globals.get(index)) {
        let next = global.references.iter().map(|reference| reference.to as usize);
        open.extend(next.filter(|index| seen.insert(*index)));
    }
    seen.iter().filter_map(|index| graph.globals.get(*index)).map(|global| global.name.clone()).collect()
}
