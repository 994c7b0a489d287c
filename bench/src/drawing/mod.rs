//! How drawings look, and how they get to their files.

pub mod axis;
pub mod chart;

use plotters::style::RGBColor;
use std::io::{self, Write};
use std::path::Path;

// Pixels.
pub const WIDTH: i32 = 1240;
pub const MARGIN: i32 = 24;
/// Okabe and Ito's palette: told apart with every kind of colour vision.
pub const PALETTE: [RGBColor; 9] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(60, 60, 60),
    // Not theirs: for drawings of many lines.
    RGBColor(150, 110, 60),
    RGBColor(150, 150, 150),
];
pub const INK: RGBColor = RGBColor(40, 40, 40);
pub const FAINT: RGBColor = RGBColor(110, 110, 110);
pub const GRID: RGBColor = RGBColor(222, 222, 222);
pub const GRID_LIGHT: RGBColor = RGBColor(240, 240, 240);
pub const FONT: &str = "DejaVu Sans, Helvetica, Arial, sans-serif";

/// Writes a file that appears whole or not at all.
///
/// # Errors
/// Of the system.
pub fn save(text: &str, path: &Path) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let mut file = tempfile::Builder::new()
        .prefix(".refrain-")
        .suffix(".tmp")
        .permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666))
        .tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}
