//! Who uses which shared variables.

use super::order::sorted;
use crate::error::LinkError;
use crate::program::{Linked, Program, Reach};
use crate::unit::{Binding, Kind, Relocation, SymbolKind};

/// The alignment of the array whose size the launch gives.
pub(super) const DYNAMIC_ALIGNMENT: u64 = 16;

/// Which kernel reaches which shared variable.
#[derive(Debug)]
pub(super) struct Uses {
    /// By variable: the kernels that reach it, as places in the list of kernels.
    pub(super) kernels: Vec<Vec<usize>>,
    /// By variable: whether it is not inside one kernel.
    pub(super) of_functions: Vec<bool>,
    /// Variables of functions that code names, the largest first.
    pub(super) order: Vec<usize>,
    /// The least alignment of what a kernel has.
    pub(super) least_alignment: u64,
    /// By place in the list of kernels: the functions that run in the kernel, itself included, and use the array of the launch.
    pub(super) dynamic: Vec<Vec<usize>>,
    /// Whether each kernel has shared memory: if a unit declares such an array, and variables of functions are aligned like it.
    pub(super) everywhere: bool,
}

impl Uses {
    pub(super) fn find(
        program: &Program<'_>,
        reach: &Reach,
        relocations: &[Vec<(usize, Vec<Relocation>)>],
        kernels: &[usize],
    ) -> Result<Self, LinkError> {
        let count = program.symbols.len();
        let direct = direct_uses(program, relocations)?;
        let mut uses = Uses {
            kernels: vec![Vec::new(); count],
            of_functions: vec![false; count],
            order: Vec::new(),
            least_alignment: 1,
            dynamic: vec![Vec::new(); kernels.len()],
            everywhere: false,
        };
        for (place, kernel) in kernels.iter().enumerate() {
            for function in reach.from(*kernel) {
                for variable in &direct[function] {
                    if program.symbols[*variable].place.is_some() {
                        uses.add(*variable, place);
                    } else if !uses.dynamic[place].contains(&function) {
                        uses.dynamic[place].push(function);
                    }
                }
            }
        }
        let used = used_at_all(program, &direct);
        let mut stays = false;
        for (number, linked) in program.symbols.iter().enumerate() {
            let (SymbolKind::Shared, Some(at)) = (linked.kind, linked.place) else { continue };
            let unit = &program.units[at.unit];
            // Once one kernel alone reaches each variable that any code uses, the section of the others is gone.
            match unit.sections[program.symbol(at).section].kind {
                Kind::KernelShared(code) => {
                    // Also of a definition that does not prevail: nvlink has its variables beside those of the other.
                    let kernel = program.function_in(at.unit, code).map(|(_, kernel)| kernel);
                    if let Some(place) = kernels.iter().position(|number| Some(*number) == kernel) {
                        uses.add(number, place);
                    }
                }
                _ => {
                    uses.of_functions[number] = true;
                    stays |= used[number] && uses.kernels[number].len() != 1;
                }
            }
        }
        let of_functions: Vec<usize> =
            (0..count).filter(|number| uses.of_functions[*number] && used[*number]).collect();
        uses.order = sorted(&of_functions, &|variable: usize| program.symbols[variable].size);
        uses.order.reverse();
        if stays {
            uses.least_alignment = function_alignment(program);
        }
        let is_dynamic = |linked: &Linked<'_>| linked.kind == SymbolKind::Shared && linked.place.is_none();
        uses.everywhere = uses.least_alignment >= DYNAMIC_ALIGNMENT && program.symbols.iter().any(is_dynamic);
        uses.check(program, reach, &direct)?;
        Ok(uses)
    }

    fn add(&mut self, variable: usize, kernel: usize) {
        if !self.kernels[variable].contains(&kernel) {
            self.kernels[variable].push(kernel);
        }
    }

