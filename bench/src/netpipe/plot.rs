//! The plot: latency and bandwidth over size, log scales, one line per protocol
//! and peer.

use super::NetpipeError;
use super::arguments::Mode;
use super::result::{Line, NO_PROTOCOL, Record, fabrics, lines};
use super::sizes::format_size;
use crate::drawing::axis::{self, LogAxis};
use crate::drawing::{FAINT, FONT, GRID, GRID_LIGHT, INK, MARGIN, PALETTE, WIDTH, save};
use plotters::coord::Shift;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

// Pixels of the drawing.
/// Above the panels: title and machine, then the rows of the legend.
const TITLE_HEIGHT: i32 = 68;
const LEGEND_ROW_HEIGHT: i32 = 26;
const PANELS_HEIGHT: i32 = 496;

/// Draws `records` to `path`, which appears whole or not at all.
///
/// # Errors
/// When the file cannot be written.
pub fn write(records: &[Record], machine: &str, path: &Path) -> Result<(), NetpipeError> {
    let drawing = draw(records, machine)?;
    save(&drawing, path).map_err(|error| NetpipeError::Write {
        path: path.into(),
        error,
    })
}

/// The drawing as SVG.
///
/// # Errors
/// When there is nothing to draw or the drawing library refuses.
pub fn draw(records: &[Record], machine: &str) -> Result<String, NetpipeError> {
    let sizes = LogAxis::sizes(records.iter().map(|record| record.bytes as f64));
    let times = LogAxis::decades(records.iter().map(|record| record.half_rtt_us_p50));
    let bandwidths = LogAxis::decades(records.iter().map(|record| record.gbit_per_s));
    let (Some(sizes), Some(times), Some(bandwidths)) = (sizes, times, bandwidths) else {
        return Err(NetpipeError::Plot("nothing was measured".into()));
    };
    let mut drawing = String::new();
    {
        let lines = lines(records);
        let legend = legend_places(&lines);
        let rows = legend.last().map_or(1, |&(_, row)| row + 1);
        let head_height = TITLE_HEIGHT + rows * LEGEND_ROW_HEIGHT + 10;
        let size = (WIDTH as u32, (head_height + PANELS_HEIGHT) as u32);
        let root = SVGBackend::with_string(&mut drawing, size).into_drawing_area();
        root.fill(&WHITE).map_err(refused)?;
        let (head, panels) = root.split_vertically(head_height);
        draw_titles(&head, records, machine)?;
        draw_legend(&head, &lines, &legend)?;
        let (left, right) = panels.split_horizontally(WIDTH / 2);
        let (time, bandwidth) = panel_titles(records);
        let panel = Panel {
            title: time,
            value: |record| record.half_rtt_us_p50,
        };
        panel.draw(&left, records, &sizes, times)?;
        let panel = Panel {
            title: bandwidth,
            value: |record| record.gbit_per_s,
        };
        panel.draw(&right, records, &sizes, bandwidths)?;
        root.present().map_err(refused)?;
    }
    Ok(drawing)
}

fn refused(error: impl std::fmt::Display) -> NetpipeError {
    NetpipeError::Plot(error.to_string())
}

fn panel_titles(records: &[Record]) -> (&'static str, &'static str) {
    match records.first().map_or(Mode::PingPong, |record| record.mode) {
        Mode::PingPong => ("half round trip, median, µs", "bandwidth, Gb/s"),
        Mode::Bidirectional => (
            "one exchange, median, µs",
            "bandwidth, both directions, Gb/s",
        ),
        Mode::Stream => ("time per message, median, µs", "bandwidth, Gb/s"),
    }
}

fn text(size: i32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, size).into_font().color(&colour)
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn draw_titles(area: &Area<'_>, records: &[Record], machine: &str) -> Result<(), NetpipeError> {
    area.draw_text(&title(records), &text(22, INK), (MARGIN, 16))
        .map_err(refused)?;
    area.draw_text(machine, &text(13, FAINT), (MARGIN, 46))
        .map_err(refused)
}

/// Where each line's entry begins, and in which row.
fn legend_places(lines: &[Line]) -> Vec<(i32, i32)> {
    let (mut x, mut row) = (MARGIN, 0);
    let mut places = Vec::with_capacity(lines.len());
    for line in lines {
        // The backend knows no font metrics; wide enough for every sans serif.
        let width = 42 + 9 * line.name.chars().count() as i32 + 30;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, row) = (MARGIN, row + 1);
        }
        places.push((x, row));
        x += width;
    }
    places
}

fn draw_legend(area: &Area<'_>, lines: &[Line], places: &[(i32, i32)]) -> Result<(), NetpipeError> {
    for (index, (line, &(x, row))) in lines.iter().zip(places).enumerate() {
        let style = LineStyle::of(index, line);
        let y = TITLE_HEIGHT + row * LEGEND_ROW_HEIGHT + 16;
        style.draw(area, &[(x, y), (x + 34, y)])?;
        area.draw(&Circle::new((x + 17, y), 3, style.colour.filled()))
            .map_err(refused)?;
        let middle = text(14, INK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&line.name, &middle, (x + 42, y))
            .map_err(refused)?;
    }
    Ok(())
}

