//! Several measurements of the same as three numbers.

use crate::drawing::chart::Point;
use serde::Serialize;

/// The median, and the range in which the middle half of all values lies.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Summary {
    /// How many values.
    pub count: usize,
    /// As many are below as above.
    pub median: f64,
    /// A quarter is below.
    pub low: f64,
    /// A quarter is above.
    pub high: f64,
    /// The largest.
    pub largest: f64,
}

impl Summary {
    /// `None` of nothing.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let largest = *values.last()?;
        Some(Self {
            count: values.len(),
            median: quantile(&values, 0.5),
            low: quantile(&values, 0.25),
            high: quantile(&values, 0.75),
            largest,
        })
    }

    /// In a drawing.
    pub fn at(self, x: f64) -> Point {
        Point {
            x,
            y: self.median,
            low: self.low,
            high: self.high,
        }
    }

    /// `1.23 (1.20 … 1.31)`.
    pub fn text(self, digits: usize) -> String {
        let Self {
            median, low, high, ..
        } = self;
        format!("{median:.digits$} ({low:.digits$} … {high:.digits$})")
    }
}

/// Of sorted values, of which there is at least one; between two of them in
/// proportion.
fn quantile(sorted: &[f64], part: f64) -> f64 {
    let place = part * (sorted.len() - 1) as f64;
    let below = place.floor() as usize;
    let above = place.ceil() as usize;
    sorted[below] + (sorted[above] - sorted[below]) * (place - below as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_of_all_values_lie_between_the_quartiles() {
        let summary = Summary::of([5.0, 1.0, 3.0, 2.0, 4.0]).unwrap();
        let Summary {
            median, low, high, ..
        } = summary;
        assert_eq!((median, low, high, summary.largest), (3.0, 2.0, 4.0, 5.0));
        assert_eq!(summary.text(1), "3.0 (2.0 … 4.0)");
        assert_eq!(Summary::of([1.0, 2.0]).unwrap().median, 1.5);
        assert_eq!(Summary::of([7.0]).unwrap().high, 7.0);
        assert_eq!(Summary::of([]), None);
    }
}