    /// Variables of code that no kernel reaches would need a place, too; which one is not known.
    fn check(&self, program: &Program<'_>, reach: &Reach, direct: &[Vec<usize>]) -> Result<(), LinkError> {
        for (function, variables) in direct.iter().enumerate().filter(|(function, _)| reach.needed[*function]) {
            for variable in variables {
                let placed = !self.kernels[*variable].is_empty()
                    || self.dynamic.iter().any(|functions| functions.contains(&function));
                if !placed {
                    let unit = program.symbols[*variable].first_unit;
                    let what = format!(
                        "shared variable {} of a function that no kernel reaches",
                        program.symbols[*variable].name
                    );
                    return Err(LinkError::unsupported(program.units[unit].file, 0, what));
                }
            }
        }
        Ok(())
    }

    /// Whether a kernel reaches both variables.
    pub(super) fn meet(&self, variable: usize, other: usize) -> bool {
        self.kernels[variable].iter().any(|kernel| self.kernels[other].contains(kernel))
    }

    /// The variables that a kernel reaches, in order.
    pub(super) fn of_kernel(&self, place: usize) -> Vec<usize> {
        (0..self.kernels.len()).filter(|variable| self.kernels[*variable].contains(&place)).collect()
    }

    /// The kernels that share a function which uses the array of the launch, with this one or with one of them.
    pub(super) fn dynamic_group(&self, first: usize) -> Vec<usize> {
        let mut members = vec![first];
        let mut next = 0;
        while let Some(member) = members.get(next).copied() {
            next += 1;
            for place in 0..self.dynamic.len() {
                let shares = self.dynamic[place].iter().any(|function| self.dynamic[member].contains(function));
                if shares && !members.contains(&place) {
                    members.push(place);
                }
            }
        }
        members
    }
}

/// By number of a function: the shared variables that its code names.
fn direct_uses(
    program: &Program<'_>,
    relocations: &[Vec<(usize, Vec<Relocation>)>],
) -> Result<Vec<Vec<usize>>, LinkError> {
    let mut direct = vec![Vec::new(); program.symbols.len()];
    for (number, unit) in program.units.iter().enumerate() {
        for (section, entries) in &relocations[number] {
            if unit.sections[*section].kind != Kind::Code {
                continue;
            }
            let Some((symbol, function)) = program.function_in(number, *section) else { continue };
            let prevails = program.prevails(number, symbol);
            for relocation in entries {
                let variable = program.numbers[number][relocation.symbol];
                let variable = variable.filter(|variable| program.symbols[*variable].kind == SymbolKind::Shared);
                let Some(variable) = variable else { continue };
                if prevails && !direct[function].contains(&variable) {
                    direct[function].push(variable);
                }
                // nvlink gives it a place in the kernel, as to the kernel's own ones, and in another order.
                if !prevails && program.symbols[function].kind == SymbolKind::Kernel && is_static(program, variable) {
                    let (variable, kernel) = (program.symbols[variable].name, program.symbols[function].name);
                    let what = format!("static shared variable {variable} of kernel {kernel}, which is defined before");
                    return Err(LinkError::unsupported(unit.file, relocation.at, what));
                }
            }
        }
    }
    Ok(direct)
}

/// Whether a variable is one of device functions of one unit.
fn is_static(program: &Program<'_>, variable: usize) -> bool {
    let linked = &program.symbols[variable];
    linked.binding == Binding::Local
        && linked.place.is_some_and(|place| {
            program.units[place.unit].sections[program.symbol(place).section].kind == Kind::FunctionShared
        })
}

/// The shared variables that any code which prevails names, even code that is not needed.
fn used_at_all(program: &Program<'_>, direct: &[Vec<usize>]) -> Vec<bool> {
    let mut used = vec![false; program.symbols.len()];
    for variable in direct.iter().flatten() {
        used[*variable] = true;
    }
    used
}

/// The largest alignment among the sections with shared variables of device functions.
fn function_alignment(program: &Program<'_>) -> u64 {
    let sections = program.units.iter().flat_map(|unit| &unit.sections);
    let alignments = sections.filter(|section| section.kind == Kind::FunctionShared).map(|section| section.alignment);
    alignments.max().unwrap_or(1)
}
