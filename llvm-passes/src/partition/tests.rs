use std::collections::BTreeSet;

use super::{Cut, Grain, Grouping, LeftOut, Rules};
use crate::extract::How;
use crate::program::{Monolithic, Program};
use crate::reference_graph::{self, CONSTANT, Global, Reference, ReferenceGraph, Role, SHARED, Scope, Variable};
use crate::resolve::{self, UnitSymbols};
use crate::symbols::Strength;

pub const STRONG: Scope = Scope::Visible { strength: Strength::Strong, odr: false };
pub const ODR: Scope = Scope::Visible { strength: Strength::LinkOnce, odr: true };
pub const WANTED: Scope = Scope::Visible { strength: Strength::Undefined, odr: false };

pub fn global(name: &str, scope: Scope, role: Role, instructions: u32, references: &[(u32, bool)]) -> Global {
    let reference = |(to, called): &(u32, bool)| Reference { to: *to, called: *called };
    let references = references.iter().map(reference).collect();
    Global { name: name.to_owned(), scope, role, instructions, references, retained: false, referenced: true }
}

pub fn kernel(name: &str, instructions: u32, references: &[(u32, bool)]) -> Global {
    global(name, STRONG, Role::Kernel, instructions, references)
}

pub fn function(name: &str, scope: Scope, instructions: u32, references: &[(u32, bool)]) -> Global {
    global(name, scope, Role::Function, instructions, references)
}

pub fn variable(name: &str, scope: Scope, address_space: u32, constant: bool) -> Global {
    let content = (address_space == CONSTANT && constant && scope == Scope::Local).then(|| "00ff".to_owned());
    let variable = Variable { address_space, constant, address_matters: !constant, size: 8, content };
    global(name, scope, Role::Variable(variable), 0, &[])
}

pub fn unit(globals: Vec<Global>) -> ReferenceGraph {
    ReferenceGraph { globals, monolithic: None }
}

fn cut_units(units: &[ReferenceGraph], keep: &[&str], grain: u64) -> Cut {
    cut_as(units, keep, Grain::Exactly(grain))
}

fn cut_as(units: &[ReferenceGraph], keep: &[&str], grain: Grain) -> Cut {
    cut_program(units, keep, Rules { grain, grouping: Grouping::Program }, &BTreeSet::new())
}

fn cut_without(units: &[ReferenceGraph], grain: u64, names: &BTreeSet<String>, grouping: Grouping) -> Cut {
    cut_program(units, &[], Rules { grain: Grain::Exactly(grain), grouping }, names)
}

fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

pub fn cut_program(units: &[ReferenceGraph], keep: &[&str], rules: Rules, dead: &BTreeSet<String>) -> Cut {
    let none = BTreeSet::new();
    cut_left_out(units, keep, rules, LeftOut { dead, folded: &none, finished: &none })
}

fn cut_left_out(units: &[ReferenceGraph], keep: &[&str], rules: Rules, left_out: LeftOut<'_>) -> Cut {
    let symbols: Vec<UnitSymbols> =
        units.iter().map(|unit| UnitSymbols { symbols: reference_graph::symbols(unit) }).collect();
    let resolution = resolve::resolve(&symbols, &|_| true);
    let keep: BTreeSet<String> = keep.iter().map(|name| (*name).to_owned()).collect();
    let tags = (0..units.len()).map(|unit| format!("tag{unit}")).collect();
    let program = Program::new(units.iter().collect(), tags, &|name| resolution.prevailing.get(name).copied(), &keep);
    super::cut_without(&program, rules, left_out)
}

/// How a partition takes a global, by its name in the unit.
fn how(cut: &Cut, units: &[ReferenceGraph], partition: usize, name: &str) -> Vec<(usize, How, Option<String>)> {
    let parts = &cut.partitions[partition].parts;
    let takes = parts.iter().flat_map(|part| part.takes.iter().map(|take| (part.unit, take)));
    takes
        .filter(|(unit, take)| units[*unit].globals[take.index as usize].name == name)
        .map(|(unit, take)| (unit, take.how, take.name.clone()))
        .collect()
}

