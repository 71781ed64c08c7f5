//! Which functions beside kernels ptxas sees as visible, in a program that it compiles in one piece.
//!
//! For code of the same size ptxas often gives a local function more registers than a visible one, up to twice as many, and every
//! kernel that calls it has as many. Functions are visible in every other linker's output. But a kernel whose registers are
//! bounded may only call a visible function that happens to stay within the bound, else ptxas fails, while it makes a local one
//! fit. So what such kernels reach stays local.

use std::collections::BTreeSet;

use inkwell::attributes::AttributeLoc;
use inkwell::module::{Linkage, Module};
use inkwell::values::FunctionValue;
use offload_bundle::arch::GpuArch;

use crate::reference_graph::{self, ReferenceGraph};

/// The most registers that a thread can have.
const MOST_REGISTERS: u64 = 255;

/// Makes the local functions of an optimized program visible that no kernel with a bound on its registers reaches.
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

/// LLVM makes the names of local functions alone fit for PTX.
fn can_be_exposed(function: FunctionValue<'_>) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'$');
    matches!(function.get_linkage(), Linkage::Internal | Linkage::Private)
        && function.count_basic_blocks() > 0
        && function.get_name().to_bytes().iter().all(is_plain)
}

/// Whether the threads of a block or the kernel itself leave fewer registers than a thread can have.
fn is_bounded(function: FunctionValue<'_>, arch: GpuArch) -> bool {
    let numbers = |name: &str| {
        let value = function.get_string_attribute(AttributeLoc::Function, name)?;
        let text = value.get_string_value().to_string_lossy().into_owned();
        // What cannot be read bounds as much as anything can.
        Some(text.split(',').map(|number| number.trim().parse().unwrap_or(u64::MAX)).fold(1, u64::saturating_mul))
    };
    // Of a block.
    let registers: u64 = if matches!(arch.number, 53 | 62) { 32 << 10 } else { 64 << 10 };
    let threads = numbers("nvvm.reqntid").or_else(|| numbers("nvvm.maxntid")).unwrap_or(1);
    let all = threads.saturating_mul(numbers("nvvm.minctasm").unwrap_or(1)).max(1);
    numbers("nvvm.maxnreg").is_some() || registers / all < MOST_REGISTERS
}

/// The names of all that these reach, by calls or by address.
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
