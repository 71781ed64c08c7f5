//! Shortens the names of a list so that what tells them apart stays: instances of one template begin alike, and often end alike.

const CUT: char = '\u{2026}';

/// Shortens readable names to `width` characters each. Of a longer one there stays its begin, the place where it differs from most names that begin
/// like it, and the place where it differs from the nearest one. `alone` shortens a name that no other begins like.
pub fn apart(names: &[String], width: usize, alone: impl Fn(&str) -> String) -> Vec<String> {
    let all: Vec<Vec<char>> = names.iter().map(|name| without_result(name).chars().collect()).collect();
    let mut sorted: Vec<&[char]> = all.iter().map(Vec::as_slice).collect();
    sorted.sort_unstable();
    sorted.dedup();
    let short = |(whole, name): (&String, &Vec<char>)| match whole.chars().count() <= width {
        true => whole.clone(),
        false => shortened(name, &sorted, width).unwrap_or_else(|| alone(whole)),
    };
    names.iter().zip(&all).map(short).collect()
}

/// The name without the result that all kernels have.
fn without_result(name: &str) -> &str {
    name.strip_prefix("void ").unwrap_or(name)
}

/// `None` if no other name begins like this one.
fn shortened(name: &[char], sorted: &[&[char]], width: usize) -> Option<String> {
    let (head, whole_head) = head(name, width);
    let family = {
        let begins = |other: &&[char]| other.starts_with(whole_head);
        let first = sorted.partition_point(|other| *other < whole_head);
        let rest = &sorted[first..];
        &rest[..rest.iter().position(|other| !begins(other)).unwrap_or(rest.len())]
    };
    let [first, .., last] = family else { return None };
    let far = common(first, last).max(whole_head.len());
    let place = family.partition_point(|other| *other < name);
    let neighbors = [place.checked_sub(1), Some(place + 1)].into_iter().flatten().filter_map(|place| family.get(place));
    let near = neighbors.map(|other| common(name, other)).max().unwrap_or(0).max(far);
    let room = width.saturating_sub(head.len());
    let far = word_at(name, far, whole_head.len(), room / 2);
    let near = word_at(name, near, far, room / 4);
    let mut out: Vec<char> = head.to_vec();
    if near - far < room / 2 {
        window(&mut out, name, far, far > head.len(), room);
    } else {
        window(&mut out, name, far, far > head.len(), room * 2 / 5);
        // The first part ends where the second begins.
        out.pop();
        let room = width.saturating_sub(out.len());
        window(&mut out, name, near, true, room);
    }
    out.truncate(width);
    Some(out.into_iter().collect())
}

/// The name in front of its template arguments or parameters: as much as is shown, and all of it.
fn head(name: &[char], width: usize) -> (&[char], &[char]) {
    let len = name.iter().position(|char| matches!(char, '<' | '(')).map_or(0, |place| place + 1);
    (&name[..len.min(width / 2)], &name[..len])
}

/// Appends at most `room` characters of a name from `start` on, with a sign for what is left out in front and behind.
fn window(out: &mut Vec<char>, name: &[char], start: usize, is_behind_gap: bool, room: usize) {
    let gap = usize::from(is_behind_gap);
    let rest = &name[start..];
    out.extend(std::iter::repeat_n(CUT, gap.min(room)));
    let room = room.saturating_sub(gap);
    if rest.len() <= room {
        out.extend(rest);
    } else {
        out.extend(&rest[..room.saturating_sub(1)]);
        out.extend((room > 0).then_some(CUT));
    }
}

/// The start of the word that has this place in it, if it is not far in front.
fn word_at(name: &[char], place: usize, least: usize, far: usize) -> usize {
    let is_word = |char: &char| char.is_alphanumeric() || matches!(char, '_' | ':' | '~' | '\'');
    let start =
        name[..place].iter().rposition(|char| !is_word(char)).map_or(0, |place| place + 1).max(least.min(place));
    if place - start > far { place - far.min(place) } else { start }
}

fn common(one: &[char], other: &[char]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn of(names: &[&str], width: usize) -> Vec<String> {
        apart(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>(), width, |name| name[..width].to_owned())
    }

    #[test]
    fn instances_show_where_they_differ() {
        let names = [
            "void amrex::launch_global<256, amrex::ParallelFor<256, amrex::Box, amrex::NodeBilinear::interp(int, int)::'lambda'()>>(int)",
            "void amrex::launch_global<256, amrex::ParallelFor<256, amrex::Box, amrex::NodeBilinear::interp(int, int)::'lambda0'()>>(int)",
            "void amrex::launch_global<256, amrex::ParallelFor<256, amrex::Box, amrex::Average::down(int)::'lambda'()>>(int)",
            "main",
        ];
        let expected = [
            "amrex::launch_global<\u{2026}amrex::NodeBilin\u{2026}::'lambda'()>>(int)",
            "amrex::launch_global<\u{2026}amrex::NodeBilin\u{2026}::'lambda0'()>>(int)",
            "amrex::launch_global<\u{2026}amrex::Average::down(int)::'lambda'()>>(int)",
            "main",
        ];
        assert_eq!(of(&names, 66), expected);
    }

    #[test]
    fn a_name_alone_is_shortened_by_the_caller() {
        assert_eq!(of(&["void reduce<int, 4>(int*)", "main"], 9), ["void redu", "main"]);
    }

    proptest! {
        #[test]
        fn any_names_fit(names in prop::collection::vec("[ab<>(),:é]{0,40}", 0..8), width in 0..30_usize) {
            let short = apart(&names, width, |name| name.chars().take(width).collect());
            prop_assert_eq!(short.len(), names.len());
            prop_assert!(short.iter().all(|name| name.chars().count() <= width));
        }
    }
}
