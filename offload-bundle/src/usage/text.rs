//! The resources of functions as tables.

use std::collections::{BTreeMap, BTreeSet};

use super::{CubinPart, CubinUsage, FunctionUsage, OBJECTS, Order};
use crate::listing::aligned;
use crate::printable;

/// Turns mangled names into what is printed.
pub type Shown<'l> = dyn Fn(&[&str], Option<usize>) -> Vec<String> + 'l;

/// How tables are printed.
pub struct Layout<'l> {
    /// Turns the names of a table's functions into what is printed, each in so many columns if that is given.
    pub shown: &'l Shown<'l>,
    /// The columns of the terminal.
    pub width: Option<usize>,
    /// What the functions are sorted by, where those of several cubins share a table.
    pub order: Order,
    /// The most functions of a table.
    pub top: Option<usize>,
    /// A table for each cubin, however many there are.
    pub full: bool,
}

impl<'l> Layout<'l> {
    /// Tables of any width, whose names `shown` prints.
    pub fn new(shown: &'l Shown<'l>) -> Self {
        Self { shown, width: None, order: Order::default(), top: None, full: false }
    }
}

/// More cubins than this are summed up, unless each is to have its table.
const MOST_TABLES: usize = 3;
/// The functions of the table of many cubins.
const TOP: usize = 20;

/// The cubins of each file as tables under headings: one table for each cubin, or one for all if there are many.
pub fn text(files: &[(Option<&str>, &[CubinUsage])], layout: &Layout<'_>) -> String {
    let all: Vec<(Option<&str>, &CubinUsage)> =
        files.iter().flat_map(|(file, cubins)| cubins.iter().map(|cubin| (*file, cubin))).collect();
    if all.is_empty() {
        return "no cubins and no code objects\n".to_owned();
    }
    if !layout.full && all.len() > MOST_TABLES {
        return summed_up(&all, layout);
    }
    let of_file = |(file, cubins): &(Option<&str>, &[CubinUsage])| {
        let heading = file.map(|file| format!("{}:\n", printable::name(file))).unwrap_or_default();
        heading + &cubins.iter().map(|cubin| block(cubin, layout)).collect::<Vec<_>>().join("\n")
    };
    files.iter().filter(|(_, cubins)| !cubins.is_empty()).map(of_file).collect::<Vec<_>>().join("\n")
}

/// A table of targets, and one of the largest functions.
fn summed_up(all: &[(Option<&str>, &CubinUsage)], layout: &Layout<'_>) -> String {
    let size = all.iter().map(|(_, cubin)| cubin.size).fold(0, u64::saturating_add);
    let mut parts: BTreeMap<&str, u64> = BTreeMap::new();
    for part in all.iter().flat_map(|(_, cubin)| &cubin.parts) {
        let bytes = parts.entry(part.name).or_default();
        *bytes = bytes.saturating_add(part.bytes);
    }
    let mut parts: Vec<CubinPart> = parts.into_iter().map(|(name, bytes)| CubinPart { name, bytes }).collect();
    parts.sort_by_key(|part| std::cmp::Reverse(part.bytes));
    let mut out =
        format!("{} cubins and code objects, {size} bytes: {}\n{}", all.len(), shares(&parts, size), targets(all));
    let mut functions: Vec<(&CubinUsage, &FunctionUsage)> =
        all.iter().flat_map(|(_, cubin)| cubin.functions.iter().map(|function| (*cubin, function))).collect();
    let count = functions.len();
    functions.sort_by(|(_, a), (_, b)| layout.order.of(a, b));
    functions.truncate(layout.top.unwrap_or(TOP));
    out += &format!("\nthe first {} of {count} functions; --full has a table for each cubin\n", functions.len());
    let code: u64 =
        all.iter().flat_map(|(_, cubin)| &cubin.functions).map(|function| function.code).fold(0, u64::saturating_add);
    let rows = functions.iter().map(|(cubin, function)| (Some(cubin.target.as_str()), *function));
    out + &rows_of(&rows.collect::<Vec<_>>(), code, layout)
}

/// A line for each target.
fn targets(all: &[(Option<&str>, &CubinUsage)]) -> String {
    let mut targets: BTreeMap<&str, Vec<&CubinUsage>> = BTreeMap::new();
    for (_, cubin) in all {
        targets.entry(&cubin.target).or_default().push(cubin);
    }
    let headings = ["TARGET", "CUBINS", "BYTES", "FUNCTIONS", "CODE", "MOST REGISTERS", "SPILLING"];
    let mut lines = vec![headings.map(str::to_owned)];
    for (target, cubins) in targets {
        let functions = || cubins.iter().flat_map(|cubin| &cubin.functions);
        let registers = functions().filter_map(|function| function.registers).max();
        lines.push([
            printable::name(target).into_owned(),
            cubins.len().to_string(),
            cubins.iter().map(|cubin| cubin.size).fold(0, u64::saturating_add).to_string(),
            functions().count().to_string(),
            functions().map(|function| function.code).fold(0, u64::saturating_add).to_string(),
            registers.map_or("-".to_owned(), |number| number.to_string()),
            functions().filter(|function| function.spilled() > 0).count().to_string(),
        ]);
    }
    aligned(&lines, |_| true, |column| column >= 1)
}

