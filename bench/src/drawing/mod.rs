//! Drawings of measurements as SVG.

pub mod axis;
pub mod chart;
mod hypotf;

use crate::error::BenchError;
use plotters::coord::Shift;
use plotters::prelude::*;

/// Margin in pixels.
pub const MARGIN: i32 = 24;
pub const INK: RGBColor = RGBColor(40, 40, 40);
pub const FAINT: RGBColor = RGBColor(110, 110, 110);
/// Okabe and Ito's palette: colours that can be distinguished with every kind of colour vision.
pub const PALETTE: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    // Additional colours, for drawings of many lines.
    RGBColor(150, 110, 60),
    RGBColor(150, 150, 150),
];

pub type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;
pub type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A drawing on white, of this width and height in pixels.
///
/// # Errors
/// The error of the drawing library.
pub fn svg(
    (width, height): (i32, i32),
    draw: impl FnOnce(&Area<'_>) -> Drawn<()>,
) -> Result<String, BenchError> {
    let mut drawing = String::new();
    let backend = SVGBackend::with_string(&mut drawing, (width as u32, height as u32));
    let root = backend.into_drawing_area();
    let drawn = root.fill(&WHITE).and_then(|()| draw(&root));
    drawn
        .and_then(|()| root.present())
        .map_err(|error| BenchError::failed(format!("cannot draw: {error}")))?;
    drop(root);
    Ok(drawing)
}

pub fn text(size: i32, colour: RGBColor) -> TextStyle<'static> {
    let font = "DejaVu Sans, Helvetica, Arial, sans-serif";
    (font, size).into_font().color(&colour)
}
