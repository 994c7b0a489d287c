//! The table of a sweep.

use super::arguments::Mode;
use super::protocols::keeps_payload;
use super::result::{Line, NO_PROTOCOL, Record, fabrics, gbit_per_s, lines};
use crate::report::{format_size, table};
use std::collections::BTreeSet;

/// Minimum of logged bytes of a round, relative to the log memory; with less, the round measures
/// the memory and not the disk.
const TIMES_MIN: f64 = 2.0;

/// One figure of a line. A column without values is left out.
struct Column {
    title: &'static str,
    /// Text of a cell. `by_mean`: the bandwidth is that of the mean time.
    text: fn(&Record, by_mean: bool) -> Option<String>,
}

const COLUMNS: [Column; 6] = [
    Column {
        title: "µs",
        text: |record, _| Some(significant(record.half_rtt_us_p50)),
    },
    Column {
        title: "p99",
        text: |record, _| record.half_rtt_us_p99.map(significant),
    },
    Column {
        title: "Gb/s",
        text: |record, by_mean| Some(significant(bandwidth(record, by_mean))),
    },
    Column {
        title: "÷ none",
        text: |record, _| record.overhead_vs_none.map(ratio),
    },
    Column {
        title: "target",
        text: |record, _| record.disk.target_gbit_per_s.map(significant),
    },
    Column {
        title: "÷ target",
        text: |record, _| record.disk.of_target.map(ratio),
    },
];

/// The table: one row per size; for each line time and bandwidth, for each protocol except `none`
/// its overhead, with a disk below the log also the reached part of the possible speed, and the
/// speed of the disk alone. Perturbed sizes only with `all_sizes`.
pub fn render(records: &[Record], all_sizes: bool) -> String {
    let has_disk = has_disk(records);
    let mut header = vec!["bytes".to_owned()];
    let mut columns: Vec<(Line, &Column)> = Vec::new();
    for line in lines(records) {
        let of_line = || records.iter().filter(|record| line.has(record));
        let has_text = |column: &&Column| of_line().any(|it| (column.text)(it, false).is_some());
        let mut name = line.name.as_str();
        for column in COLUMNS.iter().filter(has_text) {
            header.push(format!("{}\n{}", std::mem::take(&mut name), column.title));
            columns.push((line.clone(), column));
        }
    }
    if has_disk {
        header.extend(["disk alone\nGb/s", "\n± %"].map(str::to_owned));
    }
    let sizes: BTreeSet<u64> = (records.iter())
        .filter(|record| all_sizes || !record.perturbed)
        .map(|record| record.bytes)
        .collect();
    let rows = sizes.into_iter().map(|bytes| {
        let of_size = || records.iter().filter(|record| record.bytes == bytes);
        let cells = columns.iter().map(|(line, column)| {
            let record = of_size().find(|record| line.has(record));
            let text = record.and_then(|record| (column.text)(record, has_disk));
            text.unwrap_or_default()
        });
        let mut row = vec![format_size(bytes)];
        row.extend(cells);
        if has_disk {
            row.extend(disk_cells(of_size()));
        }
        row
    });
    table(header, rows, 0)
}

fn has_disk(records: &[Record]) -> bool {
    let mut disks = records.iter().map(|record| record.disk.disk_bytes_per_s);
    disks.any(|disk| disk.is_some())
}

/// The speed of the disk alone at a size, and its spread.
fn disk_cells<'a>(mut of_size: impl Iterator<Item = &'a Record>) -> [String; 2] {
    let disk = of_size.find_map(|record| {
        let disk = &record.disk;
        disk.disk_bytes_per_s.zip(disk.disk_spread)
    });
    disk.map_or_else(Default::default, |(bytes_per_s, spread)| {
        let percent = format!("{:.0}", spread * 100.0);
        [significant(bytes_per_s * 8.0 / 1e9), percent]
    })
}

/// Bandwidth in Gb/s. If a disk makes some messages wait, only the mean includes the waits.
fn bandwidth(record: &Record, by_mean: bool) -> f64 {
    match record.half_rtt_us_mean.filter(|_| by_mean) {
        Some(mean_us) => gbit_per_s(record.bytes, mean_us, record.mode),
        None => record.gbit_per_s,
    }
}

fn ratio(ratio: f64) -> String {
    format!("{ratio:.2}")
}

