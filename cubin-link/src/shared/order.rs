//! In which order nvlink places shared variables.

use crate::error::LinkError;
use crate::program::Program;

/// Checks that no variable from `from` on has an equal, or all of these are of one unit: in which order nvlink has those of several is not
/// known, and shows in that of equal ones.
pub(super) fn check_order<K: PartialEq>(
    program: &Program<'_>,
    variables: &[usize],
    from: usize,
    key: impl Fn(usize) -> K,
) -> Result<(), LinkError> {
    let unit = |variable: usize| program.symbols[variable].first_unit;
    let moved = variables.get(from..).unwrap_or_default();
    if moved.iter().all(|variable| unit(*variable) == unit(moved[0])) {
        return Ok(());
    }
    for variable in moved {
        if variables.iter().any(|other| other != variable && key(*other) == key(*variable)) {
            let what = format!("shared variable {} with an equal one", program.symbols[*variable].name);
            return Err(LinkError::unsupported(program.units[unit(*variable)].file, 0, what));
        }
    }
    Ok(())
}

/// Sorts as nvlink does, which shows in the order of equal items: the items go in turn to the fronts of two lists, these are sorted, and of
/// equal items that of the first list comes first.
pub(super) fn sorted<T: Copy, K: Ord>(items: &[T], key: &impl Fn(T) -> K) -> Vec<T> {
    if items.len() < 2 {
        return items.to_vec();
    }
    let every_other = |skipped: usize| {
        let half: Vec<T> = items.iter().skip(skipped).step_by(2).rev().copied().collect();
        sorted(&half, key)
    };
    let (first, second) = (every_other(0), every_other(1));
    let mut merged = Vec::with_capacity(items.len());
    let (mut first, mut second) = (first.into_iter().peekable(), second.into_iter().peekable());
    while let (Some(one), Some(other)) = (first.peek(), second.peek()) {
        let next = if key(*one) <= key(*other) { first.next() } else { second.next() };
        merged.extend(next);
    }
    merged.extend(first);
    merged.extend(second);
    merged
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As observed in nvlink 13.0.
    #[test]
    fn equal_items_are_in_the_order_of_nvlink() {
        let numbers: Vec<usize> = (0..7).collect();
        assert_eq!(sorted(&numbers, &|_| 0), [2, 6, 0, 4, 1, 5, 3]);
        let sizes = [52, 40, 52, 40, 52, 40];
        assert_eq!(sorted(&numbers[..6], &|number| sizes[number]), [1, 5, 3, 0, 4, 2]);
        let sizes = [20, 100, 16, 32, 3, 16, 16, 100, 20];
        let numbers: Vec<usize> = (0..sizes.len()).collect();
        let mut largest_first = sorted(&numbers, &|number| sizes[number]);
        largest_first.reverse();
        assert_eq!(largest_first, [1, 7, 3, 0, 8, 5, 6, 2, 4]);
    }
}
