//! Where shared variables are.
//!
//! In a relocatable cubin a shared variable has a size and an alignment, and no place. A variable that one kernel alone reaches belongs to
//! that kernel. The others get a place that is the same in all kernels, so that functions which several kernels call can use them: two
//! variables that one kernel reaches do not overlap, others may. What a kernel has for itself follows behind, and the array whose size the
//! launch gives comes last.

mod order;
mod uses;

use std::cmp::Reverse;

use crate::bytes::aligned;
use crate::error::LinkError;
use crate::program::{Program, Reach};
use crate::unit::Relocation;
use order::{check_order, sorted};
use uses::{DYNAMIC_ALIGNMENT, Uses};

/// What the system reserves at the start of a block's shared memory, from sm_90 on.
const RESERVED: u64 = 0x400;
/// The shared memory of all kernels.
#[derive(Debug)]
pub(crate) struct Shared {
    /// By number of the kernel: size and alignment of its section, if it uses shared memory.
    pub(crate) kernels: Vec<Option<(u64, u64)>>,
    /// By number of a variable: its offset behind what is reserved.
    offsets: Vec<Option<u64>>,
    /// By number of a function: the offset of the array whose size the launch gives.
    dynamic: Vec<Option<u64>>,
}

impl Shared {
    /// The offset that code of a function uses for a shared variable.
    pub(crate) fn offset(&self, function: usize, variable: usize) -> Option<u64> {
        self.offsets[variable].or(self.dynamic[function])
    }

    /// Places all shared variables.
    ///
    /// # Errors
    /// A use of shared memory that is not known to be linked like this.
    pub(crate) fn new(
        program: &Program<'_>,
        reach: &Reach,
        relocations: &[Vec<(usize, Vec<Relocation>)>],
    ) -> Result<Self, LinkError> {
        let count = program.symbols.len();
        let kernels: Vec<usize> = (0..count).filter(|number| reach.has_kernel(program, *number)).collect();
        let uses = Uses::find(program, reach, relocations, &kernels)?;
        let mut shared = Shared { kernels: vec![None; count], offsets: vec![None; count], dynamic: vec![None; count] };
        shared.place_common(program, &uses)?;
        let ends = shared.place_own(program, &uses, &kernels)?;
        shared.place_dynamic(&uses, &kernels, &ends);
        if uses.everywhere {
            for kernel in kernels {
                shared.kernels[kernel].get_or_insert((RESERVED, DYNAMIC_ALIGNMENT));
            }
        }
        Ok(shared)
    }

    /// Variables that several kernels reach, the largest first: each joins the first group in which no other one meets it in a kernel,
    /// and the groups lie one behind the other.
    fn place_common(&mut self, program: &Program<'_>, uses: &Uses) -> Result<(), LinkError> {
        struct Group {
            members: Vec<usize>,
            size: u64,
            alignment: u64,
        }
        // Those of code that no kernel reaches take part, too.
        let is_common = |variable: &usize| uses.kernels[*variable].len() != 1;
        let variables: Vec<usize> = uses.order.iter().copied().filter(is_common).collect();
        check_order(program, &variables, 0, |variable| program.symbols[variable].size)?;
        let mut groups: Vec<Group> = Vec::new();
        for variable in variables {
            let linked = &program.symbols[variable];
            let fits = |group: &&mut Group| group.members.iter().all(|other| !uses.meet(variable, *other));
            match groups.iter_mut().find(fits) {
                Some(group) => {
                    group.members.push(variable);
                    group.size = group.size.max(linked.size);
                    group.alignment = group.alignment.max(linked.alignment);
                }
                None => groups.push(Group { members: vec![variable], size: linked.size, alignment: linked.alignment }),
            }
        }
        let mut end = 0;
        for group in groups {
            let start = aligned(end, group.alignment).unwrap_or(end);
            for member in group.members {
                self.offsets[member] = Some(start);
            }
            end = start.saturating_add(group.size);
        }
        Ok(())
    }

    /// Variables of one kernel, those with the largest alignment first. Returns where the memory of each kernel ends.
    fn place_own(&mut self, program: &Program<'_>, uses: &Uses, kernels: &[usize]) -> Result<Vec<u64>, LinkError> {
        let mut ends = Vec::with_capacity(kernels.len());
        for (place, kernel) in kernels.iter().enumerate() {
            let reached = uses.of_kernel(place);
            let size = |variable: usize| program.symbols[variable].size;
            let common_end =
                reached.iter().filter_map(|variable| Some(self.offsets[*variable]?.saturating_add(size(*variable))));
            let mut end = common_end.max().unwrap_or(0);
            let mut own: Vec<usize> =
                reached.iter().copied().filter(|variable| self.offsets[*variable].is_none()).collect();
            // Behind its own variables come those that it has of functions.
            let place = |variable: usize| uses.order.iter().position(|other| *other == variable);
            own.sort_by_key(|variable| place(*variable));
            let key = |variable: usize| (Reverse(program.symbols[variable].alignment), size(variable));
            let of_functions = own.iter().position(|variable| uses.of_functions[*variable]).unwrap_or(own.len());
            check_order(program, &own, of_functions, key)?;
            let own = sorted(&own, &key);
            for variable in own {
                let start = aligned(end, program.symbols[variable].alignment).unwrap_or(end);
                self.offsets[variable] = Some(start);
                end = start.saturating_add(size(variable));
            }
            if !reached.is_empty() {
                let of_variables = reached.iter().map(|variable| program.symbols[*variable].alignment).max();
                let alignment = of_variables.unwrap_or(1).max(uses.least_alignment);
                self.kernels[*kernel] = Some((RESERVED.saturating_add(end), alignment));
            }
            ends.push(end);
        }
        Ok(ends)
    }

    /// The array whose size the launch gives is at the same place in all kernels that share a function which uses it.
    fn place_dynamic(&mut self, uses: &Uses, kernels: &[usize], ends: &[u64]) {
        let mut done = vec![false; kernels.len()];
        for first in 0..kernels.len() {
            if done[first] || uses.dynamic[first].is_empty() {
                continue;
            }
            let members = uses.dynamic_group(first);
            let end = members.iter().map(|place| ends[*place]).max().unwrap_or(0);
            let start = aligned(end, DYNAMIC_ALIGNMENT).unwrap_or(end);
            for place in members {
                done[place] = true;
                for function in &uses.dynamic[place] {
                    self.dynamic[*function] = Some(start);
                }
                let alignment = self.kernels[kernels[place]].map_or(1, |(_, alignment)| alignment);
                let size = RESERVED.saturating_add(start);
                self.kernels[kernels[place]] = Some((size, alignment.max(DYNAMIC_ALIGNMENT)));
            }
        }
    }
}