/// Explanation of the columns, in one or two lines below the table.
pub fn legend(records: &[Record]) -> String {
    let Some(first) = records
        .iter()
        .find(|record| record.protocol != NO_PROTOCOL)
        .or(records.first())
    else {
        return "nothing was measured".into();
    };
    let time = match first.mode {
        Mode::PingPong => "half round trip, median",
        Mode::Bidirectional => "time of one exchange, median; Gb/s: both directions",
        Mode::Stream => "time per message of a window, median",
    };
    let mut text = format!(
        "{}, fabric {}, {} receive. µs: {time}.",
        first.mode.name(),
        fabrics(records).join(" and "),
        first.receive.name()
    );
    if records.iter().any(|it| it.overhead_vs_none.is_some()) {
        text += " ÷ none: median over the rounds of the ratio of times within a round.";
    }
    if has_disk(records) {
        text += " Gb/s: from the mean, with all waits. target: the lesser of none and what the disk alone can log; ÷ target: median of the ratios within a round; ± %: quartiles of the disk alone.";
    }
    for line in lines(records) {
        text += &log_legend(&line, records).unwrap_or_default();
    }
    text
}

/// The cost of the log of a line, at its largest size; `None` without a log.
fn log_legend(line: &Line, records: &[Record]) -> Option<String> {
    let of_line = || records.iter().filter(|record| line.has(record));
    let last = of_line().rfind(|record| !record.perturbed)?;
    let log = &last.log;
    let mib = |bytes: u64| bytes >> 20;
    let kept = match keeps_payload(&last.protocol) {
        true => format!(
            "{:.3} log bytes per payload byte at {}",
            log.log_bytes_per_payload_byte?,
            format_size(last.bytes)
        ),
        false => "no payload is kept".into(),
    };
    let mut text = format!(
        "\n{}: {:.2} events per message; {kept}; log memory at most {} of {} MiB; resident {} MiB.",
        line.name,
        log.events_per_message?,
        mib(log.log_memory_peak_bytes?),
        mib(log.log_memory_bytes?),
        mib(log.resident_bytes?),
    );
    if last.disk.disk_bytes_per_s.is_some() {
        let part = 100.0 * log.log_part_on_disk?;
        text += &format!(" {part:.0} % of the log went to disk, the rest was freed before.");
    }
    let is_short = |record: &&Record| {
        let times = record.log.log_times_memory;
        record.disk.disk_bytes_per_s.is_some() && times.is_some_and(|times| times < TIMES_MIN)
    };
    let short: Vec<String> = of_line()
        .filter(is_short)
        .map(|record| format_size(record.bytes))
        .collect();
    if !short.is_empty() {
        text += &format!(
            " Rounds too short to measure the disk (less logged than {TIMES_MIN} log memories): {}; raise --time-per-size.",
            short.join(", ")
        );
    }
    Some(text)
}

