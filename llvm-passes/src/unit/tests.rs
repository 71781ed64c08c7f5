use std::collections::BTreeSet;

use inkwell::attributes::AttributeLoc;
use inkwell::context::Context;
use inkwell::values::FunctionValue;

use super::open_unit::Budget;
use super::*;
use crate::reference_graph::Reference;
use crate::symbols::Strength;

const LINE: &str = "clang --cuda-include-ptx=all a.cu";

/// A kernel `k` that calls `f`, a declaration that nothing uses, and a recorded command line.
fn bitcode() -> Vec<u8> {
    let context = Context::create();
    let module = context.create_module("m");
    let kind = context.void_type().fn_type(&[], false);
    let [kernel, called, _unused] = ["k", "f", "unused"].map(|name| module.add_function(name, kind, None));
    kernel.set_call_conventions(71);
    kernel.add_attribute(AttributeLoc::Function, context.create_string_attribute("target-features", "+ptx88"));
    define(&context, kernel, Some(called));
    let line = context.metadata_node(&[context.metadata_string(LINE).into()]);
    module.add_global_metadata("llvm.commandline", &line).expect("a node");
    module.write_bitcode_to_memory().as_slice().to_vec()
}

fn define<'ctx>(context: &'ctx Context, function: FunctionValue<'ctx>, callee: Option<FunctionValue<'ctx>>) {
    let builder = context.create_builder();
    builder.position_at_end(context.append_basic_block(function, ""));
    callee.map(|callee| builder.build_call(callee, &[], "").expect("a place to build at"));
    builder.build_return(None).expect("a place to build at");
}

fn names(symbols: &[Symbol]) -> Vec<(&str, Strength)> {
    symbols.iter().map(|symbol| (symbol.name.as_str(), symbol.strength)).collect()
}

#[test]
fn everything_is_read_of_one_parse() {
    let bytes = bitcode();
    let unit = Unit::new("a.o", &bytes);
    let (strong, undefined) = (Strength::Strong, Strength::Undefined);
    assert_eq!(names(unit.symbols().unwrap()), [("k", strong), ("f", undefined), ("unused", undefined)]);
    assert_eq!(unit.module_flags().unwrap().ptx, BTreeSet::from(["+ptx88".to_owned()]));
    assert_eq!(unit.command_lines_with("cuda-include-ptx=").unwrap(), [LINE]);
    assert_eq!(unit.references().unwrap().globals[0].references.len(), 1);
    assert_eq!(names(unit.used_symbols().unwrap()), [("k", strong), ("f", undefined)]);
    assert_eq!(unit.times_opened(), 1);
}

#[test]
fn reading_the_references_first_leaves_nothing_to_open_for_the_checks() {
    let bytes = bitcode();
    let unit = Unit::new("a.o", &bytes);
    unit.references().unwrap();
    assert!(!unit.opened.lock().is_open());
    assert_eq!(unit.module_flags().unwrap().ptx.len(), 1);
    assert_eq!(unit.command_lines_with("cuda-include-ptx=").unwrap(), [LINE]);
    assert_eq!(unit.times_opened(), 1);
}

#[test]
fn threads_that_share_a_unit_open_it_once() {
    let bytes = bitcode();
    let unit = Unit::new("a.o", &bytes);
    std::thread::scope(|scope| {
        scope.spawn(|| unit.module_flags().unwrap());
        scope.spawn(|| unit.used_symbols().unwrap());
        scope.spawn(|| unit.references().unwrap());
        scope.spawn(|| unit.command_lines_with("--cuda-include-ptx=").unwrap());
    });
    assert_eq!(unit.times_opened(), 1);
}

#[test]
fn what_is_known_is_not_read() {
    let bytes = bitcode();
    let first = Unit::new("a.o", &bytes);
    first.references().unwrap();
    let again = Unit::new("b.o", &bytes).with_facts(first.facts());
    assert_eq!(again.references(), first.references());
    assert_eq!(again.module_flags(), first.module_flags());
    assert_eq!(again.used_symbols(), first.used_symbols());
    assert!(again.command_lines_with("no such option").unwrap().is_empty());
    assert_eq!((again.content_hash(), again.times_opened()), (first.content_hash(), 0));
}

/// Facts by the hash of the unit.
struct Kept(blake3::Hash, UnitFacts);

impl CachedFacts for Kept {
    fn of(&self, content: &blake3::Hash) -> Option<UnitFacts> {
        (*content == self.0).then(|| self.1.clone())
    }
}

#[test]
fn what_earlier_links_kept_is_not_read() {
    let bytes = bitcode();
    let first = Unit::new("a.o", &bytes);
    first.symbols().unwrap();
    let mut kept = Kept(first.content_hash(), UnitFacts::default());
    first.store_facts(|facts| kept.1 = facts);
    first.store_facts(|_| panic!("they are kept"));
    let again = Unit::new("a.o", &bytes).with_cached(Some(&kept));
    assert_eq!((again.symbols(), again.times_opened()), (first.symbols(), 0));
    again.store_facts(|_| panic!("nothing was read"));
    again.references().unwrap();
    assert_eq!(again.times_opened(), 1);
    let mut more = UnitFacts::default();
    again.store_facts(|facts| more = facts);
    assert!(more.symbols.is_some() && more.references.is_some());
}

