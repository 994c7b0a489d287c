//! The table at the end.

use super::result::{Line, NO_PROTOCOL, Record, fabrics, lines};
use super::sizes::format_size;
use comfy_table::{Cell, CellAlignment, Table};

/// comfy-table's order of borders: only those below the header are drawn.
const HEADER_LINE_ONLY: &str = "     ──            ";

/// Sizes downwards; for each line time and bandwidth, for each protocol but
/// `none` also its overhead. Perturbed sizes only with `all_sizes`.
pub fn render(records: &[Record], all_sizes: bool) -> String {
    let lines = lines(records);
    let has_overhead = |line: &Line| {
        records
            .iter()
            .any(|record| line.has(record) && record.overhead_vs_none.is_some())
    };
    let mut table = Table::new();
    // A line below the header and nothing else.
    table.load_preset(HEADER_LINE_ONLY);
    let mut header = vec![Cell::new("bytes")];
    for line in &lines {
        header.push(Cell::new(format!("{}\nµs", line.name)));
        header.push(Cell::new("\nGb/s"));
        if has_overhead(line) {
            header.push(Cell::new("\n÷ none"));
        }
    }
    table.set_header(header.into_iter().map(right));
    let mut sizes: Vec<u64> = records
        .iter()
        .filter(|record| all_sizes || !record.perturbed)
        .map(|record| record.bytes)
        .collect();
    sizes.sort_unstable();
    sizes.dedup();
    for bytes in sizes {
        let mut row = vec![Cell::new(format_size(bytes))];
        for line in &lines {
            let record = records
                .iter()
                .find(|record| record.bytes == bytes && line.has(record));
            row.extend(cells(record, has_overhead(line)).map(Cell::new));
        }
        table.add_row(row.into_iter().map(right));
    }
    table.to_string()
}

/// What the columns mean, in a line or two below the table.
pub fn legend(records: &[Record]) -> String {
    let Some(first) = records
        .iter()
        .find(|record| record.protocol != NO_PROTOCOL)
        .or(records.first())
    else {
        return "nothing was measured".into();
    };
    let time = match first.mode {
        super::Mode::PingPong => "half round trip, median",
        super::Mode::Bidirectional => "time of one exchange, median; Gb/s: both directions",
        super::Mode::Stream => "time per message of a window, median",
    };
    let mut text = format!(
        "{}, fabric {}, {} receive. µs: {time}.",
        first.mode.name(),
        fabrics(records).join(" and "),
        first.receive.name()
    );
    if records
        .iter()
        .any(|record| record.overhead_vs_none.is_some())
    {
        text += " ÷ none: median over the rounds of the ratio of times within a round.";
    }
    text
}

fn right(cell: Cell) -> Cell {
    cell.set_alignment(CellAlignment::Right)
}

fn cells(record: Option<&Record>, overhead: bool) -> impl Iterator<Item = String> {
    let time = record.map(|record| significant(record.half_rtt_us_p50));
    let bandwidth = record.map(|record| significant(record.gbit_per_s));
    let ratio = record
        .and_then(|record| record.overhead_vs_none)
        .map(|ratio| format!("{ratio:.2}"));
    [Some(time), Some(bandwidth), overhead.then_some(ratio)]
        .into_iter()
        .flatten()
        .map(|cell| cell.unwrap_or_default())
}

/// Three or four digits that say something.
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
    use crate::netpipe::arguments::{Mode, Receive};
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
        assert_eq!(row("4M").split_whitespace().count(), 1 + 2 + 3 + 2 + 2);
        assert!(!text.contains("4194307"), "perturbed sizes are left out");
    }

    #[test]
    fn all_sizes_show_gaps_where_peers_were_not_measured() {
        let text = render(&synthetic(), true);
        let row = text
            .lines()
            .find(|line| line.trim_start().starts_with("4194307"))
            .unwrap();
        assert_eq!(row.split_whitespace().count(), 1 + 2 + 3);
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
        assert_eq!(row.split_whitespace().count(), 1 + 2 * (2 + 3) + 2 + 2);
        assert_eq!(row.matches("77.0").count(), 2, "{row}");
        assert!(legend(&records).contains("fabric shm and ofi:tcp,"));
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
