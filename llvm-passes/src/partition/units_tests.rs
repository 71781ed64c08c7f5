use std::collections::BTreeSet;

use super::tests::{ODR, STRONG, WANTED, around_an_engine, cut_program, function, global, kernel, unit, variable};
use super::{Cut, Grain, Grouping, Rules};
use crate::extract::{How, Take, UnitPart};
use crate::reference_graph::{ReferenceGraph, Role};

/// A library of units with several kernels each, which call functions of two more units and use a template kernel that each defines.
fn library(count: usize) -> Vec<ReferenceGraph> {
    let of = |number: usize| {
        let kernels =
            (0..6).map(|index| kernel(&format!("kernel_{number}_{index}"), 200 + 40 * index, &[(6, true), (7, true)]));
        let helper = function("helper", WANTED, 0, &[]);
        let template = function("template", ODR, 600, &[]);
        let common = global("common_kernel", ODR, Role::Kernel, 90, &[(9, false)]);
        unit(kernels.chain([helper, template, common, variable("state", WANTED, 1, false)]).collect())
    };
    let helpers =
        unit(vec![function("helper", STRONG, 70, &[]), variable("state", STRONG, 1, false), kernel("own", 50, &[])]);
    std::iter::once(helpers).chain((0..count).map(of)).collect()
}

/// What each partition has of which units, by the names of its kernels.
fn contents(cut: &Cut, units: &[ReferenceGraph]) -> BTreeSet<Vec<(String, How)>> {
    let of_part = |part: &UnitPart| -> Vec<(String, How)> {
        let name = |take: &Take| units[part.unit].globals[take.index as usize].name.clone();
        part.takes.iter().map(|take| (name(take), take.how)).collect()
    };
    cut.partitions.iter().map(|partition| partition.parts.iter().flat_map(of_part).collect()).collect()
}

#[test]
fn a_library_has_the_same_partitions_in_every_program() {
    let rules = Rules { grain: Grain::Exactly(2000), grouping: Grouping::Units };
    let of = |units: &[ReferenceGraph]| contents(&cut_program(units, &[], rules, &BTreeSet::new()), units);
    let all = library(12);
    let whole = of(&all);
    assert!((13..=48).contains(&whole.len()), "{}", whole.len());
    for skipped in 1..all.len() {
        let some: Vec<_> =
            all.iter().enumerate().filter(|(unit, _)| unit % skipped != 1).map(|(_, unit)| unit.clone()).collect();
        let new = of(&some).difference(&whole).count();
        // Another unit's definition of the template kernel prevails if the first is not linked.
        assert!(new <= 1, "{skipped}: {new}");
        let turned: Vec<_> = some.iter().rev().cloned().collect();
        assert!(of(&turned).difference(&whole).count() <= 1, "{skipped}");
    }
}

#[test]
fn small_kernels_that_come_and_go_move_nothing() {
    let rules = Rules { grain: Grain::Exactly(2000), grouping: Grouping::Units };
    let of = |number: usize| {
        let kernels = (0..6).map(|index| kernel(&format!("kernel_{number}_{index}"), 200 + 40 * index, &[]));
        let empty = |name: &str| global(name, ODR, Role::Kernel, 1, &[]);
        let third = format!("empty_{}", number % 3);
        unit([empty("empty")].into_iter().chain(kernels).chain([empty(&third)]).collect())
    };
    let units: Vec<_> = (0..8).map(of).collect();
    let cut = |units: &[ReferenceGraph]| contents(&cut_program(units, &[], rules, &BTreeSet::new()), units);
    let (all, some) = (cut(&units), cut(&units[1..]));
    let is_empty = |partition: &&Vec<(String, How)>| partition.iter().any(|(name, _)| name.starts_with("empty"));
    assert!(some.difference(&all).all(|partition| is_empty(&partition)), "{some:?}");
    // One for all units.
    let names =
        |partition: &Vec<(String, How)>| partition.iter().map(|(name, _)| name.clone()).collect::<BTreeSet<_>>();
    let empty: Vec<_> = some.iter().filter(is_empty).map(names).collect();
    assert_eq!(empty, [["empty", "empty_0", "empty_1", "empty_2"].map(str::to_owned).into()]);
}

#[test]
fn what_only_other_units_refer_to_is_apart_from_what_a_unit_always_has() {
    let rules = Rules { grain: Grain::Exactly(100), grouping: Grouping::Units };
    let owner = unit(vec![kernel("own", 150, &[]), variable("state", STRONG, 1, false)]);
    let user = unit(vec![kernel("user", 100, &[(1, false)]), variable("state", WANTED, 1, false)]);
    let other = unit(vec![kernel("other", 100, &[])]);
    let cut = |units: &[ReferenceGraph]| contents(&cut_program(units, &[], rules, &BTreeSet::new()), units);
    let (with, without) = (cut(&[owner.clone(), user]), cut(&[owner, other]));
    assert!(with.contains(&vec![("own".to_owned(), How::Owned)]), "{with:?}");
    assert!(with.contains(&vec![("state".to_owned(), How::Owned)]), "{with:?}");
    assert!(without.contains(&vec![("own".to_owned(), How::Owned)]), "{without:?}");
}

#[test]
fn too_much_shared_code_is_compiled_once_though_programs_then_differ() {
    let rules = Rules { grain: Grain::Usual, grouping: Grouping::Units };
    let cut = cut_program(&around_an_engine(100, 300, 5000), &[], rules, &BTreeSet::new());
    assert!(cut.partitions.len() > 1 && cut.duplicated() * 2 <= cut.distinct, "{} jobs", cut.partitions.len());
}

#[test]
fn a_unit_is_cut_before_its_program_is_known() {
    let small = || unit(vec![kernel("small", 10, &[(1, true)]), function("helper", STRONG, 5, &[])]);
    let cut = |units: &[ReferenceGraph], grouping: Grouping| {
        let rules = Rules { grain: Grain::Usual, grouping };
        contents(&cut_program(units, &[], rules, &BTreeSet::new()), units)
    };
    let alone = cut(&[small()], Grouping::AlwaysUnits);
    assert_eq!(alone.len(), 1);
    assert!(cut(&[small()], Grouping::Units).is_empty(), "a small program is compiled in one piece");
    let program = [unit(vec![kernel("other", 5000, &[])]), small()];
    assert!(alone.is_subset(&cut(&program, Grouping::AlwaysUnits)));
}

#[test]
fn kernels_of_a_unit_that_are_mostly_one_function_share_it_in_every_program() {
    let rules = Rules { grain: Grain::Usual, grouping: Grouping::AlwaysUnits };
    let heavy = || {
        let kernels = (0..4).map(|index| kernel(&format!("heavy_{index}"), 8000, &[(4, true)]));
        unit(kernels.chain([function("engine", STRONG, 60_000, &[])]).collect())
    };
    let light = unit((0..4).map(|index| kernel(&format!("light_{index}"), 10_000, &[])).collect());
    let cut = |units: &[ReferenceGraph]| contents(&cut_program(units, &[], rules, &BTreeSet::new()), units);
    let (alone, program) = (cut(&[heavy()]), cut(&[light, heavy()]));
    assert_eq!(alone.len(), 1, "{alone:?}");
    assert!(alone.is_subset(&program) && program.len() > 2, "{program:?}");
}