fn title(records: &[Record]) -> String {
    let first = records
        .iter()
        .find(|record| record.protocol != NO_PROTOCOL)
        .or(records.first());
    first.map_or_else(String::new, |record| {
        format!(
            "refrain netpipe: {} over {}, {} receive",
            record.mode.name(),
            fabrics(records).join(" and "),
            record.receive.name()
        )
    })
}

/// Protocols are whole lines, peers dashed.
#[derive(Clone, Copy)]
struct LineStyle {
    colour: RGBColor,
    dashed: bool,
}

impl LineStyle {
    fn of(index: usize, line: &Line) -> Self {
        Self {
            colour: PALETTE[index % PALETTE.len()],
            dashed: line.is_peer(),
        }
    }

    fn stroke(self) -> ShapeStyle {
        self.colour.stroke_width(2)
    }

    fn draw(self, area: &Area<'_>, points: &[(i32, i32)]) -> Result<(), NetpipeError> {
        let points = points.iter().copied();
        if self.dashed {
            area.draw(&DashedPathElement::new(points, 6, 4, self.stroke()))
        } else {
            area.draw(&PathElement::new(points.collect::<Vec<_>>(), self.stroke()))
        }
        .map_err(refused)
    }
}

/// One of the two diagrams.
struct Panel {
    title: &'static str,
    value: fn(&Record) -> f64,
}

impl Panel {
    fn draw(
        &self,
        area: &Area<'_>,
        records: &[Record],
        sizes: &LogAxis,
        values: LogAxis,
    ) -> Result<(), NetpipeError> {
        let mut chart = ChartBuilder::on(area)
            .margin_left(MARGIN - 10)
            .margin_right(MARGIN)
            .margin_bottom(12)
            .caption(self.title, text(16, INK))
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(sizes.clone(), values)
            .map_err(refused)?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID_LIGHT)
            .axis_style(FAINT)
            .label_style(text(13, INK))
            .axis_desc_style(text(13, FAINT).transform(FontTransform::None))
            .x_desc("bytes per message")
            .x_label_formatter(&|bytes| format_size(bytes.round() as u64))
            .y_label_formatter(&|value| axis::format_value(*value))
            .draw()
            .map_err(refused)?;
        for (index, line) in lines(records).into_iter().enumerate() {
            let style = LineStyle::of(index, &line);
            let of_line = records.iter().filter(|record| line.has(record));
            let point = |record: &Record| (record.bytes as f64, (self.value)(record));
            let mut points: Vec<_> = of_line.clone().map(point).collect();
            points.sort_by(|a, b| a.0.total_cmp(&b.0));
            if style.dashed {
                chart.draw_series(DashedLineSeries::new(points, 6, 4, style.stroke()))
            } else {
                chart.draw_series(LineSeries::new(points, style.stroke()))
            }
            .map_err(refused)?;
            let marks = of_line.filter(|record| !record.perturbed).map(point);
            chart
                .draw_series(marks.map(|at| Circle::new(at, 3, style.colour.filled())))
                .map_err(refused)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netpipe::table::tests::synthetic;

    #[test]
    fn the_plot_names_every_line_and_size() {
        let drawing = draw(&synthetic(), "a machine, 2 cores").unwrap();
        for words in [
            "pessimist",
            "openmpi/NetPIPE",
            "64K",
            "4M",
            "a machine, 2 cores",
            "ping-pong over shm, named receive",
            "Gb/s",
        ] {
            assert!(drawing.contains(words), "{words}");
        }
        // For people: NETPIPE_PLOT=/tmp/a.svg cargo test … shows it.
        if let Some(path) = std::env::var_os("NETPIPE_PLOT") {
            write(&synthetic(), "a machine, 2 cores", Path::new(&path)).unwrap();
        }
    }

    #[test]
    fn many_lines_have_a_legend_of_several_rows() {
        let records: Vec<Record> = ["shm", "ofi:tcp", "ofi:shm", "ofi:tcp;ofi_rxm"]
            .into_iter()
            .flat_map(|fabric| {
                synthetic()
                    .into_iter()
                    .filter(|record| record.bytes <= 2)
                    .map(move |mut record| {
                        record.fabric = format!("{fabric} {}", record.fabric);
                        record
                    })
            })
            .collect();
        let lines = lines(&records);
        let places = legend_places(&lines);
        assert_eq!(places.len(), 16);
        assert!(places.last().unwrap().1 > 1);
        for (line, (x, _)) in lines.iter().zip(&places) {
            assert!(x + 42 + 9 * (line.name.len() as i32) < WIDTH, "{places:?}");
        }
        draw(&records, "").unwrap();
    }

    #[test]
    fn a_single_size_can_be_drawn() {
        let one = &synthetic()[..1];
        assert!(draw(one, "").unwrap().contains("<svg"));
    }

    #[test]
    fn nothing_cannot_be_drawn() {
        assert!(draw(&[], "").is_err());
    }

    #[test]
    fn the_file_appears_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        std::fs::write(&path, "old").unwrap();
        write(&synthetic(), "", &path).unwrap();
        let drawing = std::fs::read_to_string(&path).unwrap();
        assert!(drawing.trim_end().ends_with("</svg>"));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
        let missing = folder.path().join("no/plot.svg");
        assert!(write(&synthetic(), "", &missing).is_err());
    }
}
