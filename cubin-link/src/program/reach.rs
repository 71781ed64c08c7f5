//! What is needed, and what kernels take with all that they call.

use super::{Calls, Program};
use crate::error::LinkError;
use crate::unit::{Attribute, Kind, SymbolKind, Value, records};

/// Which functions are needed, and what each of them reaches.
#[derive(Debug)]
pub(crate) struct Reach {
    /// By number of the symbol. Only functions count; variables are always kept.
    pub(crate) needed: Vec<bool>,
    /// What may run when a function runs, by number, each in order.
    runs: Vec<Vec<usize>>,
}

/// Which kernels a cubin gets, by name; `None` for all.
pub(crate) type Kept<'k> = Option<&'k (dyn Fn(&str) -> bool + Sync)>;

/// What a kernel takes with all that it may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Totals {
    pub(crate) registers: u32,
    /// In bytes; `None` if it is not limited, because a function may call itself.
    pub(crate) stack: Option<u32>,
    /// Number of barriers of a block.
    pub(crate) barriers: u16,
    /// Functions of the system that may be called, in the order of their symbols.
    pub(crate) externs: Vec<usize>,
}

impl Reach {
    /// Follows calls from kernels. `in_data` are the functions whose addresses are in variables: these stay, and so do those whose address
    /// any code takes. But what they call stays only if they may run, by their name or by a pointer with their prototype.
    /// Kernels without their name among the kept ones are dead code.
    pub(crate) fn new(program: &Program<'_>, calls: &Calls<'_>, in_data: &[usize], kept: Kept<'_>) -> Self {
        let count = program.symbols.len();
        let runs = (0..count).map(|number| runs(program, calls, number)).collect();
        let mut reach = Reach { needed: vec![false; count], runs };
        let kernels = (0..count).filter(|number| {
            let linked = &program.symbols[*number];
            linked.kind == SymbolKind::Kernel && linked.place.is_some() && kept.is_none_or(|kept| kept(linked.name))
        });
        let mut stack: Vec<usize> = kernels.collect();
        while let Some(number) = stack.pop() {
            if !std::mem::replace(&mut reach.needed[number], true) {
                stack.extend(&reach.runs[number]);
            }
        }
        for number in calls.taken.iter().chain(in_data) {
            reach.needed[*number] = true;
        }
        // What the system provides is never missing.
        let callees = (0..count).filter(|number| reach.needed[*number]).flat_map(|number| &calls.callees[number]);
        let undefined: Vec<usize> =
            callees.copied().filter(|callee| program.symbols[*callee].place.is_none()).collect();
        undefined.into_iter().for_each(|callee| reach.needed[callee] = true);
        reach
    }

    /// All functions that may run when this one runs, itself included, in the order of their numbers.
    pub(crate) fn from(&self, number: usize) -> Vec<usize> {
        let seen = self.reached_from(vec![number]);
        (0..seen.len()).filter(|number| seen[*number]).collect()
    }

    /// The same for all of these functions together, as marks by number.
    fn reached_from(&self, mut stack: Vec<usize>) -> Vec<bool> {
        let mut seen = vec![false; self.runs.len()];
        while let Some(number) = stack.pop() {
            if !std::mem::replace(&mut seen[number], true) {
                stack.extend(&self.runs[number]);
            }
        }
        seen
    }

    /// A function that no kernel runs stays if its address is taken. If kernels are left out beside it, nvlink has other kernels run it: which
    /// ones is not known.
    ///
    /// # Errors
    /// There is such a function.
    pub(crate) fn check_left_out(&self, program: &Program<'_>) -> Result<(), LinkError> {
        let kernels = |kept: bool| {
            let all = 0..self.runs.len();
            all.filter(move |number| {
                let linked = &program.symbols[*number];
                linked.kind == SymbolKind::Kernel && linked.place.is_some() && self.needed[*number] == kept
            })
        };
        if kernels(false).next().is_none() {
            return Ok(());
        }
        let runs = self.reached_from(kernels(true).collect());
        let is_odd = |number: &usize| self.needed[*number] && !runs[*number];
        let Some(odd) = (0..runs.len()).find(is_odd) else { return Ok(()) };
        let linked = &program.symbols[odd];
        let what = format!("function {}, which no kernel runs, beside kernels that are left out", linked.name);
        Err(LinkError::unsupported(program.units[linked.first_unit].file, 0, what))
    }