/// A number with three or four significant digits.
fn significant(value: f64) -> String {
    match value.abs() {
        v if v < 10.0 => format!("{value:.3}"),
        v if v < 100.0 => format!("{value:.2}"),
        v if v < 1000.0 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
pub mod tests {
    use super::*;
    use crate::netpipe::arguments::Receive;
    use crate::netpipe::log_figures::{DiskFigures, LogFigures};
    use crate::netpipe::result::{Figures, Measured};
    use crate::netpipe::sizes::{Point, series};

    /// A plausible sweep of two protocols and a peer, up to 4 MiB.
    pub fn synthetic() -> Vec<Record> {
        let mut records = Vec::new();
        for point in series(1, 4 << 20, 3) {
            let n = point.bytes as f64;
            let waves = 1.0 + 0.03 * (n.ln() * 7.0).sin();
            for (fabric, protocol, base_us, bytes_per_us) in [
                ("shm", "none", 0.055, 20_000.0),
                ("shm", "pessimist", 0.058, 14_000.0),
                ("openmpi/NetPIPE", NO_PROTOCOL, 0.13, 11_500.0),
                (
                    "libfabric-1.17/fi_pingpong shm",
                    NO_PROTOCOL,
                    0.24,
                    12_500.0,
                ),
            ] {
                let time_us = (base_us + n / bytes_per_us) * waves;
                let measured = Measured {
                    fabric,
                    protocol,
                    receive: Receive::Named,
                    mode: Mode::PingPong,
                    point,
                };
                let peer = protocol == NO_PROTOCOL;
                if peer && point.perturbed {
                    continue;
                }
                records.push(if peer {
                    measured.bare_record(time_us)
                } else {
                    let overhead = (protocol != "none").then_some(1.25);
                    measured.record(&figures(time_us), overhead)
                });
            }
        }
        records
    }

    fn figures(time_us: f64) -> Figures {
        Figures {
            p50_us: time_us,
            p99_us: time_us * 1.5,
            min_us: time_us * 0.9,
            repeats: 1000,
            batch: 1,
            spread: 0.01,
            rounds_us: vec![time_us; 5],
            rounds_mean_us: vec![2.0 * time_us; 5],
        }
    }

    #[test]
    fn the_table_shows_sizes_protocols_peers_and_overheads() {
        let text = render(&synthetic(), false);
        let header: Vec<_> = text.lines().take(3).collect();
        for name in ["none", "pessimist", "openmpi/NetPIPE"] {
            assert!(header[0].contains(name), "{text}");
        }
        assert_eq!(header[1].matches("÷ none").count(), 1, "{text}");
        let row = |size: &str| {
            text.lines()
                .find(|line| line.split_whitespace().next() == Some(size))
                .unwrap_or_else(|| panic!("no row {size}:\n{text}"))
                .to_owned()
        };
        assert!(row("1.5K").contains("1.25"));
        assert_eq!(row("4M").split_whitespace().count(), 1 + 3 + 4 + 2 + 2);
        assert!(!text.contains("4194307"), "perturbed sizes are left out");
    }

    #[test]
    fn all_sizes_show_gaps_where_peers_were_not_measured() {
        let text = render(&synthetic(), true);
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with("4194307"))
            .unwrap();
        assert_eq!(row.split_whitespace().count(), 1 + 3 + 4);
    }

    #[test]
    fn several_fabrics_have_their_columns() {
        let mut records = synthetic();
        let tcp = |record: &Record| Record {
            fabric: "ofi:tcp".into(),
            half_rtt_us_p50: 77.0,
            ..record.clone()
        };
        let own = records.iter().filter(|r| r.protocol != NO_PROTOCOL);
        let of_tcp: Vec<Record> = own.map(tcp).collect();
        records.extend(of_tcp);
        let text = render(&records, false);
        let header = text.lines().next().unwrap();
        for name in ["shm pessimist", "ofi:tcp none", "ofi:tcp pessimist"] {
            assert!(header.contains(name), "{text}");
        }
        let row = text.lines().last().unwrap();
        assert_eq!(row.split_whitespace().count(), 1 + 2 * (3 + 4) + 2 + 2);
        assert_eq!(row.matches("77.0").count(), 2, "{row}");
        assert!(legend(&records).contains("fabric shm and ofi:tcp,"));
    }

    #[test]
    fn with_a_disk_there_is_a_target_and_bandwidth_is_of_the_mean() {
        let mut records = synthetic();
        for record in records.iter_mut().filter(|r| r.protocol == "pessimist") {
            record.disk = DiskFigures {
                disk_bytes_per_s: Some(1.25e9),
                disk_spread: Some(0.07),
                target_gbit_per_s: Some(9.5),
                of_target: Some(0.96),
            };
            record.log = LogFigures {
                log_bytes_per_payload_byte: Some(1.0123),
                events_per_message: Some(0.25),
                log_part_on_disk: Some(0.75),
                log_memory_bytes: Some(64 << 20),
                log_memory_peak_bytes: Some(63 << 20),
                log_times_memory: Some(if record.bytes == 1024 { 1.9 } else { 2.1 }),
                resident_bytes: Some(80 << 20),
            };
        }
        let text = render(&records, false);
        assert!(
            text.lines().next().unwrap().contains("disk alone"),
            "{text}"
        );
        let row: Vec<&str> = text.lines().last().unwrap().split_whitespace().collect();
        assert_eq!(row.len(), 1 + 3 + 6 + 2 + 2 + 2, "{text}");
        assert_eq!(row[row.len() - 2..], ["10.00", "7"]);
        assert_eq!(row[8..10], ["9.500", "0.96"]);
        let none = &records.iter().rev().find(|r| r.protocol == "none").unwrap();
        let of_size: f64 = row[3].parse().unwrap();
        assert!(
            (of_size / (none.gbit_per_s / 2.0) - 1.0).abs() < 0.1,
            "{text}"
        );
        let legend = legend(&records);
        assert!(
            legend.contains("0.25 events per message; 1.012 log bytes per payload byte at 4M"),
            "{legend}"
        );
        assert!(legend.contains("at most 63 of 64 MiB"), "{legend}");
        assert!(legend.contains("75 % of the log went to disk"), "{legend}");
        assert!(legend.contains("2 log memories): 1K;"), "{legend}");
    }

    #[test]
    fn one_protocol_alone_has_no_overhead() {
        let point = Point {
            bytes: 8,
            perturbed: false,
        };
        let record = Measured {
            fabric: "shm",
            protocol: "pessimist",
            receive: Receive::Any,
            mode: Mode::Stream,
            point,
        }
        .record(&figures(0.2), None);
        let records = [record];
        assert!(!render(&records, false).contains("none"));
        let legend = legend(&records);
        assert!(
            legend.contains("stream, fabric shm, any receive"),
            "{legend}"
        );
        assert!(!legend.contains('÷'));
    }

    #[test]
    fn nothing_measured_is_said() {
        assert_eq!(legend(&[]), "nothing was measured");
        render(&[], false);
    }

    #[test]
    fn numbers_keep_the_digits_that_matter() {
        for (value, text) in [
            (0.0551, "0.055"),
            (12.345, "12.35"),
            (358.26, "358.3"),
            (12_345.6, "12346"),
        ] {
            assert_eq!(significant(value), text);
        }
    }
}
