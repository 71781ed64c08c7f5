//! Cuts stretches out of a file.

use std::ops::Range;

/// Where a byte of a file is once the stretches, sorted by offset, are out.
pub(super) fn moved(stretches: &[Range<u64>], offset: u64) -> u64 {
    let before = stretches.iter().filter(|stretch| stretch.start < offset);
    offset - before.map(|stretch| stretch.end.min(offset) - stretch.start).sum::<u64>()
}

/// Takes the stretches, sorted by offset and apart from each other, out of a file.
pub(super) fn take_out(file: &mut Vec<u8>, stretches: &[Range<u64>]) {
    let Some(first) = stretches.first() else { return };
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(file.len());
    let mut target = index(first.start);
    let ends = stretches.iter().skip(1).map(|stretch| stretch.start).chain([file.len() as u64]);
    let kept: Vec<Range<usize>> =
        stretches.iter().zip(ends).map(|(cut, end)| index(cut.end)..index(end).max(index(cut.end))).collect();
    for stretch in kept {
        let len = stretch.len();
        file.copy_within(stretch, target);
        target += len;
    }
    file.truncate(target);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_moves_up() {
        let mut file: Vec<u8> = (0..20).collect();
        let stretches = [2..5, 5..6, 10..12];
        take_out(&mut file, &stretches);
        assert_eq!(file, [0, 1, 6, 7, 8, 9, 12, 13, 14, 15, 16, 17, 18, 19]);
        for offset in [0, 2, 6, 9, 12, 20] {
            let place = moved(&stretches, offset) as usize;
            assert_eq!(file.get(place).copied(), (offset < 20).then_some(if offset == 2 { 6 } else { offset as u8 }));
        }
    }
}
