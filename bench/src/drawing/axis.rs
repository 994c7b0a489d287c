//! Axes of drawings. Logarithmic axes have round numbers: 1, 64, 1K, … for bytes and 0.1, 1, 10, …
//! for everything else.

use crate::report::format_size;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use std::ops::Range;

/// Maximum number of labels on the axis of sizes.
const SIZE_LABELS_MAX: i32 = 13;
/// Approximate number of ticks of a linear axis.
const TICKS: f64 = 7.0;

/// A logarithmic axis with its ticks.
#[derive(Clone, Debug, PartialEq)]
pub struct LogAxis {
    low: f64,
    high: f64,
    /// Ticks with a label.
    ticks: Vec<f64>,
    /// Ticks with a thin line.
    light: Vec<f64>,
}

impl LogAxis {
    /// An axis for message sizes: ticks at powers of two. `None` without a size.
    pub fn sizes(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = bounds(values)?;
        let exponents = low.log2().floor() as i32..=high.log2().ceil() as i32;
        let step = label_step(exponents.end() - exponents.start());
        // Margins at both ends, so that the outermost marks are not cut.
        let (low, high) = (low / 1.25, high * 1.25);
        let (low, high) = match high / low < 4.0 {
            true => (low / 2.0, high * 2.0),
            false => (low, high),
        };
        let powers = |step: i32| -> Vec<f64> {
            let exponents = exponents.clone().filter(|exponent| exponent % step == 0);
            let powers = exponents.map(|exponent| f64::from(exponent).exp2());
            powers.filter(|tick| (low..=high).contains(tick)).collect()
        };
        Some(Self {
            ticks: powers(step),
            light: powers(1),
            low,
            high,
        })
    }

    /// An axis for times and bandwidths: ticks at powers of ten, over few decades also at 2 and 5.
    /// `None` without a value.
    pub fn decades(values: impl Iterator<Item = f64>) -> Option<Self> {
        let (low, high) = bounds(values)?;
        let mut light: Vec<f64> = (low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1)
            .flat_map(|decade| [1.0, 2.0, 5.0].map(|digit| digit * 10f64.powi(decade)))
            .collect();
        // The axis ends at the last step below all values and the first step above.
        let low = light.iter().copied().rfind(|step| *step < low)?;
        let high = light.iter().copied().find(|step| *step > high)?;
        light.retain(|step| (low..=high).contains(step));
        let mut ticks = light.clone();
        if (high / low).log10() > 2.0 {
            ticks.retain(|tick| (tick.log10() - tick.log10().round()).abs() < 1e-9);
        }
        Some(Self {
            low,
            high,
            ticks,
            light,
        })
    }

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        let value = value.clamp(self.low, self.high);
        let place = (value / self.low).ln() / (self.high / self.low).ln();
        start + (f64::from(end - start) * place).round() as i32
    }
}

/// The smallest and the largest positive value.
fn bounds(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let values = values.filter(|value| value.is_finite() && *value > 0.0);
    values
        .map(|value| (value, value))
        .reduce(|(low, high), (value, _)| (low.min(value), high.max(value)))
}

/// Distance of two labels in powers of two: 1, or an even number, which keeps 1K, 64K and 1M.
fn label_step(powers: i32) -> i32 {
    match powers <= SIZE_LABELS_MAX {
        true => 1,
        false => ((powers + SIZE_LABELS_MAX - 1) / SIZE_LABELS_MAX + 1) / 2 * 2,
    }
}

/// 0.01, 0.1, 1, 10, 1000 without rounding errors of the representation; 1e5 and above short.
fn format_value(value: f64) -> String {
    if value >= 1e5 {
        return format!("{value:e}");
    }
    let digits = (-value.log10().floor()).max(0.0) as usize;
    format!("{value:.digits$}")
}

/// Kind of an axis.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Message sizes.
    Sizes(LogAxis),
    /// Other values, logarithmic.
    Decades(LogAxis),
    /// Linear, from the first to the second value.
    Linear(f64, f64),
    /// 0, 1, 2, … up to this number.
    Counts(u32),
    /// Names at 0, 1, 2, …
    Names(Vec<String>),
}