    /// nvlink rejects a kernel that may run a function with more registers than the kernel was compiled for.
    ///
    /// # Errors
    /// There is such a kernel.
    pub(crate) fn check_registers(&self, program: &Program<'_>) -> Result<(), LinkError> {
        let too_small = |number: &usize| {
            let limit = short_of(program, *number, Attribute::MOST_REGISTERS);
            self.has_kernel(program, *number)
                && limit.is_some_and(|limit| {
                    self.from(*number)
                        .iter()
                        .filter_map(|number| registers(program, *number))
                        .any(|own| own > limit.into())
                })
        };
        let Some(kernel) = (0..self.runs.len()).find(too_small) else { return Ok(()) };
        let linked = &program.symbols[kernel];
        let what = format!("kernel {}, which may run a function with more registers than it may have", linked.name);
        Err(LinkError::unsupported(program.units[linked.first_unit].file, 0, what))
    }

    /// Whether the cubin has this kernel.
    pub(crate) fn has_kernel(&self, program: &Program<'_>, number: usize) -> bool {
        let linked = &program.symbols[number];
        linked.kind == SymbolKind::Kernel && linked.place.is_some() && self.needed[number]
    }

    /// What a kernel takes.
    pub(crate) fn totals(&self, program: &Program<'_>, kernel: usize) -> Totals {
        let reached = self.from(kernel);
        let registers = reached.iter().filter_map(|number| registers(program, *number)).max().unwrap_or(0);
        let barriers =
            reached.iter().filter_map(|number| short_of(program, *number, Attribute::BARRIERS)).max().unwrap_or(0);
        let externs = reached.iter().copied().filter(|number| program.symbols[*number].place.is_none()).collect();
        let mut depth = Depth { reach: self, program, states: vec![State::New; self.runs.len()] };
        Totals { registers, stack: depth.of(kernel), barriers, externs }
    }
}

/// What may run when a function runs, besides itself: what it calls by name, and what has the prototype of its calls through pointers.
/// To take an address runs nothing.
fn runs(program: &Program<'_>, calls: &Calls<'_>, number: usize) -> Vec<usize> {
    let mut all = calls.callees[number].clone();
    if !calls.pointers[number].is_empty() {
        let fits = |other: &usize| calls.taken_as[*other].iter().any(|text| calls.pointers[number].contains(text));
        all.extend((0..program.symbols.len()).filter(fits));
    }
    all
}

fn registers(program: &Program<'_>, number: usize) -> Option<u32> {
    let place = program.symbols[number].place?;
    program.own[place.unit].registers[place.symbol]
}

/// A short value among the attributes of a function itself, such as `NUM_BARRIERS`; the largest if there are several.
fn short_of(program: &Program<'_>, number: usize, attribute: u8) -> Option<u16> {
    let place = program.symbols[number].place?;
    let code = program.symbol(place).section;
    let sections = program.units[place.unit].sections.iter();
    let own = sections.filter(|section| section.kind == Kind::FunctionAttributes(code));
    let all = own.filter_map(|section| records(section.data)).flatten();
    let short = |value| match value {
        Value::Short(number) => Some(number),
        Value::Bytes(_) => None,
    };
    all.filter(|record| record.attribute == attribute).filter_map(|record| short(record.value)).max()
}

/// Computes how deep the stack may get.
struct Depth<'p, 'a> {
    reach: &'p Reach,
    program: &'p Program<'a>,
    states: Vec<State>,
}

#[derive(Debug, Clone, Copy)]
enum State {
    New,
    Open,
    Done(Option<u32>),
}

impl Depth<'_, '_> {
    /// In bytes; without a recursion of its own, because calls may be nested deeply.
    fn of(&mut self, start: usize) -> Option<u32> {
        let mut stack = vec![(start, 0)];
        self.states[start] = State::Open;
        while let Some((number, next)) = stack.pop() {
            let Some(callee) = self.reach.runs[number].get(next).copied() else {
                self.states[number] = State::Done(self.close(number));
                continue;
            };
            stack.push((number, next + 1));
            if matches!(self.states[callee], State::New) {
                self.states[callee] = State::Open;
                stack.push((callee, 0));
            }
        }
        match self.states[start] {
            State::Done(depth) => depth,
            State::New | State::Open => None,
        }
    }

    /// The depth of a function whose callees are done, but for those that call it.
    fn close(&self, number: usize) -> Option<u32> {
        let place = self.program.symbols[number].place;
        let own = place.and_then(|place| self.program.own[place.unit].frame[place.symbol]).unwrap_or(0);
        let mut deepest = 0;
        for callee in &self.reach.runs[number] {
            match self.states[*callee] {
                State::Done(Some(depth)) => deepest = deepest.max(depth),
                // It calls itself, or something below does.
                State::Done(None) | State::Open | State::New => return None,
            }
        }
        own.checked_add(deepest)
    }
}
