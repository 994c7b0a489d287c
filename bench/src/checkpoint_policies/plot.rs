//! The drawing: for each pattern and policy one bar for the bytes in the logs, and one for the
//! bytes that a byte of checkpoints frees.

use super::report::{Figures, Report, ratio};
use crate::drawing::{Area, Drawn, FAINT, INK, MARGIN, PALETTE, svg, text};
use crate::error::BenchError;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use refrain_launch::size::Size;

// Pixels of the drawing.
const WIDTH: i32 = 1080;
const HEAD_HEIGHT: i32 = 104;
const PATTERN_HEIGHT: i32 = 34;
const ROW_HEIGHT: i32 = 24;
const BAR_HEIGHT: i32 = 14;
/// Beginning of the bars of the two figures, and length of the longest bar.
const LOGS_X: i32 = 150;
const FREED_X: i32 = 640;
const BAR_LENGTH: i32 = 330;
const LABEL_GAP: i32 = 8;
const LOGS: RGBColor = PALETTE[0];
const FREED: RGBColor = PALETTE[1];
const BEYOND: RGBColor = RGBColor(190, 190, 190);

/// The drawing as SVG.
///
/// # Errors
/// When the drawing library refuses.
pub fn draw(report: &Report) -> Result<String, BenchError> {
    let patterns: Vec<&[Figures]> = report
        .rows
        .chunk_by(|a, b| a.pattern == b.pattern)
        .collect();
    let of_pattern = |rows: &&[Figures]| PATTERN_HEIGHT + rows.len() as i32 * ROW_HEIGHT;
    let height = HEAD_HEIGHT + patterns.iter().map(of_pattern).sum::<i32>() + MARGIN;
    svg((WIDTH, height), |root| {
        draw_head(root, report)?;
        let mut y = HEAD_HEIGHT;
        for rows in patterns {
            draw_pattern(root, rows, y)?;
            y += of_pattern(&rows);
        }
        Ok(())
    })
}

/// Writes text that begins or ends at `at`, vertically centred there.
fn write(area: &Area<'_>, words: &str, at: (i32, i32), look: (i32, RGBColor)) -> Drawn<()> {
    let style = text(look.0, look.1).pos(Pos::new(HPos::Left, VPos::Center));
    area.draw_text(words, &style, at)
}

fn draw_head(area: &Area<'_>, report: &Report) -> Drawn<()> {
    let title = "Which rank takes the next checkpoint";
    write(area, title, (MARGIN, 26), (22, INK))?;
    write(area, &report.title(), (MARGIN, 54), (13, FAINT))?;
    let y = HEAD_HEIGHT - 16;
    write(
        area,
        "bytes in all logs, mean (grey: beyond the scale)",
        (LOGS_X, y),
        (14, LOGS),
    )?;
    let freed = "bytes freed for each byte of checkpoints";
    write(area, freed, (FREED_X, y), (14, FREED))
}

fn draw_pattern(area: &Area<'_>, rows: &[Figures], top: i32) -> Drawn<()> {
    let name = rows.first().map_or("", |row| row.pattern.as_str());
    write(area, name, (MARGIN, top + PATTERN_HEIGHT / 2), (15, INK))?;
    // Without checkpoints logs grow without limit: that bar is cut at the scale of the others.
    let compared = rows.iter().filter(|row| !row.is_none());
    let most_bytes = compared.map(|row| row.mean_log_bytes).fold(1.0, f64::max);
    let freed = |row: &Figures| row.freed_per_byte.unwrap_or(0.0);
    let most_freed = rows.iter().map(freed).fold(f64::MIN_POSITIVE, f64::max);
    for (index, row) in (0..).zip(rows) {
        let y = top + PATTERN_HEIGHT + index * ROW_HEIGHT + ROW_HEIGHT / 2;
        write(area, &row.policy, (MARGIN + 12, y), (13, INK))?;
        let part = row.mean_log_bytes / most_bytes;
        let colour = if part > 1.0 { BEYOND } else { LOGS };
        let bytes = Size(row.mean_log_bytes.round() as u64);
        bar(area, (LOGS_X, y), (part, colour), &bytes.to_string())?;
        let part = freed(row) / most_freed;
        let label = ratio(row.freed_per_byte);
        bar(area, (FREED_X, y), (part, FREED), &label)?;
    }
    Ok(())
}

/// Draws a bar of a part of the full length, followed by its label.
fn bar(area: &Area<'_>, (x, y): (i32, i32), look: (f64, RGBColor), label: &str) -> Drawn<()> {
    let (part, colour) = look;
    let length = (part.clamp(0.0, 1.0) * f64::from(BAR_LENGTH)).round() as i32;
    let corners = [(x, y - BAR_HEIGHT / 2), (x + length, y + BAR_HEIGHT / 2)];
    area.draw(&Rectangle::new(corners, colour.filled()))?;
    write(area, label, (x + length + LABEL_GAP, y), (12, FAINT))
}

#[cfg(test)]
mod tests {
    use super::*;
    use refrain_checkpoint::policy::{Settings, compare};

    #[test]
    fn the_picture_has_a_bar_for_everything() {
        let report = Report::of(&compare(Settings {
            turns: 500,
            ..Settings::default()
        }));
        let drawing = draw(&report).expect("a picture");
        // The background, and two bars for each row.
        let bars = drawing.matches("<rect").count();
        assert_eq!(bars, 1 + 2 * report.rows.len());
        for words in [
            "point-to-point",
            "reduce",
            "adaptive",
            "16 ranks",
            "bytes freed",
        ] {
            assert!(drawing.contains(words), "{words}");
        }
    }
}
