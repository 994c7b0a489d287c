//! Drawings of measurements as SVG.

pub mod axis;
pub mod chart;

use plotters::style::RGBColor;

/// Margin in pixels.
pub const MARGIN: i32 = 24;
pub const INK: RGBColor = RGBColor(40, 40, 40);
pub const FAINT: RGBColor = RGBColor(110, 110, 110);
pub const FONT: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";
