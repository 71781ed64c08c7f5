//! The table of functions.

use offload_bundle::usage::FunctionUsage;

use crate::contents::{FileContents, Image};
use crate::table::CellKind::{Bytes, Change, Name, Number, Text};
use crate::table::{Cell, Column, Demangle, Table, Texts};

const NAME: Column = Column::new("name", "Function", Name, "Its demangled name; the mangled one is found, too");
const TARGET: Column = Column::new("target", "Target", Text, "What it is compiled for");
const KERNEL: Column = Column::new("kind", "Kind", Text, "kernel: the host can launch it");
const PLACE: Column = Column::new("place", "Image", Text, "The line of offload-bundle list, and the file");

/// What `offload-bundle resources` says of a function, but for its name.
const RESOURCES: [Column; 9] = [
    Column::new("code", "Code", Bytes, "Bytes of machine code"),
    Column::new("registers", "Registers", Number, "Registers of each thread"),
    Column::new("stores", "Spill stores", Bytes, "Bytes that each thread spills to local memory"),
    Column::new("loads", "Spill loads", Bytes, "Bytes that each thread reloads"),
    Column::new("stack", "Stack", Bytes, "Local memory of each thread, with that of the functions it calls"),
    Column::new("shared", "Shared", Bytes, "Shared memory of each block, without what the launch adds"),
    Column::new("constant", "Constants", Bytes, "Constant memory of its own, parameters included"),
    Column::new("parameters", "Parameters", Bytes, "Bytes of parameters"),
    Column::new("barriers", "Barriers", Number, "Barriers of each block"),
];
const NOTES: Column = Column::new("notes", "Notes", Text, "What to look at first");

fn cells(function: &FunctionUsage) -> [Cell; 9] {
    [
        function.code.into(),
        function.registers.into(),
        function.spill_stores.into(),
        function.spill_loads.into(),
        function.stack.into(),
        function.shared.into(),
        function.constant.into(),
        function.parameters.into(),
        function.barriers.into(),
    ]
}

fn word(function: &FunctionUsage) -> &'static str {
    if function.kernel { "kernel" } else { "function" }
}

/// The functions of files.
pub(crate) fn table(files: &[FileContents], texts: &mut Texts, demangle: Demangle<'_>) -> Table {
    let mut rows = Vec::new();
    for file in files {
        for (number, image, function) in functions(file) {
            let place = match files.len() {
                1 => format!("{number}"),
                _ => format!("{number} of {}", file.name),
            };
            let mut row = vec![Cell::Number(texts.name(&function.name, demangle) as u64), texts.text(image.target())];
            row.extend(cells(function));
            row.extend([texts.text(word(function)), texts.text(&place)]);
            row.push(if function.notes.is_empty() { Cell::None } else { texts.text(&function.notes.join("; ")) });
            rows.push(row);
        }
    }
    let columns = [NAME, TARGET].into_iter().chain(RESOURCES).chain([KERNEL, PLACE, NOTES]).collect();
    Table { id: "kernels", title: "Kernels", note: String::new(), columns, rows, sorted_by: Some(2) }
}

/// The functions of a file, each with its image and the image's number.
fn functions(file: &FileContents) -> impl Iterator<Item = (usize, &Image, &FunctionUsage)> {
    let images = file.images.iter().enumerate();
    images.flat_map(|(index, image)| {
        let functions = image.usage.iter().flat_map(|usage| &usage.functions);
        functions.map(move |function| (index + 1, image, function))
    })
}

const STATUS: Column = Column::new("change", "Change", Text, "added, removed or changed");
/// What is compared of a function.
const COMPARED: [Column; 9] = [
    Column::new("delta", "Δ code", Change, "Bytes of machine code more"),
    Column::new("code", "Code", Bytes, "Bytes of machine code after the change"),
    Column::new("old", "Code before", Bytes, "Bytes of machine code before the change"),
    Column::new("registers", "Registers", Number, "Registers of each thread after the change"),
    Column::new("oldregisters", "before", Number, "Registers of each thread before the change"),
    Column::new("spills", "Spills", Bytes, "Bytes spilled and reloaded after the change"),
    Column::new("oldspills", "before", Bytes, "Bytes spilled and reloaded before the change"),
    Column::new("shared", "Shared", Bytes, "Shared memory of each block after the change"),
    Column::new("oldshared", "before", Bytes, "Shared memory of each block before the change"),
];

/// One function before and after a change.
pub(crate) struct Compared<'f> {
    /// The target.
    pub target: &'f str,
    /// Before.
    pub old: Option<&'f FunctionUsage>,
    /// After.
    pub new: Option<&'f FunctionUsage>,
    /// Its machine code differs, whatever its size.
    pub is_changed: bool,
}

/// The functions that differ; `same` are not shown.
pub(crate) fn compared(all: &[Compared<'_>], same: usize, texts: &mut Texts, demangle: Demangle<'_>) -> Table {
    let spills = |function: &FunctionUsage| function.spill_stores.unwrap_or(0) + function.spill_loads.unwrap_or(0);
    let of = |function: Option<&FunctionUsage>| {
        let cell = |cell: &dyn Fn(&FunctionUsage) -> Cell| function.map_or(Cell::None, cell);
        [
            cell(&|f| f.code.into()),
            cell(&|f| f.registers.into()),
            cell(&|f| Cell::Number(spills(f))),
            cell(&|f| f.shared.into()),
        ]
    };
    let mut rows = Vec::with_capacity(all.len());
    for one in all {
        let Some(named) = one.new.or(one.old) else { continue };
        let status = match (one.old, one.new) {
            (None, _) => "added",
            (_, None) => "removed",
            _ if one.is_changed => "changed",
            _ => "same code",
        };
        let size = |function: Option<&FunctionUsage>| function.map_or(0, |function| function.code.cast_signed());
        let delta = size(one.new).saturating_sub(size(one.old));
        let [code, registers, spilled, shared] = of(one.new);
        let [old_code, old_registers, old_spilled, old_shared] = of(one.old);
        rows.push(vec![
            Cell::Number(texts.name(&named.name, demangle) as u64),
            texts.text(one.target),
            texts.text(status),
            Cell::Change(delta),
            code,
            old_code,
            registers,
            old_registers,
            spilled,
            old_spilled,
            shared,
            old_shared,
            texts.text(word(named)),
        ]);
    }
    let columns = [NAME, TARGET, STATUS].into_iter().chain(COMPARED).chain([KERNEL]).collect();
    let note = format!("{same} functions are the same in both.");
    Table { id: "kernels", title: "Functions that differ", note, columns, rows, sorted_by: Some(3) }
}
