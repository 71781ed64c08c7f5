//! The symbols of the cubin, in the order of nvlink.

use crate::unit::{Binding, Kind, SymbolKind};

use super::plan::{Image, Part, Plan};

/// `st_info`: bindings and types.
const LOCAL: u8 = 0;
const GLOBAL: u8 = 0x10;
const WEAK: u8 = 0x20;
const OBJECT: u8 = 1;
const FUNCTION: u8 = 2;
const SECTION: u8 = 3;
/// `st_other` of a kernel.
const ENTRY: u8 = 0x10;
/// The same of a managed variable.
const MANAGED: u8 = 0x04;

/// A symbol of the cubin.
pub(super) struct OutSymbol {
    pub(super) name: String,
    pub(super) info: u8,
    pub(super) other: u8,
    /// Number of its section; 0 if it is undefined.
    pub(super) section: u32,
    pub(super) value: u64,
    pub(super) size: u64,
}

/// All symbols, and the texts that are not names of symbols.
pub(super) struct SymbolTable<'a> {
    pub(super) symbols: Vec<OutSymbol>,
    /// Number of symbols before the first global one.
    pub(super) local: u32,
    /// By number of the program's symbol.
    numbers: Vec<u32>,
    /// By section of the plan.
    sections: rustc_hash::FxHashMap<Part, u32>,
    /// Prototypes with their offsets in the table of strings, where they come first.
    pub(super) prototypes: Vec<(&'a str, u32)>,
}

/// What a symbol stands for.
#[derive(Clone, Copy)]
enum Entry {
    Section(Part),
    Linked(usize),
}

impl<'a> SymbolTable<'a> {
    pub(super) fn new(image: &Image<'_, 'a>, plan: &Plan) -> Self {
        let (local, global) = order(image, plan);
        let mut table = SymbolTable {
            symbols: vec![OutSymbol { name: String::new(), info: 0, other: 0, section: 0, value: 0, size: 0 }],
            local: local.len() as u32 + 1,
            numbers: vec![0; image.program.symbols.len()],
            sections: rustc_hash::FxHashMap::default(),
            prototypes: super::calls::prototype_texts(image),
        };
        for entry in local.into_iter().chain(global) {
            let number = table.symbols.len() as u32;
            let symbol = match entry {
                Entry::Section(part) => {
                    table.sections.insert(part, number);
                    let (name, section) = (plan.name(image, part), plan.number(part));
                    OutSymbol { name, info: LOCAL | SECTION, other: 0, section, value: 0, size: 0 }
                }
                Entry::Linked(linked) => {
                    table.numbers[linked] = number;
                    out_symbol(image, plan, linked)
                }
            };
            table.symbols.push(symbol);
        }
        table
    }

    /// The number of a symbol of the program; 0 if the cubin does not have it.
    pub(super) fn of(&self, linked: usize) -> u32 {
        self.numbers.get(linked).copied().unwrap_or(0)
    }

    /// The number of the symbol of a section.
    pub(super) fn of_section(&self, part: Part) -> Option<u32> {
        self.sections.get(&part).copied()
    }

    /// The offset of a prototype in the table of strings.
    pub(super) fn prototype(&self, text: &str) -> u32 {
        let found = self.prototypes.iter().find(|(known, _)| *known == text);
        found.map_or(0, |(_, offset)| *offset)
    }
}

fn out_symbol(image: &Image<'_, '_>, plan: &Plan, number: usize) -> OutSymbol {
    let linked = &image.program.symbols[number];
    let binding = match linked.binding {
        Binding::Local => LOCAL,
        Binding::Weak => WEAK,
        Binding::Global => GLOBAL,
    };
    let (kind, other) = match linked.kind {
        SymbolKind::Kernel => (FUNCTION, ENTRY),
        SymbolKind::Function => (FUNCTION, 0),
        SymbolKind::Managed => (OBJECT, MANAGED),
        _ => (OBJECT, 0),
    };
    let (mut section, mut value) = (0, 0);
    if linked.kind.is_code() {
        section = plan.number(Part::Code(number));
    } else if let Some(place) = linked.place {
        let symbol = image.program.symbol(place);
        if let Some((merged, base)) = image.layout.place(place.unit, symbol.section) {
            section = plan.number(Part::Merged(merged));
            value = base + symbol.value;
        }
    }
    OutSymbol { name: linked.name.to_owned(), info: binding | kind, other, section, value, size: linked.size }
}