fn block(cubin: &CubinUsage, layout: &Layout<'_>) -> String {
    let member = cubin.member.as_ref().map(|member| format!(" ({})", printable::name(member))).unwrap_or_default();
    let section = cubin.section.as_ref().filter(|_| cubin.is_in(OBJECTS));
    let section = section.map(|section| format!(" in {section}")).unwrap_or_default();
    let mut out = format!("{}: {} {}{member}{section}, {} bytes: ", cubin.index, cubin.form, cubin.target, cubin.size);
    out += &shares(&cubin.parts, cubin.size);
    out.push('\n');
    if cubin.global > 0 || cubin.constant > 0 {
        out += &format!("   memory of the GPU: variables {}, shared constants {}\n", cubin.global, cubin.constant);
    }
    let code = cubin.functions.iter().map(|function| function.code).fold(0, u64::saturating_add);
    let shown = cubin.functions.iter().take(layout.top.unwrap_or(usize::MAX));
    out + &rows_of(&shown.map(|function| (None, function)).collect::<Vec<_>>(), code, layout)
}

/// `code 512 (40 %), symbols 300 (23 %)`.
fn shares(parts: &[CubinPart], size: u64) -> String {
    let part = |part: &CubinPart| format!("{} {} ({} %)", part.name, part.bytes, percent(part.bytes, size));
    parts.iter().map(part).collect::<Vec<_>>().join(", ")
}

fn percent(part: u64, whole: u64) -> u64 {
    part.saturating_mul(100).saturating_add(whole / 2).checked_div(whole).unwrap_or(0)
}

const HEADINGS: [&str; 8] = ["CODE", "%", "REGISTERS", "SPILLS", "STACK", "SHARED", "CONSTANT", "TARGET"];

/// A line for each function, with its target if the table is one of several.
fn rows_of(functions: &[(Option<&str>, &FunctionUsage)], code: u64, layout: &Layout<'_>) -> String {
    if functions.is_empty() {
        return String::new();
    }
    let has_targets = functions.iter().any(|(target, _)| target.is_some());
    let columns = if has_targets { HEADINGS.len() } else { HEADINGS.len() - 1 };
    let mut lines = vec![HEADINGS.map(str::to_owned).to_vec()];
    lines.extend(functions.iter().map(|(target, function)| cells(function, code, target.unwrap_or_default())));
    lines.iter_mut().for_each(|line| line.truncate(columns));
    let front = aligned(&lines, |_| true, |_| true).lines().map(|line| line.chars().count() + 2).max().unwrap_or(0);
    // A terminal without room for any name gets whole ones.
    let room = layout.width.and_then(|width| width.checked_sub(front)).filter(|room| *room >= 16);
    let functions: Vec<&FunctionUsage> = functions.iter().map(|(_, function)| *function).collect();
    let names = ["FUNCTION".to_owned()].into_iter().chain(names(&functions, room, layout));
    lines.iter_mut().zip(names).for_each(|(line, name)| line.push(name));
    aligned(&lines, |_| true, |column| column < columns)
}

/// The names of a table, with what there is to say of each function behind it.
fn names(functions: &[&FunctionUsage], room: Option<usize>, layout: &Layout<'_>) -> Vec<String> {
    let suffixes: Vec<String> = functions.iter().map(|function| suffix(function)).collect();
    let mangled: Vec<&str> = functions.iter().map(|function| function.name.as_str()).collect();
    let room_of = |suffix: &String| room.map(|room| room.saturating_sub(suffix.chars().count()).max(16));
    let rooms: BTreeSet<Option<usize>> = suffixes.iter().map(room_of).collect();
    let shown: BTreeMap<Option<usize>, Vec<String>> =
        rooms.into_iter().map(|room| (room, (layout.shown)(&mangled, room))).collect();
    let name = |(place, suffix)| {
        let name = shown.get(&room_of(suffix)).and_then(|names| names.get(place));
        format!("{}{suffix}", printable::name(name.map_or(mangled[place], String::as_str)))
    };
    suffixes.iter().enumerate().map(name).collect()
}

fn suffix(function: &FunctionUsage) -> String {
    let kind = if function.kernel { "" } else { " [function]" };
    let notes: String = function.notes.iter().map(|note| format!(" ({note})")).collect();
    format!("{kind}{notes}")
}

fn cells(function: &FunctionUsage, code: u64, target: &str) -> Vec<String> {
    let number = |number: Option<u32>| number.map_or("-".to_owned(), |number| number.to_string());
    vec![
        function.code.to_string(),
        percent(function.code, code).to_string(),
        number(function.registers),
        match (function.spill_stores, function.spill_loads) {
            (None, None) => "0".to_owned(),
            // AMD's metadata does not count loads.
            (Some(stores), None) => stores.to_string(),
            (stores, loads) => format!("{}+{}", stores.unwrap_or(0), loads.unwrap_or(0)),
        },
        number(function.stack),
        function.shared.to_string(),
        function.constant.to_string(),
        printable::name(target).into_owned(),
    ]
}
