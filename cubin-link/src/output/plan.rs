//! Which sections the cubin has, in the order of nvlink.

use rustc_hash::FxHashMap;

use crate::layout::Layout;
use crate::program::{Calls, Linked, Program, Reach, Totals};
use crate::relocate::Kept;
use crate::shared::Shared;
use crate::unit::{Kind, SymbolKind};

use super::FIRST_SECTIONS;

/// Everything that is known when the cubin is written.
pub(crate) struct Image<'p, 'a> {
    /// As in messages and options: `sm_90`.
    pub(crate) target: &'p str,
    pub(crate) program: &'p Program<'a>,
    pub(crate) calls: &'p Calls<'a>,
    pub(crate) reach: &'p Reach,
    pub(crate) layout: &'p Layout<'a>,
    pub(crate) shared: &'p Shared,
    /// By merged section: bytes and relocations.
    pub(crate) data: Vec<(Vec<u8>, Vec<Kept>)>,
    /// By function: code and relocations.
    pub(crate) code: Vec<(Vec<u8>, Vec<Kept>)>,
    /// By kernel.
    pub(crate) totals: Vec<Option<Totals>>,
}

impl Image<'_, '_> {
    /// Whether the cubin has the code of a function.
    pub(crate) fn has_code(&self, function: usize) -> bool {
        let linked = &self.program.symbols[function];
        linked.kind.is_code() && linked.place.is_some() && self.reach.needed[function]
    }

    /// The functions whose first definition is in a unit and whose code the cubin has.
    fn functions_of(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        let numbers = 0..self.program.symbols.len();
        numbers.filter(move |function| {
            self.program.symbols[*function].owners.first() == Some(&unit) && self.has_code(*function)
        })
    }

    /// The function that a section of a unit is about, if the cubin has the code from this unit.
    pub(super) fn function_of(&self, unit: usize, section: usize) -> Option<usize> {
        let code = match self.program.units[unit].sections[section].kind {
            Kind::FunctionConstants(_, code) | Kind::FunctionAttributes(code) => code,
            _ => section,
        };
        let (symbol, function) = self.program.function_in(unit, code)?;
        (self.program.prevails(unit, symbol) && self.has_code(function)).then_some(function)
    }

    /// `sh_flags` and alignment of the code of a function.
    pub(super) fn code_form(&self, function: usize) -> (u64, u64) {
        let place = self.program.symbols[function].place;
        let section = place.map(|place| &self.program.units[place.unit].sections[self.program.symbol(place).section]);
        section.map_or((0, 1), |section| (section.flags, section.alignment))
    }
}

/// A section of the cubin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Part {
    ToolNote,
    ReleaseNote,
    Attributes,
    Compatibility,
    FunctionAttributes(usize),
    Calls,
    Prototypes,
    Actions,
    Relocations(Of),
    Merged(usize),
    /// Unit and section.
    FunctionConstants(usize, usize),
    Code(usize),
    KernelShared(usize),
    FunctionShared,
}

/// What relocations are about: a merged section, or the code of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Of {
    Merged(usize),
    Code(usize),
}

impl Of {
    pub(super) fn part(self) -> Part {
        match self {
            Of::Merged(number) => Part::Merged(number),
            Of::Code(function) => Part::Code(function),
        }
    }
}

/// The sections in order.
pub(super) struct Plan {
    pub(super) parts: Vec<Part>,
    numbers: FxHashMap<Part, u32>,
}

impl Plan {
    pub(super) fn new(image: &Image<'_, '_>) -> Self {
        let merged = |wanted: fn(Kind) -> bool| {
            let sections = image.layout.merged.iter().enumerate();
            sections.filter(move |(_, merged)| wanted(merged.kind)).map(|(number, _)| Part::Merged(number))
        };
        let mut parts: Vec<Part> = merged(|kind| kind == Kind::Frames).collect();
        parts.extend([Part::ToolNote, Part::ReleaseNote, Part::Attributes, Part::Compatibility]);
        parts.extend(function_attributes(image));
        parts.push(Part::Calls);
        if super::calls::has_prototypes(image) {
            parts.push(Part::Prototypes);
        }
        parts.push(Part::Actions);
        parts.extend(relocations(image));
        parts.extend(constants(image));
        let units = 0..image.program.units.len();
        parts.extend(units.flat_map(|unit| image.functions_of(unit)).map(Part::Code));
        parts.extend(merged(|kind| kind == Kind::Initialized));
        parts.extend(without_bytes(image));
        let numbers = (FIRST_SECTIONS as u32..).zip(&parts).map(|(number, part)| (*part, number)).collect();
        Plan { parts, numbers }
    }

    /// The number of a section in the cubin; 0 if it is not there.
    pub(super) fn number(&self, part: Part) -> u32 {
        self.numbers.get(&part).copied().unwrap_or(0)
    }

