//! Logarithmic axes with round numbers that people know: 1, 64, 1K, … bytes and
//! 0.1, 1, 10, … of everything else.

use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// Labels that fit beside each other on the axis of sizes.
const SIZE_LABELS_MAX: i32 = 13;

/// A logarithmic axis with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    low: f64,
    high: f64,
    /// With a label.
    ticks: Vec<f64>,
    /// With a thin line.
    light: Vec<f64>,
}

impl LogAxis {
    /// For message sizes: ticks at powers of two. `None` without a size.
    pub fn sizes(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = bounds(values)?;
        let exponents = low.log2().floor() as i32..=high.log2().ceil() as i32;
        let step = (exponents.end() - exponents.start())
            .div_ceil_positive(SIZE_LABELS_MAX)
            .next_even();
        let powers = |exponents: std::ops::RangeInclusive<i32>, step: i32| -> Vec<f64> {
            exponents
                .filter(|exponent| exponent % step == 0)
                .map(|exponent| f64::from(exponent).exp2())
                .collect()
        };
        // Room at both ends, so that the outermost marks are whole.
        let (low, high) = (low / 1.25, high * 1.25);
        let (low, high) = if high / low < 4.0 {
            (low / 2.0, high * 2.0)
        } else {
            (low, high)
        };
        let inside = |mut ticks: Vec<f64>| {
            ticks.retain(|tick| (low..=high).contains(tick));
            ticks
        };
        Some(Self {
            ticks: inside(powers(exponents.clone(), step)),
            light: inside(powers(exponents, 1)),
            low,
            high,
        })
    }

    /// For times and bandwidths: ticks at powers of ten, over few decades also
    /// at 2 and 5. `None` without a value.
    pub fn decades(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = bounds(values)?;
        let steps: Vec<f64> = (low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1)
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)))
            .collect();
        // The rounds of the ends: the last step below all, the first above.
        let low = steps.iter().copied().rfind(|step| *step < low)?;
        let high = steps.iter().copied().find(|step| *step > high)?;
        let light: Vec<f64> = steps
            .into_iter()
            .filter(|step| (low..=high).contains(step))
            .collect();
        let few = (high / low).log10() <= 2.0;
        let ticks = light
            .iter()
            .copied()
            .filter(|tick| few || is_power_of_ten(*tick))
            .collect();
        Some(Self {
            low,
            high,
            ticks,
            light,
        })
    }
}

/// The least and the largest that a logarithm can show.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    values
        .filter(|value| value.is_finite() && *value > 0.0)
        .fold(None, |bounds, value| match bounds {
            None => Some((value, value)),
            Some((low, high)) => Some((f64::min(low, value), f64::max(high, value))),
        })
}

fn is_power_of_ten(value: f64) -> bool {
    (value.log10() - value.log10().round()).abs() < 1e-9
}

/// 0.01, 0.1, 1, 10, 1000 without noise of the representation.
pub fn format_value(value: f64) -> String {
    let digits = (-value.log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

trait Steps {
    fn div_ceil_positive(self, by: Self) -> Self;
    fn next_even(self) -> Self;
}

impl Steps for i32 {
    /// At least 1.
    fn div_ceil_positive(self, by: i32) -> i32 {
        ((self + by - 1) / by).max(1)
    }

    /// 1 stays; above it, even steps keep 1K, 1M and 64K on the axis.
    fn next_even(self) -> i32 {
        if self <= 1 { self } else { (self + 1) / 2 * 2 }
    }
}

impl Ranged for LogAxis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let value = value.clamp(self.low, self.high);
        let place = (value / self.low).ln() / (self.high / self.low).ln();
        start + (f64::from(end - start) * place).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        if hint.weight().allow_light_points() {
            self.light.clone()
        } else {
            self.ticks.clone()
        }
    }

    fn range(&self) -> Range<f64> {
        self.low..self.high
    }
}

impl ValueFormatter<f64> for LogAxis {
    fn format_ext(&self, value: &f64) -> String {
        format_value(*value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_whole_sweep_has_every_second_power_of_two() {
        let axis = LogAxis::sizes([1.0, 4_194_307.0].into_iter()).unwrap();
        let exponents: Vec<_> = axis.ticks.iter().map(|tick| tick.log2()).collect();
        assert_eq!(
            exponents,
            [0., 2., 4., 6., 8., 10., 12., 14., 16., 18., 20., 22.]
        );
        assert_eq!(axis.map(&axis.low, (10, 110)), 10);
        assert_eq!(axis.map(&axis.high, (10, 110)), 110);
    }

    #[test]
    fn few_sizes_have_every_power_and_one_has_room() {
        let axis = LogAxis::sizes([64.0, 1024.0].into_iter()).unwrap();
        assert_eq!(axis.ticks, [64., 128., 256., 512., 1024.]);
        let axis = LogAxis::sizes([64.0].into_iter()).unwrap();
        assert!(axis.low < 64.0 && axis.high > 64.0);
        assert_eq!(axis.ticks, [64.0]);
    }

    #[test]
    fn values_have_decades_and_over_few_also_steps_between() {
        let axis = LogAxis::decades([0.055, 358.0].into_iter()).unwrap();
        assert_eq!((axis.low, axis.high), (0.05, 500.0));
        let labels: Vec<_> = axis.ticks.iter().map(|tick| format_value(*tick)).collect();
        assert_eq!(labels, ["0.1", "1", "10", "100"]);
        let axis = LogAxis::decades([3.0, 40.0].into_iter()).unwrap();
        let labels: Vec<_> = axis.ticks.iter().map(|tick| format_value(*tick)).collect();
        assert_eq!(labels, ["2", "5", "10", "20", "50"]);
    }

    #[test]
    fn what_has_no_logarithm_is_left_out() {
        assert_eq!(LogAxis::decades([0.0, -1.0, f64::NAN].into_iter()), None);
        assert!(LogAxis::decades([0.0, 2.0].into_iter()).is_some());
        assert_eq!(LogAxis::sizes([].into_iter()), None);
    }

    #[test]
    fn labels_have_no_more_digits_than_they_need() {
        for (value, text) in [(0.01, "0.01"), (0.2, "0.2"), (5.0, "5"), (1000.0, "1000")] {
            assert_eq!(format_value(value), text);
        }
    }
}
