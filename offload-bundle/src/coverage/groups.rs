//! Groups containers of which the same is to be said: a library may have thousands.

use std::collections::HashMap;

/// Groups items with equal keys, in the order of their first ones.
pub(crate) fn grouped<T>(items: &[T], key: impl Fn(&T) -> String) -> Vec<Vec<&T>> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<&T>> = Vec::new();
    for item in items {
        let place = *places.entry(key(item)).or_insert(groups.len());
        if place == groups.len() {
            groups.push(Vec::new());
        }
        groups[place].push(item);
    }
    groups
}

/// Ascending numbers as ranges: `1-54, 60`; the last ones are left out if there are many ranges.
pub(crate) fn ranges(numbers: &[usize]) -> String {
    const MOST: usize = 6;
    let mut ranges: Vec<(usize, usize)> = Vec::new();
    for number in numbers {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == *number => *last = *number,
            _ => ranges.push((*number, *number)),
        }
    }
    let text = |(first, last): &(usize, usize)| match last - first {
        0 => first.to_string(),
        1 => format!("{first}, {last}"),
        _ => format!("{first}-{last}"),
    };
    let mut shown: Vec<String> = ranges.iter().take(MOST).map(text).collect();
    shown.extend((ranges.len() > MOST).then(|| "...".to_owned()));
    shown.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_follow_each_other_are_a_range() {
        assert_eq!(ranges(&[1, 2, 3, 5, 6, 9]), "1-3, 5, 6, 9");
        assert_eq!(ranges(&[1, 3, 5, 7, 9, 11, 13]), "1, 3, 5, 7, 9, 11, ...");
    }

    #[test]
    fn groups_keep_the_order_of_their_first_items() {
        assert_eq!(grouped(&[3, 1, 4, 7], |number| (number % 2).to_string()), [vec![&3, &1, &7], vec![&4]]);
    }
}
