//! Figures of several runs.

use std::fmt;

use xtask::failure::{Failure, Result};

/// Minimum, median and maximum of some figures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    pub least: f64,
    pub median: f64,
    pub most: f64,
}

impl Spread {
    /// An error of no figures.
    pub fn of(figures: impl IntoIterator<Item = f64>) -> Result<Self> {
        let mut figures: Vec<f64> = figures.into_iter().collect();
        figures.sort_by(f64::total_cmp);
        let (Some(&least), Some(&most)) = (figures.first(), figures.last()) else {
            return Err(Failure::new("nothing was measured"));
        };
        let (below, above) = (figures[(figures.len() - 1) / 2], figures[figures.len() / 2]);
        Ok(Self { least, median: f64::midpoint(below, above), most })
    }
}

/// `0.31 (0.29-0.33)`; a precision, as in `{:.1}`, applies to all three.
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
    fn an_outlier_does_not_move_the_median() {
        assert_eq!(spread(&[1.1, 90.0, 1.0]), Spread { least: 1.0, median: 1.1, most: 90.0 });
        assert_eq!(spread(&[4.0, 1.0, 2.0, 3.0]).median, 2.5);
        assert_eq!(spread(&[0.4]).median, 0.4);
        assert!(Spread::of([]).is_err());
    }

    #[test]
    fn a_spread_is_shown_with_one_precision() {
        assert_eq!(spread(&[0.294, 0.333, 0.312]).to_string(), "0.31 (0.29-0.33)");
        assert_eq!(format!("{:.0}", spread(&[10.4, 20.0, 29.6])), "20 (10-30)");
    }
}
