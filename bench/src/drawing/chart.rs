//! A drawing of panels with lines, points with their spread, or bars.

use super::axis::Axis;
use super::{Area, Drawn, FAINT, INK, MARGIN, PALETTE, svg, text};
use crate::error::BenchError;
use crate::report;
use plotters::coord::ranged1d::ValueFormatter;
use plotters::element::DashedPathElement;
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

// Sizes in pixels.
const WIDTH: i32 = 1240;
const TITLE_HEIGHT: i32 = 68;
const LEGEND_ROW_HEIGHT: i32 = 26;
/// Height of a row of panels: of the only one, and of several.
const PANELS_HEIGHT: i32 = 480;
const ROW_HEIGHT: i32 = 320;
/// Panels in a row, if they do not fit in one row of two.
const ROW_PANELS: usize = 3;
/// Length of the dashes of a line and of the gaps between them.
const DASH: i32 = 6;
const DASH_GAP: i32 = 4;
const GRID: RGBColor = RGBColor(222, 222, 222);
const GRID_LIGHT: RGBColor = RGBColor(240, 240, 240);

/// One value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
    pub is_marked: bool,
}

/// Representation of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    Line,
    Dashed,
    /// Bars of this width.
    Bars(f64),
}

/// Points of one line or colour.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    /// Index into the palette.
    pub colour: usize,
    pub shape: Shape,
    pub points: Vec<Point>,
}

/// One panel of a drawing.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x_name: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// Value of a dashed line: a target.
    pub mark: Option<f64>,
}

/// The whole drawing.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    /// The machine, and other circumstances of the measurement.
    pub remark: String,
    pub panels: Vec<Panel>,
}

impl Chart {
    /// The drawing as SVG.
    ///
    /// # Errors
    /// The error of the drawing library.
    pub fn draw(&self) -> Result<String, BenchError> {
        let legend = self.legend();
        let names: Vec<&str> = legend.iter().map(|series| &*series.name).collect();
        let places = legend_places(&names);
        let rows = places.last().map_or(1, |&(_, row)| row + 1);
        let head_height = TITLE_HEIGHT + rows * LEGEND_ROW_HEIGHT + 10;
        let (panel_rows, columns) = match self.panels.len() {
            count @ 0..=2 => (1, count.max(1)),
            count => (count.div_ceil(ROW_PANELS), ROW_PANELS),
        };
        let panels_height = match panel_rows {
            1 => PANELS_HEIGHT,
            rows => rows as i32 * ROW_HEIGHT,
        };
        svg((WIDTH, head_height + panels_height), |root| {
            let (head, panels) = root.split_vertically(head_height);
            head.draw_text(&self.title, &text(22, INK), (MARGIN, 16))?;
            head.draw_text(&self.remark, &text(13, FAINT), (MARGIN, 46))?;
            for (series, (x, row)) in legend.iter().zip(places) {
                series.draw_name(&head, (x, TITLE_HEIGHT + row * LEGEND_ROW_HEIGHT + 16))?;
            }
            let areas = panels.split_evenly((panel_rows, columns));
            areas
                .iter()
                .zip(&self.panels)
                .try_for_each(|(area, panel)| panel.draw(area))
        })
    }

    /// Draws to a file, which appears whole or not at all.
    ///
    /// # Errors
    /// As [`draw`](Self::draw), and when the file cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), BenchError> {
        report::save(&self.draw()?, path)
    }

    /// The series of the legend: each name once, for any number of panels.
    fn legend(&self) -> Vec<&Series> {
        let mut legend: Vec<&Series> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if !series.name.is_empty() && legend.iter().all(|seen| seen.name != series.name) {
                legend.push(series);
            }
        }
        legend
    }
}

/// Left end and row of each entry of the legend.
fn legend_places(names: &[&str]) -> Vec<(i32, i32)> {
    let (mut x, mut row) = (MARGIN, 0);
    let mut places = Vec::with_capacity(names.len());
    for name in names {
        // The backend has no font metrics; this is wide enough for every sans serif.
        let width = 42 + 9 * name.chars().count() as i32 + 30;
        if x > MARGIN && x + width > WIDTH - MARGIN {
            (x, row) = (MARGIN, row + 1);
        }
        places.push((x, row));
        x += width;
    }
    places
}

impl Series {
    pub fn new(
        name: impl Into<String>,
        colour: usize,
        shape: Shape,
        points: impl IntoIterator<Item = Point>,
    ) -> Self {
        Self {
            name: name.into(),
            colour,
            shape,
            points: points.into_iter().collect(),
        }
    }

    fn colour(&self) -> RGBColor {
        PALETTE[self.colour % PALETTE.len()]
    }

    fn stroke(&self) -> ShapeStyle {
        self.colour().stroke_width(2)
    }