fn kernels(cut: &Cut) -> Vec<Vec<String>> {
    cut.partitions.iter().map(|partition| partition.kernels.clone()).collect()
}

#[test]
fn a_small_program_is_compiled_whole() {
    let units = [unit(vec![kernel("a", 100, &[]), kernel("b", 100, &[])])];
    assert!(cut_units(&units, &[], 1000).partitions.is_empty());
    assert_eq!(kernels(&cut_units(&units, &[], 100)), [["a"], ["b"]]);
}

#[test]
fn functions_that_are_called_are_copied_and_counted() {
    let helper = || function("helper", STRONG, 40, &[]);
    let units = [unit(vec![kernel("a", 100, &[(2, true)]), kernel("b", 100, &[(2, true)]), helper()])];
    let cut = cut_units(&units, &[], 100);
    for partition in 0..2 {
        assert_eq!(how(&cut, &units, partition, "helper"), [(0, How::Copy, None)]);
    }
    assert_eq!((cut.distinct, cut.duplicated()), (240, 40));
    assert_eq!(cut.partitions[0].keep.iter().collect::<Vec<_>>(), ["a"]);
}

#[test]
fn of_equal_definitions_the_nearest_is_taken_so_that_other_units_may_change() {
    let of = |name: &str| unit(vec![kernel(name, 100, &[(1, true)]), function("inline", ODR, 20, &[])]);
    let units = [of("a"), of("b")];
    let cut = cut_units(&units, &[], 60);
    assert_eq!(how(&cut, &units, 0, "inline"), [(0, How::Copy, None)]);
    assert_eq!(how(&cut, &units, 1, "inline"), [(1, How::Copy, None)]);
    // A strong definition prevails in all units.
    let mut strong = units.clone();
    strong[0].globals[1].scope = STRONG;
    let cut = cut_units(&strong, &[], 60);
    assert_eq!(how(&cut, &strong, 1, "inline"), [(0, How::Copy, None)]);
}

#[test]
fn variables_have_one_owner_and_a_name_that_ptx_takes() {
    let state = |name: &str| variable(name, Scope::Local, 1, false);
    let units = [unit(vec![kernel("a", 100, &[(2, false)]), kernel("b", 100, &[(2, false)]), state(".state")])];
    let cut = cut_units(&units, &[], 100);
    let name = Some("_state__fatlink_tag0_2".to_owned());
    let all: Vec<_> = (0..cut.partitions.len()).flat_map(|partition| how(&cut, &units, partition, ".state")).collect();
    assert_eq!(all.iter().filter(|(_, how, _)| *how == How::Owned).count(), 1);
    assert!(all.iter().all(|(_, _, given)| *given == name), "{all:?}");
    assert!(all.len() > 1 && all.iter().all(|(_, how, _)| matches!(how, How::Owned | How::Declaration)));
}

#[test]
fn shared_memory_and_constants_are_copied_and_equal_tables_folded() {
    let globals = |name: &str| {
        unit(vec![
            kernel(name, 100, &[(1, false), (2, false), (3, false)]),
            variable("tile", Scope::Local, SHARED, false),
            variable("text", Scope::Local, 1, true),
            variable("table", Scope::Local, CONSTANT, true),
        ])
    };
    let units = [globals("a"), globals("b")];
    let cut = cut_units(&units, &[], 60);
    for partition in 0..2 {
        assert_eq!(how(&cut, &units, partition, "tile"), [(partition, How::Copy, None)]);
        assert_eq!(how(&cut, &units, partition, "text"), [(partition, How::Copy, None)]);
        let folded = Some("__fatlink_constant_00ff".to_owned());
        assert_eq!(how(&cut, &units, partition, "table"), [(partition, How::Folded, folded)]);
    }
}

