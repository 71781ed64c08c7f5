//! Whether the kernels of linked code have the registers and the stack of everything that they call.
//!
//! `.nv.callgraph` has rows of two u32. A row {0, -1} to {0, -4} begins a part; the rows of part -1 are {caller, callee}, by index in the
//! symbol table. (nvlink 13.0; the resources are in `.nv.info`.)

use std::collections::{HashMap, HashSet};
use std::fmt;

use super::resources::Attributes;
use super::{Cubin, SymbolKind};

/// A function that needs more than the kernel has from which it is called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UncoveredCall {
    /// The kernel, mangled.
    pub kernel: String,
    /// The function, which the kernel calls itself or through others; mangled.
    pub function: String,
    /// What is short.
    pub resource: CallResource,
    /// How much of it the kernel has.
    pub has: u32,
    /// How much of it the call needs.
    pub needs: u32,
}

/// What a kernel has to have for its callees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallResource {
    /// Registers of each thread.
    Registers,
    /// Bytes of local memory of each thread, for the frames of all functions that are active at a time.
    Stack,
}

impl fmt::Display for CallResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CallResource::Registers => "registers",
            CallResource::Stack => "bytes of stack",
        })
    }
}

/// The calls of a cubin by name, by index of the caller.
type Callees = HashMap<u32, Vec<u32>>;

impl Cubin<'_> {
    /// The functions that need more than the kernels have from which they are called: at most one for each kernel and resource. Where a
    /// function can call itself, no stack is enough for certain, and none is compared.
    pub fn uncovered_calls(&self) -> Vec<UncoveredCall> {
        let callees = self.callees();
        if callees.is_empty() {
            return Vec::new();
        }
        let names: HashMap<u32, &str> = self
            .symbols
            .iter()
            .zip(&self.symbol_indices)
            .map(|(symbol, index)| (*index, symbol.name.as_str()))
            .collect();
        let graph = Graph { callees, attributes: self.attributes_of_all() };
        let kernels = self.symbols.iter().zip(&self.symbol_indices);
        let kernels = kernels.filter(|(symbol, _)| symbol.defined && symbol.kind == SymbolKind::Kernel);
        let calls = kernels.flat_map(|(symbol, index)| {
            let short = [graph.registers(*index), graph.stack(*index)].into_iter().flatten();
            short.map(|Short { callee, resource, has, needs }| UncoveredCall {
                kernel: symbol.name.clone(),
                function: names.get(&callee).map_or_else(|| format!("symbol {callee}"), |name| (*name).to_owned()),
                resource,
                has,
                needs,
            })
        });
        calls.collect()
    }

    fn callees(&self) -> Callees {
        const BY_NAME: i32 = -1;
        let mut callees = Callees::new();
        let mut part = 0;
        for row in self.section(".nv.callgraph").unwrap_or_default().as_chunks::<8>().0 {
            let [first, second] = [0, 4].map(|at| u32::from_le_bytes([row[at], row[at + 1], row[at + 2], row[at + 3]]));
            if first == 0 {
                part = second.cast_signed();
            } else if part == BY_NAME && self.is_defined(second) {
                callees.entry(first).or_default().push(second);
            }
        }
        callees
    }

    /// Whether the symbol is defined here: calls of the system's functions, such as `vprintf`, are the driver's matter.
    fn is_defined(&self, index: u32) -> bool {
        let place = self.symbol_indices.binary_search(&index);
        place.is_ok_and(|place| self.symbols[place].defined)
    }
}

/// A call for which a kernel has too little.
struct Short {
    callee: u32,
    resource: CallResource,
    has: u32,
    needs: u32,
}

struct Graph {
    callees: Callees,
    attributes: HashMap<u32, Attributes>,
}

impl Graph {
    fn of(&self, function: u32) -> &[u32] {
        self.callees.get(&function).map_or(&[], Vec::as_slice)
    }

    fn attributes(&self, function: u32) -> Attributes {
        self.attributes.get(&function).copied().unwrap_or_default()
    }

