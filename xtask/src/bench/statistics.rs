//! Figures of several runs.

use std::fmt;

/// The least, the median and the greatest of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    /// Of at least one figure; the median of an even number lies between the two in the middle.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (least, most) = (*figures.first()?, *figures.last()?);
        let middle = figures.len() / 2;
        let median =
            if figures.len() % 2 == 1 { figures[middle] } else { f64::midpoint(figures[middle - 1], figures[middle]) };
        Some(Self { least, median, most })
    }
}

/// `0.31 (0.29-0.33)`; a precision, as in `{:.1}`, stands for all three.
impl fmt::Display for Spread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = f.precision().unwrap_or(2);
        write!(f, "{:.digits$} ({:.digits$}-{:.digits$})", self.median, self.least, self.most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread(figures: &[f64]) -> Spread {
        Spread::of(figures.iter().copied()).unwrap()
    }

    #[test]
    fn the_median_does_not_depend_on_the_order() {
        assert_eq!(spread(&[3.0, 1.0, 2.0]), Spread { least: 1.0, median: 2.0, most: 3.0 });
        assert_eq!(spread(&[2.0, 3.0, 1.0]), spread(&[3.0, 1.0, 2.0]));
    }

    #[test]
    fn an_outlier_does_not_move_the_median() {
        assert_eq!(spread(&[1.0, 1.1, 90.0]).median, 1.1);
        assert_eq!(spread(&[0.4]), Spread { least: 0.4, median: 0.4, most: 0.4 });
    }

    #[test]
    fn the_median_of_an_even_number_lies_in_the_middle() {
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn a_spread_is_shown_with_one_precision() {
        assert_eq!(spread(&[0.294, 0.333, 0.312]).to_string(), "0.31 (0.29-0.33)");
        assert_eq!(format!("{:.0}", spread(&[10.4, 20.0, 29.6])), "20 (10-30)");
    }
}