#[test]
fn functions_by_pointer_have_one_owner_and_are_looked_into() {
    let units = [unit(vec![
        kernel("a", 100, &[(2, false)]),
        kernel("b", 100, &[(2, true), (2, false)]),
        function("callback", STRONG, 30, &[]),
        function("big", STRONG, 5000, &[]),
        kernel("c", 100, &[(3, false)]),
    ])];
    let cut = cut_units(&units, &[], 100);
    let of = |name: &str| -> Vec<How> {
        (0..cut.partitions.len()).flat_map(|at| how(&cut, &units, at, name)).map(|(_, how, _)| how).collect()
    };
    assert_eq!(of("callback").iter().filter(|how| **how == How::Owned).count(), 1);
    assert!(of("callback").iter().all(|how| matches!(how, How::Owned | How::Available)));
    // Visible and too large to be available with its body: it is referenced by name, which needs no entry.
    assert_eq!(of("big"), [How::Owned]);
}

#[test]
fn what_the_host_registers_is_owned_though_no_kernel_uses_it() {
    let units = [unit(vec![
        kernel("a", 100, &[]),
        kernel("b", 100, &[]),
        variable("registered", STRONG, 1, true),
        variable("forgotten", STRONG, 1, false),
    ])];
    let cut = cut_units(&units, &["registered"], 100);
    let of = |name| (0..cut.partitions.len()).flat_map(|at| how(&cut, &units, at, name)).collect::<Vec<_>>();
    assert_eq!(of("registered"), [(0, How::Owned, None)]);
    assert_eq!(of("forgotten"), []);
}

#[test]
fn shared_memory_behind_a_pointer_to_a_function_has_one_name() {
    let units = [unit(vec![
        kernel("a", 100, &[(2, false)]),
        kernel("b", 100, &[(3, false), (4, false)]),
        function("callback", STRONG, 1000, &[(3, false)]),
        variable("tile", Scope::Local, SHARED, false),
        variable("own", Scope::Local, SHARED, false),
    ])];
    let cut = cut_units(&units, &[], 100);
    let of = |name| (0..cut.partitions.len()).flat_map(|at| how(&cut, &units, at, name)).collect::<Vec<_>>();
    let tile = of("tile");
    let name = tile[0].2.clone();
    assert!(name.is_some() && tile.iter().all(|(_, _, other)| *other == name), "{tile:?}");
    assert_eq!(tile.iter().filter(|(_, how, _)| *how == How::Owned).count(), 1);
    assert!(tile.iter().any(|(_, how, _)| *how == How::Declaration), "{tile:?}");
    assert!(of("own").iter().all(|(_, how, _)| *how == How::Copy));
}

#[test]
fn state_of_the_openmp_runtime_behind_a_pointer_keeps_the_program_whole() {
    let units = [unit(vec![
        kernel("a", 100, &[(2, false), (4, true)]),
        kernel("b", 100, &[]),
        function("callback", STRONG, 30, &[(3, false)]),
        variable("state", Scope::Local, SHARED, false),
        function("__kmpc_target_init", STRONG, 30, &[(3, false)]),
    ])];
    let cut = cut_units(&units, &[], 100);
    assert!(cut.partitions.is_empty());
    assert!(cut.monolithic.is_some_and(|monolithic| monolithic.reason.contains("shared variable state")));
}

#[test]
fn a_unit_that_cannot_be_cut_says_why() {
    let mut units = [unit(vec![kernel("a", 100, &[]), kernel("b", 100, &[])])];
    units[0].monolithic = Some("it has aliases".to_owned());
    let monolithic = Monolithic { unit: Some(0), reason: "it has aliases".to_owned() };
    assert_eq!(cut_units(&units, &[], 100).monolithic, Some(monolithic));
}

