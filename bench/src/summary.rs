//! Summary of several measurements of the same value.

use crate::drawing::chart::Point;

/// The median, and the range of the middle half of all values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of values.
    pub count: usize,
    /// Half of the values are below it.
    pub median: f64,
    /// A quarter of the values is below it.
    pub low: f64,
    /// A quarter of the values is above it.
    pub high: f64,
    /// The largest value.
    pub largest: f64,
}

impl Summary {
    /// The summary; `None` without values.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        Some(Self {
            count: values.len(),
            median: quantile(&mut values, 0.5)?,
            low: quantile(&mut values, 0.25)?,
            high: quantile(&mut values, 0.75)?,
            largest: quantile(&mut values, 1.0)?,
        })
    }

    /// The inter-quartile range over the median.
    pub fn spread(self) -> f64 {
        match self.median > 0.0 {
            true => (self.high - self.low) / self.median,
            false => 0.0,
        }
    }

    /// The summary as a point of a drawing, at `x`.
    pub fn at(self, x: f64) -> Point {
        Point {
            x,
            y: self.median,
            low: self.low,
            high: self.high,
            is_marked: true,
        }
    }

    /// Text such as `1.23 (1.20 … 1.31)`.
    pub fn text(self, digits: usize) -> String {
        let Self {
            median, low, high, ..
        } = self;
        format!("{median:.digits$} ({low:.digits$} … {high:.digits$})")
    }
}

/// The text of a summary in a table; empty for `None`.
pub fn cell(summary: Option<Summary>, digits: usize) -> String {
    summary.map_or_else(String::new, |summary| summary.text(digits))
}

/// A quantile by linear interpolation between order statistics; `None` without values.
pub fn quantile(values: &mut [f64], part: f64) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let place = part * values.len().checked_sub(1)? as f64;
    let (below, above) = (
        values[place.floor() as usize],
        values[place.ceil() as usize],
    );
    Some(below + (above - below) * place.fract())
}

/// The median; `None` without values.
pub fn median(values: impl IntoIterator<Item = f64>) -> Option<f64> {
    quantile(&mut values.into_iter().collect::<Vec<_>>(), 0.5)
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

    #[test]
    fn quantiles_interpolate() {
        assert_eq!(quantile(&mut [], 0.5), None);
        assert_eq!(quantile(&mut [3.0], 0.25), Some(3.0));
        assert_eq!(quantile(&mut [4.0, 1.0, 3.0, 2.0], 0.5), Some(2.5));
        let five = Summary::of([1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(five.spread(), 2.0 / 3.0);
    }
}