/// Symbols that are not global when their first unit has them, with those of sections, and then the global ones.
fn order(image: &Image<'_, '_>, plan: &Plan) -> (Vec<Entry>, Vec<Entry>) {
    let mut order = Order { image, local: Vec::new(), global: Vec::new(), seen: rustc_hash::FxHashSet::default() };
    order.section(Part::ToolNote);
    order.section(Part::ReleaseNote);
    for unit in 0..image.program.units.len() {
        order.functions(unit);
        order.variables(unit);
        order.sections(unit);
    }
    for part in [Part::Calls, Part::Prototypes, Part::Actions] {
        if plan.number(part) != 0 {
            order.section(part);
        }
    }
    (order.local, order.global)
}

struct Order<'o, 'p, 'a> {
    image: &'o Image<'p, 'a>,
    local: Vec<Entry>,
    global: Vec<Entry>,
    seen: rustc_hash::FxHashSet<Part>,
}

impl Order<'_, '_, '_> {
    fn section(&mut self, part: Part) {
        if self.seen.insert(part) {
            self.local.push(Entry::Section(part));
        }
    }

    fn linked(&mut self, number: usize) {
        match self.image.program.symbols[number].first_binding {
            Binding::Global => self.global.push(Entry::Linked(number)),
            Binding::Local | Binding::Weak => self.local.push(Entry::Linked(number)),
        }
    }

    /// The functions that a unit names first or defines first, and the sections of their code.
    fn functions(&mut self, unit: usize) {
        let image = self.image;
        for (symbol, number) in image.program.numbers[unit].iter().enumerate() {
            let Some(number) = *number else { continue };
            let linked = &image.program.symbols[number];
            if !linked.kind.is_code() || !image.reach.needed[number] {
                continue;
            }
            if linked.first_unit == unit && first_place(image, unit, number) == symbol {
                self.linked(number);
            }
            if linked.owners.first() == Some(&unit) {
                self.section(Part::Code(number));
                if image.shared.kernels[number].is_some() {
                    self.section(Part::KernelShared(number));
                }
            }
        }
    }

    /// The variables that a unit names first or defines first, and their sections.
    fn variables(&mut self, unit: usize) {
        let image = self.image;
        for (symbol, of_unit) in image.program.units[unit].symbols.iter().enumerate() {
            if of_unit.kind == SymbolKind::FunctionConstant && image.function_of(unit, of_unit.section).is_some() {
                self.section(Part::FunctionConstants(unit, of_unit.section));
            }
            let Some(number) = image.program.numbers[unit][symbol] else { continue };
            let linked = &image.program.symbols[number];
            if linked.kind.is_code() || linked.kind == SymbolKind::Shared {
                continue;
            }
            if let Some((merged, _)) = image.layout.place(unit, of_unit.section)
                && linked.owners.contains(&unit)
            {
                self.section(Part::Merged(merged));
            }
            if linked.first_unit == unit && first_place(image, unit, number) == symbol {
                self.linked(number);
            }
        }
    }

    fn sections(&mut self, unit: usize) {
        let image = self.image;
        for (number, section) in image.program.units[unit].sections.iter().enumerate() {
            match section.kind {
                Kind::Frames | Kind::Constants(_) | Kind::Initialized | Kind::Zeroed => {
                    if let Some((merged, _)) = image.layout.place(unit, number) {
                        self.section(Part::Merged(merged));
                    }
                }
                Kind::FunctionConstants(..) if image.function_of(unit, number).is_some() => {
                    self.section(Part::FunctionConstants(unit, number));
                }
                _ => {}
            }
        }
    }
}

/// The first symbol of a unit that stands for this one of the program.
fn first_place(image: &Image<'_, '_>, unit: usize, number: usize) -> usize {
    image.program.numbers[unit].iter().position(|other| *other == Some(number)).unwrap_or(usize::MAX)
}