/// Many units of a few small kernels each.
fn many(count: usize) -> Vec<ReferenceGraph> {
    let name = |unit: usize, index: usize| format!("kernel_{unit}_{index}");
    let kernels =
        |unit: usize| (0..3).map(|index| kernel(&name(unit, index), 40 + (unit % 7) as u32 * 9, &[])).collect();
    (0..count).map(|at| unit(kernels(at))).collect()
}

#[test]
fn a_changed_unit_moves_only_the_cuts_next_to_it() {
    let units = many(200);
    let before = kernels(&cut_units(&units, &[], 1000));
    assert!((20..=120).contains(&before.len()), "{}", before.len());
    let mut changed = units.clone();
    changed[100].globals[1].instructions = 400;
    changed[100].globals.push(kernel("one_more", 30, &[]));
    let after = kernels(&cut_units(&changed, &[], 1000));
    let moved = before.iter().filter(|partition| !after.contains(partition)).count();
    assert!((1..=3).contains(&moved), "{moved}");
}

#[test]
fn jobs_are_of_bounded_size_and_hold_every_kernel_once() {
    let units = many(150);
    let cut = cut_units(&units, &[], 900);
    let mut all: Vec<String> = kernels(&cut).concat();
    assert!(cut.partitions.iter().all(|partition| partition.instructions <= 1800));
    let count = all.len();
    all.sort();
    all.dedup();
    assert_eq!((count, all.len()), (450, 450));
}

#[test]
fn kernels_of_several_units_that_are_mostly_one_function_share_it() {
    let of = |number: usize| {
        let (small, large) = (format!("small_{number}"), format!("large_{number}"));
        let own = format!("own_{number}");
        unit(vec![
            kernel(&small, 100, &[(3, true)]),
            kernel(&large, 5000, &[(3, true)]),
            kernel(&own, 900, &[]),
            function("engine", ODR, 1000, &[(4, true)]),
            function("part", ODR, 600, &[]),
        ])
    };
    let units: Vec<ReferenceGraph> = (0..3).map(of).collect();
    let cut = cut_units(&units, &[], 3000);
    let together: Vec<_> = kernels(&cut).into_iter().filter(|names| names[0].starts_with("small")).collect();
    assert_eq!(together, [["small_0", "small_1", "small_2"]]);
    // If the function is a small part of a kernel, the kernel stays with its unit.
    assert!(kernels(&cut).iter().any(|names| names == &["large_1"]), "{:?}", kernels(&cut));
    let engines = (0..cut.partitions.len()).filter(|at| !how(&cut, &units, *at, "engine").is_empty()).count();
    assert_eq!(engines, 4);
    // The order of units on the line does not change the groups.
    let turned: Vec<ReferenceGraph> = units.iter().rev().cloned().collect();
    let mut again = kernels(&cut_units(&turned, &[], 3000));
    again.iter_mut().for_each(|names| names.sort());
    assert!(again.contains(&["small_0", "small_1", "small_2"].map(str::to_owned).to_vec()), "{again:?}");
}

/// Kernels with `own` instructions, each in a unit of its own, that all call one function.
pub fn around_an_engine(kernels: usize, own: u32, engine: u32) -> Vec<ReferenceGraph> {
    let of = |number: usize| {
        let name = format!("kernel_{number:04}");
        unit(vec![kernel(&name, own, &[(1, true)]), function("engine", ODR, engine, &[])])
    };
    (0..kernels).map(of).collect()
}

#[test]
fn a_function_larger_than_a_job_is_not_compiled_for_each_kernel() {
    let cut = cut_as(&around_an_engine(100, 300, 30_000), &[], Grain::Usual);
    assert_eq!(cut.distinct, 60_000);
    assert!(cut.partitions.len() > 1 && cut.duplicated() <= 30_000, "{} jobs", cut.partitions.len());
}

