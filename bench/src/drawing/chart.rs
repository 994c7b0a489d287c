//! A drawing of one or two panels with lines, points with their spread, or bars.

use super::axis::{LogAxis, format_value};
use super::{FAINT, FONT, GRID, GRID_LIGHT, INK, MARGIN, PALETTE, WIDTH};
use crate::netpipe::format_size;
use plotters::coord::Shift;
use plotters::coord::ranged1d::{KeyPointHint, NoDefaultFormatting, Ranged, ValueFormatter};
use plotters::prelude::*;
use plotters::style::FontTransform;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

// Pixels.
const TITLE_HEIGHT: i32 = 68;
const LEGEND_HEIGHT: i32 = 36;
const PANELS_HEIGHT: i32 = 460;
/// About so many ticks.
const TICKS: f64 = 7.0;

/// One value and its spread.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    pub x: f64,
    pub y: f64,
    pub low: f64,
    pub high: f64,
}

/// How values are shown.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// With marks and spreads.
    Line,
    /// Nothing but the line.
    Bare,
    /// Of this width.
    Bars(f64),
}

/// What belongs together.
#[derive(Clone, Debug)]
pub struct Series {
    pub name: String,
    pub colour: usize,
    pub shape: Shape,
    pub points: Vec<Point>,
}

/// What an axis shows.
#[derive(Clone, Debug, PartialEq)]
pub enum Axis {
    /// Message sizes.
    Sizes(LogAxis),
    /// Anything else over decades.
    Decades(LogAxis),
    /// From, to.
    Linear(f64, f64),
    /// 0, 1, 2, … up to this.
    Counts(u32),
    /// Names at 0, 1, 2, …
    Names(Vec<String>),
}

impl Axis {
    /// From 0 to a bit more than the largest value.
    pub fn from_zero(values: impl Iterator<Item = f64>) -> Self {
        let largest = values.filter(|value| value.is_finite()).fold(0.0, f64::max);
        Self::Linear(0.0, if largest > 0.0 { largest * 1.12 } else { 1.0 })
    }

    fn ends(&self) -> (f64, f64) {
        match self {
            Self::Sizes(log) | Self::Decades(log) => {
                let ends = log.range();
                (ends.start, ends.end)
            }
            Self::Linear(low, high) => (*low, *high),
            Self::Counts(last) => (-0.3, f64::from(*last) + 0.3),
            Self::Names(names) => (-0.6, names.len() as f64 - 0.4),
        }
    }
}

/// A step of 1, 2 or 5 times a power of ten.
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
            Self::Sizes(log) | Self::Decades(log) => log.key_points(hint),
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

/// One diagram.
#[derive(Clone, Debug)]
pub struct Panel {
    pub title: String,
    pub x_name: String,
    pub x: Axis,
    pub y: Axis,
    pub series: Vec<Series>,
    /// A dashed line: a target, or what is compared with.
    pub mark: Option<f64>,
}

/// The whole drawing.
#[derive(Clone, Debug)]
pub struct Chart {
    pub title: String,
    /// What it was made on and by.
    pub remark: String,
    pub panels: Vec<Panel>,
}

type Drawn<T> = Result<T, DrawingAreaErrorKind<std::io::Error>>;
type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

fn text(size: i32, colour: RGBColor) -> TextStyle<'static> {
    (FONT, size).into_font().color(&colour)
}

fn colour(index: usize) -> RGBColor {
    PALETTE[index % PALETTE.len()]
}

impl Chart {
    /// As SVG.
    ///
    /// # Errors
    /// The drawing library's words.
    pub fn draw(&self) -> Result<String, String> {
        let mut drawing = String::new();
        self.draw_into(&mut drawing)
            .map_err(|error| error.to_string())?;
        Ok(drawing)
    }

    fn draw_into(&self, drawing: &mut String) -> Drawn<()> {
        let head_height = TITLE_HEIGHT + LEGEND_HEIGHT;
        let size = (WIDTH as u32, (head_height + PANELS_HEIGHT) as u32);
        let root = SVGBackend::with_string(drawing, size).into_drawing_area();
        root.fill(&WHITE)?;
        let (head, panels) = root.split_vertically(head_height);
        head.draw_text(&self.title, &text(22, INK), (MARGIN, 16))?;
        head.draw_text(&self.remark, &text(13, FAINT), (MARGIN, 46))?;
        self.draw_legend(&head)?;
        let areas = panels.split_evenly((1, self.panels.len().max(1)));
        for (area, panel) in areas.iter().zip(&self.panels) {
            panel.draw(area)?;
        }
        root.present()
    }

    /// Each name once, whatever the number of panels.
    fn draw_legend(&self, area: &Area<'_>) -> Drawn<()> {
        let (mut x, y) = (MARGIN, TITLE_HEIGHT + 14);
        let mut seen: Vec<&str> = Vec::new();
        for series in self.panels.iter().flat_map(|panel| &panel.series) {
            if series.name.is_empty() || seen.contains(&series.name.as_str()) {
                continue;
            }
            seen.push(&series.name);
            let colour = colour(series.colour);
            let line = PathElement::new([(x, y), (x + 34, y)], colour.stroke_width(2));
            area.draw(&line)?;
            if series.shape != Shape::Bare {
                area.draw(&Circle::new((x + 17, y), 3, colour.filled()))?;
            }
            let middle = text(14, INK).pos(Pos::new(HPos::Left, VPos::Center));
            area.draw_text(&series.name, &middle, (x + 42, y))?;
            // The backend knows no font metrics; wide enough for every sans serif.
            x += 42 + 9 * series.name.chars().count() as i32 + 30;
        }
        Ok(())
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
        if let Some(mark) = self.mark {
            let (from, to) = self.x.ends();
            let ends = [(from, mark), (to, mark)];
            chart.draw_series(DashedLineSeries::new(ends, 6, 4, FAINT.stroke_width(1)))?;
        }
        for series in &self.series {
            let colour = colour(series.colour);
            let at = || series.points.iter().map(|point| (point.x, point.y));
            if let Shape::Bars(width) = series.shape {
                let bottom = self.y.ends().0;
                chart.draw_series(at().map(|(x, y)| {
                    let corners = [(x - width / 2.0, bottom), (x + width / 2.0, y)];
                    Rectangle::new(corners, colour.mix(0.75).filled())
                }))?;
            } else {
                chart.draw_series(LineSeries::new(at(), colour.stroke_width(2)))?;
            }
            if series.shape == Shape::Bare {
                continue;
            }
            let ink = match series.shape {
                Shape::Bars(_) => INK,
                _ => colour,
            };
            chart.draw_series(series.points.iter().map(|point| {
                let ends = vec![(point.x, point.low), (point.x, point.high)];
                PathElement::new(ends, ink.stroke_width(1))
            }))?;
            if series.shape == Shape::Line {
                chart.draw_series(at().map(|at| Circle::new(at, 3, colour.filled())))?;
            }
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
