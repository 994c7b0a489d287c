//! The plot: latency and bandwidth over size, log scales, one line per protocol
//! and peer.

use super::arguments::Mode;
use super::result::{NO_PROTOCOL, Record, fabrics, lines};
use crate::drawing::axis::{Axis, LogAxis};
use crate::drawing::chart::{Chart, Panel, Point, Series, Shape};
use crate::error::BenchError;

/// A chart of latency and bandwidth of `records`.
///
/// # Errors
/// There are no records or no times.
pub fn chart(records: &[Record], machine: &str) -> Result<Chart, BenchError> {
    let sizes = LogAxis::sizes(records.iter().map(|record| record.bytes as f64));
    let sizes = sizes.ok_or_else(|| BenchError::failed("cannot draw: nothing was measured"))?;
    let panel = |title: &str, value: fn(&Record) -> f64| -> Result<Panel, BenchError> {
        let values = LogAxis::decades(records.iter().map(value));
        let values =
            values.ok_or_else(|| BenchError::failed("cannot draw: no time was measured"))?;
        Ok(Panel {
            title: title.into(),
            x_name: "bytes per message".into(),
            x: Axis::Sizes(sizes.clone()),
            y: Axis::Decades(values),
            series: series(records, value),
            mark: None,
        })
    };
    let (time, bandwidth) = match records.first().map_or(Mode::PingPong, |it| it.mode) {
        Mode::PingPong => ("half round trip, median, µs", "bandwidth, Gb/s"),
        Mode::Bidirectional => (
            "one exchange, median, µs",
            "bandwidth, both directions, Gb/s",
        ),
        Mode::Stream => ("time per message, median, µs", "bandwidth, Gb/s"),
    };
    Ok(Chart {
        title: title(records),
        remark: machine.into(),
        panels: vec![
            panel(time, |record| record.half_rtt_us_p50)?,
            panel(bandwidth, |record| record.gbit_per_s)?,
        ],
    })
}

/// Lines of protocols are solid, those of peers dashed.
fn series(records: &[Record], value: fn(&Record) -> f64) -> Vec<Series> {
    let point = |record: &Record| Point {
        x: record.bytes as f64,
        y: value(record),
        low: value(record),
        high: value(record),
        is_marked: !record.perturbed,
    };
    let series = |(index, line): (usize, super::result::Line)| {
        let of_line = records.iter().filter(|record| line.has(record));
        let mut points: Vec<Point> = of_line.map(point).collect();
        points.sort_by(|a, b| a.x.total_cmp(&b.x));
        let shape = match line.is_peer() {
            true => Shape::Dashed,
            false => Shape::Line,
        };
        Series::new(line.name, index, shape, points)
    };
    lines(records).into_iter().enumerate().map(series).collect()
}

fn title(records: &[Record]) -> String {
    let mut own = records.iter().filter(|it| it.protocol != NO_PROTOCOL);
    own.next()
        .or(records.first())
        .map_or_else(String::new, |record| {
            format!(
                "refrain netpipe: {} over {}, {} receive",
                record.mode.name(),
                fabrics(records).join(" and "),
                record.receive.name()
            )
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netpipe::table::tests::synthetic;
    use std::path::Path;

    #[test]
    fn the_plot_names_every_line_and_size() {
        let chart = chart(&synthetic(), "a machine, 2 cores").unwrap();
        let drawing = chart.draw().unwrap();
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
        // To look at it: NETPIPE_PLOT=/tmp/a.svg cargo test … writes it to a file.
        if let Some(path) = std::env::var_os("NETPIPE_PLOT") {
            chart.save(Path::new(&path)).unwrap();
        }
    }

    #[test]
    fn a_single_size_can_be_drawn() {
        let one = &synthetic()[..1];
        assert!(chart(one, "").unwrap().draw().unwrap().contains("<svg"));
    }

    #[test]
    fn nothing_cannot_be_drawn() {
        assert!(chart(&[], "").is_err());
    }

    #[test]
    fn the_file_appears_whole_and_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("plot.svg");
        std::fs::write(&path, "old").unwrap();
        chart(&synthetic(), "").unwrap().save(&path).unwrap();
        let drawing = std::fs::read_to_string(&path).unwrap();
        assert!(drawing.trim_end().ends_with("</svg>"));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
        let missing = folder.path().join("no/plot.svg");
        assert!(chart(&synthetic(), "").unwrap().save(&missing).is_err());
    }
}