#[test]
fn duplicates_are_bounded_unless_somebody_wants_small_jobs() {
    // Each kernel has as many instructions of its own as it shares.
    let units = around_an_engine(40, 9000, 8000);
    let cut = cut_as(&units, &[], Grain::Usual);
    assert!(cut.partitions.len() > 1, "{}", cut.partitions.len());
    assert!(cut.duplicated() * 2 <= cut.distinct, "{} of {}", cut.duplicated(), cut.distinct);
    let small = cut_as(&units, &[], Grain::Exactly(1));
    assert_eq!(small.partitions.len(), 40);
    assert!(small.duplicated() * 2 > small.distinct);
}

#[test]
fn wanted_names_that_nobody_here_defines_stay_outside() {
    let units =
        [unit(vec![kernel("a", 100, &[(2, true)]), kernel("b", 100, &[]), function("vprintf", WANTED, 0, &[])])];
    let cut = cut_units(&units, &[], 100);
    assert_eq!(how(&cut, &units, 0, "vprintf"), []);
}

#[test]
fn dead_kernels_are_left_out_unless_live_code_refers_to_them() {
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
    // `launched` is a kernel that `a` refers to; `c` uses a variable that nobody else does.
    let units = [unit(vec![
        kernel("a", 100, &[(3, false)]),
        kernel("b", 100, &[]),
        kernel("c", 100, &[(4, false)]),
        kernel("launched", 100, &[]),
        variable("state", STRONG, 1, false),
    ])];
    let dead = names(&["b", "c", "launched"]);
    for grouping in [Grouping::Program, Grouping::Units] {
        let cut = cut_without(&units, 60, &dead, grouping);
        let found: BTreeSet<String> = kernels(&cut).concat().into_iter().collect();
        assert_eq!(found, names(&["a", "launched"]), "{grouping:?}");
        assert!(how(&cut, &units, 0, "state").is_empty());
    }
    let kept: Vec<Vec<String>> = kernels(&cut_without(&units, 60, &dead, Grouping::Units));
    assert!(
        kept.iter().all(|kept| kernels(&cut_without(&units, 60, &BTreeSet::new(), Grouping::Units)).contains(kept)),
        "{kept:?}"
    );
}

#[test]
fn only_partitions_with_folded_kernels_change_and_none_with_a_result() {
    let of = |number: usize| unit((0..4).map(|index| kernel(&format!("k{number}{index}"), 50, &[])).collect());
    let units: Vec<_> = (0..3).map(of).collect();
    let rules = Rules { grain: Grain::Exactly(1000), grouping: Grouping::AlwaysUnits };
    let all = set(&["k00", "k01", "k02", "k03"]);
    let folded: BTreeSet<String> = all.union(&set(&["k11", "k21"])).cloned().collect();
    let finished = &set(&["k10", "k11", "k12", "k13", "k00", "k01", "k02", "k03"]);
    let cut = cut_left_out(&units, &[], rules, LeftOut { dead: &set(&["k22"]), folded: &folded, finished });
    assert_eq!(kernels(&cut), [vec!["k10", "k11", "k12", "k13"], vec!["k20", "k22", "k23"]]);
    assert_eq!(cut.distinct, 350);
}

#[test]
fn a_partition_that_is_kept_for_one_kernel_keeps_what_its_dead_ones_need() {
    // Both kernels of the first unit share a partition; the variable belongs to a kernel of the second one.
    let units = [
        unit(vec![kernel("a", 10, &[]), kernel("b", 10, &[(2, false)]), variable("state", WANTED, 1, false)]),
        unit(vec![kernel("c", 200, &[(1, false)]), variable("state", STRONG, 1, false)]),
    ];
    let dead = BTreeSet::from(["b".to_owned(), "c".to_owned()]);
    let cut = cut_without(&units, 50, &dead, Grouping::Units);
    let owners = (0..cut.partitions.len()).flat_map(|place| how(&cut, &units, place, "state"));
    let is_needed = kernels(&cut).concat().contains(&"b".to_owned());
    assert_eq!(owners.filter(|(_, how, _)| *how == How::Owned).count(), usize::from(is_needed), "{:?}", kernels(&cut));
    assert!(is_needed, "{:?}", kernels(&cut));
}