impl Axis {
    /// An axis with names at 0, 1, 2, …
    pub fn names<const N: usize>(names: [&str; N]) -> Self {
        Self::Names(names.map(str::to_owned).to_vec())
    }

    /// An axis from 0 to a little more than the largest value.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self::Linear(0.0, if largest > 0.0 { largest * 1.12 } else { 1.0 })
    }

    pub(super) fn ends(&self) -> (f64, f64) {
        match self {
            Self::Sizes(log) | Self::Decades(log) => (log.low, log.high),
            Self::Linear(low, high) => (*low, *high),
            Self::Counts(last) => (-0.3, f64::from(*last) + 0.3),
            Self::Names(names) => (-0.6, names.len() as f64 - 0.4),
        }
    }
}

/// A step between ticks: 1, 2 or 5 times a power of ten.
fn round_step(length: f64) -> f64 {
    let power = 10f64.powf((length / TICKS).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|digit| digit * power);
    let fits = |step: &f64| length / step <= TICKS;
    steps.into_iter().find(fits).unwrap_or(10.0 * power)
}

impl Ranged for Axis {
    type FormatOption = NoDefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, (start, end): (i32, i32)) -> i32 {
        match self {
            Self::Sizes(log) | Self::Decades(log) => log.map(value, (start, end)),
            Self::Linear(..) | Self::Counts(_) | Self::Names(_) => {
                let (low, high) = self.ends();
                let place = (value.clamp(low, high) - low) / (high - low);
                start + (f64::from(end - start) * place).round() as i32
            }
        }
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        match self {
            Self::Sizes(log) | Self::Decades(log) if hint.weight().allow_light_points() => {
                log.light.clone()
            }
            Self::Sizes(log) | Self::Decades(log) => log.ticks.clone(),
            Self::Names(names) => (0..names.len()).map(|index| index as f64).collect(),
            Self::Counts(last) => {
                let step = round_step(f64::from(*last)).max(1.0) as usize;
                (0..=*last).step_by(step).map(f64::from).collect()
            }
            Self::Linear(low, high) => {
                let step = round_step(high - low);
                let first = (low / step).ceil() as i64;
                let last = (high / step).floor() as i64;
                (first..=last).map(|index| index as f64 * step).collect()
            }
        }
    }

    fn range(&self) -> Range<f64> {
        let (low, high) = self.ends();
        low..high
    }
}

impl ValueFormatter<f64> for Axis {
    fn format_ext(&self, value: &f64) -> String {
        match self {
            Self::Sizes(_) => format_size(value.round() as u64),
            Self::Decades(_) => format_value(*value),
            Self::Counts(_) => format!("{value:.0}"),
            Self::Names(names) => names
                .get(value.round() as usize)
                .cloned()
                .unwrap_or_default(),
            Self::Linear(low, high) => {
                let digits = (-round_step(high - low).log10().floor()).max(0.0) as usize;
                format!("{value:.digits$}")
            }
        }
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
        for (value, text) in [
            (0.01, "0.01"),
            (0.2, "0.2"),
            (5.0, "5"),
            (1000.0, "1000"),
            (1e6, "1e6"),
        ] {
            assert_eq!(format_value(value), text);
        }
    }

    #[test]
    fn steps_are_round_and_few() {
        for (length, step) in [(9.0, 2.0), (1.0, 0.2), (0.03, 0.005), (140.0, 20.0)] {
            assert!((round_step(length) - step).abs() < 1e-9, "{length}");
        }
        let axis = Axis::Linear(-5.0, 100.0);
        let ticks = axis.key_points(plotters::coord::ranged1d::BoldPoints(10));
        assert_eq!(ticks, [0.0, 20.0, 40.0, 60.0, 80.0, 100.0]);
        assert_eq!(axis.map(&-5.0, (10, 110)), 10);
        assert_eq!(axis.map(&100.0, (10, 110)), 110);
        assert_eq!(axis.format_ext(&20.0), "20");
        let counts =
            |last| Axis::Counts(last).key_points(plotters::coord::ranged1d::BoldPoints(10));
        assert_eq!(counts(2), [0.0, 1.0, 2.0]);
        assert_eq!(counts(9), [0.0, 2.0, 4.0, 6.0, 8.0]);
    }
}
