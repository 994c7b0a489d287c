//! Figures from measured times: percentiles, spread, bandwidth, overhead, JSON.

use super::arguments::{Mode, Receive};
use super::command::Samples;
use super::log_figures::{DiskFigures, LogFigures};
use super::sizes::Point;
use crate::summary::{Summary, median};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// Significant decimal digits of the histogram of times.
const DIGITS: u8 = 4;

/// One line of the JSON: one size with one protocol or peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The fabric, or the peer's name such as `openmpi/NetPIPE`.
    pub fabric: String,
    /// The protocol; `-` for peers.
    pub protocol: String,
    /// Receive operation of the receiving side.
    pub receive: Receive,
    /// Exchange of the ranks.
    pub mode: Mode,
    /// Bytes of one message.
    pub bytes: u64,
    /// Median of half the round trip in µs (stream: time per message; bidirectional: time of one
    /// exchange).
    pub half_rtt_us_p50: f64,
    /// 99th percentile in µs; peers do not report it.
    pub half_rtt_us_p99: Option<f64>,
    /// Minimum in µs.
    pub half_rtt_us_min: Option<f64>,
    /// Mean in µs: it includes the waits for a disk.
    pub half_rtt_us_mean: Option<f64>,
    /// Bandwidth from the median time; the sum of both directions if both ranks send.
    pub gbit_per_s: f64,
    /// Number of round trips (messages, exchanges) timed.
    pub repeats: Option<u64>,
    /// Number of round trips per sample, median over the rounds.
    pub batch: Option<u64>,
    /// Inter-quartile range of the rounds' medians, relative to their median.
    pub spread: Option<f64>,
    /// Median over the rounds of this protocol's time relative to that of `none` in the same
    /// round.
    pub overhead_vs_none: Option<f64>,
    /// The size is beside a size of NetPIPE's series.
    pub perturbed: bool,
    /// Figures of the payload log, for a protocol that has one.
    #[serde(flatten)]
    pub log: LogFigures,
    /// Figures of the disk below the log.
    #[serde(flatten)]
    pub disk: DiskFigures,
}

/// The value of `protocol` in records of peers.
pub const NO_PROTOCOL: &str = "-";

/// The figures of one size with one protocol.
#[derive(Clone, Debug, PartialEq)]
pub struct Figures {
    /// Median, 99th percentile and minimum of all samples, µs.
    pub p50_us: f64,
    pub p99_us: f64,
    pub min_us: f64,
    pub repeats: u64,
    pub batch: u64,
    pub spread: f64,
    /// Median of each round, µs.
    pub rounds_us: Vec<f64>,
    /// Mean of each round, µs.
    pub rounds_mean_us: Vec<f64>,
}

impl Figures {
    /// Figures from the samples of the rounds; `None` without samples.
    pub fn from_rounds(rounds: &[Samples]) -> Option<Self> {
        let mut histogram = Histogram::<u64>::new(DIGITS).ok()?;
        let (mut rounds_us, mut rounds_mean_us) = (Vec::new(), Vec::new());
        let timed = || rounds.iter().filter(|round| !round.times_ps.is_empty());
        for round in timed() {
            for &time_ps in &round.times_ps {
                // The smallest value of the histogram is 1.
                histogram.record(time_ps.max(1)).ok()?;
            }
            let times = || round.times_ps.iter().map(|&ps| us(ps));
            // All samples of a round have the same number of round trips.
            rounds_mean_us.push(times().sum::<f64>() / round.times_ps.len() as f64);
            rounds_us.push(median(times())?);
        }
        let spread = Summary::of(rounds_us.iter().copied())?.spread();
        Some(Self {
            p50_us: us(histogram.value_at_quantile(0.5)),
            p99_us: us(histogram.value_at_quantile(0.99)),
            min_us: us(histogram.min()),
            repeats: timed().map(|it| it.batch * it.times_ps.len() as u64).sum(),
            batch: median(timed().map(|round| round.batch as f64))? as u64,
            spread,
            rounds_us,
            rounds_mean_us,
        })
    }

    /// Median over the rounds of the mean time, µs.
    pub fn mean_us(&self) -> Option<f64> {
        median(self.rounds_mean_us.iter().copied())
    }

    /// Payload bytes per second of each round, from its mean time.
    pub fn speeds(&self, bytes: u64, mode: Mode) -> Vec<f64> {
        let speed = |&mean_us: &f64| gbit_per_s(bytes, mean_us, mode) * 1e9 / 8.0;
        self.rounds_mean_us.iter().map(speed).collect()
    }
}

fn us(ps: u64) -> f64 {
    ps as f64 / 1e6
}