    fn draw_name(&self, area: &Area<'_>, (x, y): (i32, i32)) -> Drawn<()> {
        let line = [(x, y), (x + 34, y)];
        if self.shape == Shape::Dashed {
            let line = line.into_iter();
            area.draw(&DashedPathElement::new(line, DASH, DASH_GAP, self.stroke()))?;
        } else {
            area.draw(&PathElement::new(line, self.stroke()))?;
        }
        area.draw(&Circle::new((x + 17, y), 3, self.colour().filled()))?;
        let middle = text(14, INK).pos(Pos::new(HPos::Left, VPos::Center));
        area.draw_text(&self.name, &middle, (x + 42, y))
    }
}

impl Panel {
    fn draw(&self, area: &Area<'_>) -> Drawn<()> {
        let mut chart = ChartBuilder::on(area)
            .margin_left(MARGIN - 10)
            .margin_right(MARGIN)
            .margin_bottom(12)
            .caption(&self.title, text(16, INK))
            .x_label_area_size(44)
            .y_label_area_size(56)
            .build_cartesian_2d(self.x.clone(), self.y.clone())?;
        chart
            .configure_mesh()
            .bold_line_style(GRID)
            .light_line_style(GRID_LIGHT)
            .axis_style(FAINT)
            .label_style(text(13, INK))
            .axis_desc_style(text(13, FAINT).transform(FontTransform::None))
            .x_desc(&self.x_name)
            .x_label_formatter(&|value| self.x.format_ext(value))
            .y_label_formatter(&|value| self.y.format_ext(value))
            .draw()?;
        let dashed = |points, stroke| DashedLineSeries::new(points, DASH, DASH_GAP, stroke);
        if let Some(mark) = self.mark {
            let (from, to) = self.x.ends();
            let ends = vec![(from, mark), (to, mark)];
            chart.draw_series(dashed(ends, FAINT.stroke_width(1)))?;
        }
        for series in &self.series {
            let colour = series.colour();
            let at = |point: &Point| (point.x, point.y);
            let points: Vec<_> = series.points.iter().map(at).collect();
            match series.shape {
                Shape::Line => drop(chart.draw_series(LineSeries::new(points, series.stroke()))?),
                Shape::Dashed => drop(chart.draw_series(dashed(points, series.stroke()))?),
                Shape::Bars(width) => {
                    let bottom = self.y.ends().0;
                    chart.draw_series(points.into_iter().map(|(x, y)| {
                        let corners = [(x - width / 2.0, bottom), (x + width / 2.0, y)];
                        Rectangle::new(corners, colour.mix(0.75).filled())
                    }))?;
                }
            }
            let is_bars = matches!(series.shape, Shape::Bars(_));
            let ink = if is_bars { INK } else { colour };
            let spread = series.points.iter().filter(|point| point.low < point.high);
            chart.draw_series(spread.map(|point| {
                let ends = vec![(point.x, point.low), (point.x, point.high)];
                PathElement::new(ends, ink.stroke_width(1))
            }))?;
            let marked = series.points.iter().filter(|it| it.is_marked && !is_bars);
            chart.draw_series(marked.map(|it| Circle::new(at(it), 3, colour.filled())))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(x: Axis, shape: Shape) -> Panel {
        let point = |x: f64| Point {
            x,
            y: 1.5,
            low: 1.0,
            high: 2.0,
            is_marked: true,
        };
        Panel {
            title: "a panel".into(),
            x_name: "what is below".into(),
            x,
            y: Axis::from_zero([2.0].into_iter()),
            series: vec![Series {
                name: "some values".into(),
                colour: 1,
                shape,
                points: vec![point(0.0), point(1.0)],
            }],
            mark: Some(1.0),
        }
    }

    #[test]
    fn a_drawing_names_what_it_shows_once() {
        let names = Axis::Names(vec!["before".into(), "after".into()]);
        let chart = Chart {
            title: "a title".into(),
            remark: "a machine".into(),
            panels: vec![
                panel(names, Shape::Bars(0.6)),
                panel(Axis::Counts(12), Shape::Line),
            ],
        };
        let drawing = chart.draw().unwrap();
        for words in ["a title", "a machine", "before", "after", "what is below"] {
            assert!(drawing.contains(words), "{words}");
        }
        assert_eq!(drawing.matches("some values").count(), 1);
        assert!(drawing.trim_end().ends_with("</svg>"));
    }

    #[test]
    fn many_names_have_a_legend_of_several_rows() {
        let names: Vec<String> = (0..16)
            .map(|n| format!("ofi:tcp;ofi_rxm shm {n}"))
            .collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let places = legend_places(&names);
        assert_eq!(places.len(), 16);
        assert!(places.last().unwrap().1 > 1);
        for (name, (x, _)) in names.iter().zip(&places) {
            assert!(x + 42 + 9 * (name.len() as i32) < WIDTH, "{places:?}");
        }
    }
}