    /// The callee with the most registers, if the kernel has fewer.
    fn registers(&self, kernel: u32) -> Option<Short> {
        let has = self.attributes(kernel).registers?;
        let (mut seen, mut rest) = (HashSet::from([kernel]), vec![kernel]);
        while let Some(function) = rest.pop() {
            rest.extend(self.of(function).iter().copied().filter(|callee| seen.insert(*callee)));
        }
        let needs = seen.iter().filter_map(|callee| Some((self.attributes(*callee).registers?, *callee))).max()?;
        let (needs, callee) = needs;
        (needs > has).then_some(Short { callee, resource: CallResource::Registers, has, needs })
    }

    /// The callee with the deepest stack, if the kernel has less.
    fn stack(&self, kernel: u32) -> Option<Short> {
        let has = self.attributes(kernel).stack?;
        let depths = self.depths(kernel)?;
        let (below, callee) = self.of(kernel).iter().map(|callee| (depths[callee], *callee)).max()?;
        let needs = below.saturating_add(self.attributes(kernel).frame.unwrap_or_default());
        (needs > has).then_some(Short { callee, resource: CallResource::Stack, has, needs })
    }

    /// The bytes of stack that each function needs that a kernel calls, with its callees; `None` with recursion.
    fn depths(&self, kernel: u32) -> Option<HashMap<u32, u32>> {
        let mut depths: HashMap<u32, u32> = HashMap::new();
        let (mut open, mut rest) = (HashSet::new(), vec![(kernel, false)]);
        while let Some((function, is_left)) = rest.pop() {
            if is_left {
                let below = self.of(function).iter().map(|callee| depths[callee]).max().unwrap_or_default();
                depths.insert(function, below.saturating_add(self.attributes(function).frame.unwrap_or_default()));
                open.remove(&function);
            } else if !depths.contains_key(&function) {
                if !open.insert(function) {
                    return None;
                }
                rest.push((function, true));
                rest.extend(self.of(function).iter().map(|callee| (*callee, false)));
            }
        }
        Some(depths)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn graph(calls: &[(u32, u32)], resources: &[(u32, u32, u32, u32)]) -> Graph {
        let mut callees = Callees::new();
        calls.iter().for_each(|(caller, callee)| callees.entry(*caller).or_default().push(*callee));
        let mut attributes: HashMap<u32, Attributes> = HashMap::new();
        for (function, registers, frame, stack) in resources {
            let of_function = attributes.entry(*function).or_default();
            of_function.registers = Some(*registers);
            of_function.frame = Some(*frame);
            of_function.stack = Some(*stack);
        }
        Graph { callees, attributes }
    }

    fn short(found: Option<Short>) -> Option<(u32, u32, u32)> {
        found.map(|Short { callee, has, needs, .. }| (callee, has, needs))
    }

    #[test]
    fn a_kernel_has_what_its_callees_need() {
        let calls = [(1, 2), (2, 3), (1, 3), (1, 4)];
        let covered = graph(&calls, &[(1, 40, 8, 48), (2, 20, 16, 0), (3, 40, 24, 0), (4, 10, 0, 0)]);
        assert_eq!((short(covered.registers(1)), short(covered.stack(1))), (None, None));
        let registers = graph(&calls, &[(1, 39, 8, 48), (2, 20, 16, 0), (3, 40, 24, 0)]);
        assert_eq!(short(registers.registers(1)), Some((3, 39, 40)));
        let stack = graph(&calls, &[(1, 40, 8, 47), (2, 20, 16, 0), (3, 40, 24, 0)]);
        assert_eq!(short(stack.stack(1)), Some((2, 47, 48)));
    }

    #[test]
    fn no_stack_is_enough_for_recursion() {
        let endless = graph(&[(1, 2), (2, 2)], &[(1, 8, 0, 0), (2, 9, 8, 0)]);
        assert!(endless.stack(1).is_none());
        assert_eq!(short(endless.registers(1)), Some((2, 8, 9)));
    }
}