/// Median of the ratios within each round. Rounds interleave the protocols, so lasting noise
/// affects both sides of a ratio.
pub fn overhead(of_us: &[f64], base_us: &[f64]) -> Option<f64> {
    let rounds = of_us.iter().zip(base_us);
    median(
        rounds
            .filter(|(_, base)| **base > 0.0)
            .map(|(of, base)| of / base),
    )
}

/// Bandwidth of one message of `bytes` per `time_us`.
pub fn gbit_per_s(bytes: u64, time_us: f64, mode: Mode) -> f64 {
    let directions = if mode == Mode::Bidirectional {
        2.0
    } else {
        1.0
    };
    match time_us > 0.0 {
        true => directions * bytes as f64 * 8.0 / (time_us * 1e3),
        false => 0.0,
    }
}

/// Parameters of a measurement.
#[derive(Clone, Copy, Debug)]
pub struct Measured<'a> {
    pub fabric: &'a str,
    pub protocol: &'a str,
    pub receive: Receive,
    pub mode: Mode,
    pub point: Point,
}

impl Measured<'_> {
    /// The record of a protocol, with its overhead against `none`.
    pub fn record(self, figures: &Figures, overhead_vs_none: Option<f64>) -> Record {
        Record {
            half_rtt_us_p99: Some(figures.p99_us),
            half_rtt_us_min: Some(figures.min_us),
            half_rtt_us_mean: figures.mean_us(),
            repeats: Some(figures.repeats),
            batch: Some(figures.batch),
            spread: Some(figures.spread),
            overhead_vs_none,
            ..self.bare_record(figures.p50_us)
        }
    }

    /// The record of a peer, which reports one time only.
    pub fn bare_record(self, time_us: f64) -> Record {
        Record {
            fabric: self.fabric.into(),
            protocol: self.protocol.into(),
            receive: self.receive,
            mode: self.mode,
            bytes: self.point.bytes,
            half_rtt_us_p50: time_us,
            gbit_per_s: gbit_per_s(self.point.bytes, time_us, self.mode),
            perturbed: self.point.perturbed,
            ..Record::default()
        }
    }
}

/// One curve: a fabric with a protocol, or a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    fabric: String,
    protocol: String,
    /// Name where the mode and a single fabric are given elsewhere.
    pub name: String,
}

impl Line {
    /// Whether `record` is a point of this line.
    pub fn has(&self, record: &Record) -> bool {
        (&self.fabric, &self.protocol) == (&record.fabric, &record.protocol)
    }

    /// Whether this is the line of a peer.
    pub fn is_peer(&self) -> bool {
        self.protocol == NO_PROTOCOL
    }
}

/// The lines of some records, in order of appearance. The fabric is part of a name only if there
/// are several fabrics.
pub fn lines(records: &[Record]) -> Vec<Line> {
    let several = fabrics(records).len() > 1;
    let mut lines: Vec<Line> = Vec::new();
    for record in records {
        if lines.iter().any(|line| line.has(record)) {
            continue;
        }
        let Record {
            fabric, protocol, ..
        } = record.clone();
        let name = match (protocol == NO_PROTOCOL, several) {
            (true, _) => fabric.clone(),
            (false, true) => format!("{fabric} {protocol}"),
            (false, false) => protocol.clone(),
        };
        lines.push(Line {
            fabric,
            protocol,
            name,
        });
    }
    lines
}