    pub(super) fn name(&self, image: &Image<'_, '_>, part: Part) -> String {
        let function = |prefix: &str, number: usize| format!("{prefix}{}", image.program.symbols[number].name);
        match part {
            Part::ToolNote => ".note.nv.tkinfo".to_owned(),
            Part::ReleaseNote => ".note.nv.cuinfo".to_owned(),
            Part::Attributes => ".nv.info".to_owned(),
            Part::Compatibility => ".nv.compat".to_owned(),
            Part::FunctionAttributes(number) => function(".nv.info.", number),
            Part::Calls => ".nv.callgraph".to_owned(),
            Part::Prototypes => ".nv.prototype".to_owned(),
            Part::Actions => ".nv.rel.action".to_owned(),
            Part::Relocations(of) => format!(".rela{}", self.name(image, of.part())),
            Part::Merged(number) => image.layout.merged[number].name.to_owned(),
            Part::FunctionConstants(unit, section) => image.program.units[unit].sections[section].name.to_owned(),
            Part::Code(number) => function(".text.", number),
            Part::KernelShared(number) => function(".nv.shared.", number),
            Part::FunctionShared => ".nv_debug.shared".to_owned(),
        }
    }
}

/// Unit by unit: kernels in the order of their symbols, other functions in that of their sections.
fn function_attributes(image: &Image<'_, '_>) -> Vec<Part> {
    let mut parts = Vec::new();
    for (number, unit) in image.program.units.iter().enumerate() {
        let is_kernel = |function: &usize| image.program.symbols[*function].kind == SymbolKind::Kernel;
        parts.extend(image.functions_of(number).filter(is_kernel));
        for section in &unit.sections {
            let Kind::FunctionAttributes(code) = section.kind else { continue };
            let function = image.program.function_in(number, code).map(|(_, function)| function);
            let first = |function: &usize| image.program.symbols[*function].owners.first() == Some(&number);
            parts.extend(
                function.filter(|function| !is_kernel(function) && first(function) && image.has_code(*function)),
            );
        }
    }
    parts.into_iter().map(Part::FunctionAttributes).collect()
}

/// In the order in which units have relocations of these sections first.
fn relocations(image: &Image<'_, '_>) -> Vec<Part> {
    let mut all = Vec::new();
    let mut seen = rustc_hash::FxHashSet::default();
    for (number, unit) in image.program.units.iter().enumerate() {
        for section in &unit.sections {
            let Kind::Relocations(target) = section.kind else { continue };
            let of = match unit.sections[target].kind {
                Kind::Code => image.program.function_in(number, target).map(|(_, function)| Of::Code(function)),
                _ => image.layout.place(number, target).map(|(merged, _)| Of::Merged(merged)),
            };
            let has_some = |of: &Of| match of {
                Of::Merged(merged) => !image.data[*merged].1.is_empty(),
                Of::Code(function) => image.has_code(*function) && !image.code[*function].1.is_empty(),
            };
            all.extend(of.filter(has_some).filter(|of| seen.insert(*of)).map(Part::Relocations));
        }
    }
    all
}

/// Unit by unit: banks with variables, and then the others, most of them with the parameters of kernels.
fn constants(image: &Image<'_, '_>) -> Vec<Part> {
    let mut all = Vec::new();
    for (number, unit) in image.program.units.iter().enumerate() {
        let part = |section: usize| match unit.sections[section].kind {
            Kind::Constants(_) => image.layout.place(number, section).map(|(merged, _)| Part::Merged(merged)),
            Kind::FunctionConstants(..) => {
                image.function_of(number, section).map(|_| Part::FunctionConstants(number, section))
            }
            _ => None,
        };
        let of_symbols = unit.symbols.iter().filter(|symbol| symbol.kind != SymbolKind::Section);
        let in_order = of_symbols.map(|symbol| symbol.section).chain(0..unit.sections.len());
        for part in in_order.filter_map(part) {
            if !all.contains(&part) {
                all.push(part);
            }
        }
    }
    all
}

/// Sections without bytes: unit by unit those of kernels, and then the others when a variable of theirs comes first.
fn without_bytes(image: &Image<'_, '_>) -> Vec<Part> {
    let mut all = Vec::new();
    let push = |all: &mut Vec<Part>, part: Part| {
        if !all.contains(&part) {
            all.push(part);
        }
    };
    // All variables have moved to kernels; an empty section stands for the array whose size the launch gives.
    let is_dynamic = |linked: &Linked<'_>| linked.kind == SymbolKind::Shared && linked.place.is_none();
    let has_dynamic = image.program.symbols.iter().any(is_dynamic);
    for (number, unit) in image.program.units.iter().enumerate() {
        let kernels = image.functions_of(number).filter(|kernel| image.shared.kernels[*kernel].is_some());
        all.extend(kernels.map(Part::KernelShared));
        for (symbol, linked) in unit.symbols.iter().zip(&image.program.numbers[number]) {
            let owns = linked.is_some_and(|linked| image.program.symbols[linked].owners.contains(&number));
            match unit.sections[symbol.section].kind {
                Kind::Zeroed if owns => {
                    let place = image.layout.place(number, symbol.section);
                    place.into_iter().for_each(|(merged, _)| push(&mut all, Part::Merged(merged)));
                }
                Kind::FunctionShared | Kind::Nothing if has_dynamic && symbol.kind == SymbolKind::Shared => {
                    push(&mut all, Part::FunctionShared);
                }
                _ => {}
            }
        }
    }
    let zeroed = image.layout.merged.iter().enumerate().filter(|(_, merged)| merged.kind == Kind::Zeroed);
    zeroed.for_each(|(merged, _)| push(&mut all, Part::Merged(merged)));
    all
}