#[test]
fn a_copy_takes_over_what_was_read() {
    let bytes = bitcode();
    let unit = Unit::new("a.o", &bytes);
    unit.symbols().unwrap();
    let copy = bytes.clone();
    let moved = unit.moved_to(&copy);
    assert!(moved.opened.lock().is_open() && !unit.opened.lock().is_open());
    assert_eq!(moved.symbols(), unit.symbols());
    moved.references().unwrap();
    assert_eq!((moved.name(), moved.times_opened()), ("a.o", 1));
    let mut other = bytes.clone();
    other.extend([0; 4]);
    let other = unit.moved_to(&other);
    assert_eq!((other.facts(), other.times_opened()), (UnitFacts::default(), 0));
}

#[test]
fn a_unit_that_was_hashed_and_then_changed_is_not_read() {
    let bytes = bitcode();
    let unit = Unit { hash: OnceLock::from(blake3::hash(b"before")), ..Unit::new("a.o", &bytes) };
    let error = unit.references().unwrap_err().to_string();
    assert!(error.starts_with("a.o: unreadable LLVM bitcode: it changed while it was read"), "{error}");
}

#[test]
fn facts_with_a_reference_to_nowhere_are_not_used() {
    let bytes = bitcode();
    let read = Unit::new("a.o", &bytes);
    read.references().unwrap();
    let forge = |forge: &dyn Fn(&mut UnitFacts, ReferenceGraph)| {
        let mut facts = read.facts();
        let mut graph = facts.references.clone().unwrap();
        let to = graph.globals.len() as u32;
        graph.globals[0].references.push(Reference { to, called: true });
        forge(&mut facts, graph);
        Unit::new("a.o", &bytes).with_facts(facts)
    };
    let forged = forge(&|facts, graph| facts.references = Some(graph));
    assert_eq!(forged.references(), read.references());
    assert_eq!(forged.times_opened(), 1);
    let forged = forge(&|facts, graph| facts.amd_facts = Some(AmdFacts { graph, ..AmdFacts::default() }));
    assert!(forged.facts().amd_facts.is_none());
}

#[test]
fn loading_for_the_compilation_fills_in_the_facts() {
    let bytes = bitcode();
    let (loaded, read) = (Unit::new("a.o", &bytes), Unit::new("a.o", &bytes));
    let session = Session::new();
    loaded.load_into(&session, Machine::Nvptx).unwrap();
    assert_eq!(loaded.used_symbols(), read.used_symbols());
    assert_eq!(loaded.module_flags(), read.module_flags());
    assert_eq!(loaded.times_opened(), 0);
}

#[test]
fn a_closed_unit_keeps_what_was_read() {
    let bytes = bitcode();
    let unit = Unit::new("a.o", &bytes);
    unit.symbols().unwrap();
    unit.close();
    assert_eq!(unit.symbols().unwrap().len(), 3);
    assert_eq!(unit.times_opened(), 1);
    unit.module_flags().unwrap();
    assert_eq!(unit.times_opened(), 2);
}

#[test]
fn damage_gives_the_same_error_however_the_unit_is_read() {
    let sound = bitcode();
    // Only what LLVM's reader rejects; it does not survive damage everywhere.
    for cut in [16, sound.len() / 2 / 4 * 4] {
        let bytes = &sound[..cut];
        let session = Session::new();
        let whole = session.read("a.o", bytes).map(drop).unwrap_err();
        let unit = Unit::new("a.o", bytes);
        assert_eq!(unit.references().unwrap_err(), whole);
        assert_eq!(unit.symbols().unwrap_err().to_string().split(':').next(), Some("a.o"));
    }
    assert!(matches!(Unit::new("a.o", b"text").module_flags(), Err(IrError::Bitcode { .. })));
}

#[test]
fn code_for_other_processors_is_rejected() {
    let context = Context::create();
    let module = context.create_module("m");
    module.set_triple(&inkwell::targets::TargetTriple::create("x86_64-pc-linux-gnu"));
    let bytes = module.write_bitcode_to_memory().as_slice().to_vec();
    let error = Unit::new("a.o", &bytes).references().unwrap_err();
    assert_eq!(
        error.to_string(),
        "a.o: unreadable LLVM bitcode: it holds code for x86_64-pc-linux-gnu, not for nvptx64; compile the file for the target of the link"
    );
}

#[test]
fn without_memory_for_open_units_they_close_and_the_checks_still_parse_nothing() {
    static NONE: Budget = Budget::new(0);
    let bytes = bitcode();
    let unit = Unit { opened: OpenUnit::new(bytes.len(), &NONE), ..Unit::new("a.o", &bytes) };
    unit.symbols().unwrap();
    assert!(!unit.opened.lock().is_open() && !NONE.is_exceeded());
    assert_eq!(unit.module_flags().unwrap().ptx.len(), 1);
    assert_eq!(unit.times_opened(), 1);
}