/// The fabrics of some records, in order of appearance; the name of a peer only if there are no
/// other records.
pub fn fabrics(records: &[Record]) -> Vec<&str> {
    let own = records.iter().filter(|r| r.protocol != NO_PROTOCOL);
    let mut fabrics: Vec<&str> = Vec::new();
    for record in own {
        if !fabrics.contains(&record.fabric.as_str()) {
            fabrics.push(&record.fabric);
        }
    }
    if fabrics.is_empty() {
        fabrics.extend(records.first().map(|record| record.fabric.as_str()));
    }
    fabrics
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(times_ps: &[u64], batch: u64) -> Samples {
        Samples {
            times_ps: times_ps.to_vec(),
            batch,
            ..Samples::default()
        }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() <= 2e-4 * b.abs()
    }

    #[test]
    fn figures_are_taken_over_all_rounds() {
        let rounds = [
            samples(&[100_000, 110_000, 120_000], 40),
            samples(&[], 1),
            samples(&[200_000, 210_000, 9_000_000], 50),
        ];
        let figures = Figures::from_rounds(&rounds).unwrap();
        assert!(close(figures.p50_us, 0.120), "{}", figures.p50_us);
        assert!(close(figures.p99_us, 9.0), "{}", figures.p99_us);
        assert!(close(figures.min_us, 0.100));
        assert_eq!(figures.repeats, 3 * 40 + 3 * 50);
        assert_eq!(figures.rounds_us, [0.11, 0.21]);
        assert!(close(figures.rounds_mean_us[0], 0.11));
        assert!(
            close(figures.rounds_mean_us[1], 9.41 / 3.0),
            "the wait counts"
        );
        assert!(close(figures.spread, 0.05 / 0.16), "{}", figures.spread);
        assert_eq!(Figures::from_rounds(&[]), None);
        assert_eq!(Figures::from_rounds(&[samples(&[], 1)]), None);
        assert!(Figures::from_rounds(&[samples(&[0], 1)]).is_some());
    }

    #[test]
    fn overhead_is_the_median_of_ratios_not_the_ratio_of_medians() {
        // The machine was slow in the second half of both: ratios still hold.
        let base = [1.0, 1.0, 10.0, 10.0, 10.0];
        let of = [1.1, 1.2, 11.0, 11.0, 30.0];
        assert!(close(overhead(&of, &base).unwrap(), 1.1));
        assert_eq!(overhead(&[], &[]), None);
        assert_eq!(overhead(&[1.0], &[0.0]), None);
    }

    #[test]
    fn bandwidth_counts_both_directions_where_both_send() {
        assert!(close(gbit_per_s(1_000_000, 100.0, Mode::PingPong), 80.0));
        assert!(close(gbit_per_s(1_000_000, 100.0, Mode::Stream), 80.0));
        assert!(close(
            gbit_per_s(1_000_000, 100.0, Mode::Bidirectional),
            160.0
        ));
        assert_eq!(gbit_per_s(1, 0.0, Mode::PingPong), 0.0);
    }

    fn measured(point: Point) -> Measured<'static> {
        Measured {
            fabric: "shm",
            protocol: "pessimist",
            receive: Receive::Named,
            mode: Mode::PingPong,
            point,
        }
    }

    #[test]
    fn the_json_has_the_agreed_names() {
        let point = Point {
            bytes: 1024,
            perturbed: false,
        };
        let figures = Figures::from_rounds(&[samples(&[250_000; 4], 10)]).unwrap();
        let record = measured(point).record(&figures, Some(1.04));
        let text = serde_json::to_string(&record).unwrap();
        assert!(!text.contains('\n'));
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        for (name, expected) in [
            ("fabric", "shm"),
            ("protocol", "pessimist"),
            ("receive", "named"),
            ("mode", "ping-pong"),
        ] {
            assert_eq!(value[name], expected, "{name}");
        }
        assert_eq!(value["bytes"], 1024);
        assert_eq!(value["repeats"], 40);
        assert_eq!(value["batch"], 10);
        for name in [
            "half_rtt_us_p50",
            "half_rtt_us_p99",
            "half_rtt_us_min",
            "gbit_per_s",
            "spread",
            "overhead_vs_none",
        ] {
            assert!(value[name].is_f64(), "{name}: {text}");
        }
        assert_eq!(serde_json::from_str::<Record>(&text).unwrap(), record);
    }

    #[test]
    fn peers_leave_open_what_they_do_not_tell() {
        let point = Point {
            bytes: 64,
            perturbed: false,
        };
        let record = Measured {
            fabric: "openmpi/NetPIPE",
            protocol: NO_PROTOCOL,
            ..measured(point)
        }
        .bare_record(0.25);
        let value = serde_json::to_value(&record).unwrap();
        assert_eq!(value["half_rtt_us_p50"], 0.25);
        assert!(value["half_rtt_us_p99"].is_null());
        assert!(value["repeats"].is_null());
        assert_eq!(fabrics(std::slice::from_ref(&record)), ["openmpi/NetPIPE"]);
        assert_eq!(lines(&[record.clone(), record]).len(), 1);
    }

    #[test]
    fn lines_name_the_fabric_where_there_are_several() {
        let record = |fabric, protocol| {
            let point = Point {
                bytes: 8,
                perturbed: false,
            };
            Measured {
                fabric,
                protocol,
                ..measured(point)
            }
            .bare_record(1.0)
        };
        let names = |records: &[Record]| -> Vec<String> {
            lines(records).into_iter().map(|line| line.name).collect()
        };
        let mut records = vec![
            record("shm", "none"),
            record("shm", "pessimist"),
            record("openmpi/NetPIPE", NO_PROTOCOL),
            record("shm", "none"),
        ];
        assert_eq!(names(&records), ["none", "pessimist", "openmpi/NetPIPE"]);
        assert_eq!(fabrics(&records), ["shm"]);
        records.push(record("ofi:tcp", "none"));
        assert_eq!(
            names(&records),
            [
                "shm none",
                "shm pessimist",
                "openmpi/NetPIPE",
                "ofi:tcp none"
            ]
        );
        assert_eq!(fabrics(&records), ["shm", "ofi:tcp"]);
        let lines = lines(&records);
        let owners = |record| lines.iter().filter(|line| line.has(record)).count();
        assert!(records.iter().all(|record| owners(record) == 1));
    }
}
