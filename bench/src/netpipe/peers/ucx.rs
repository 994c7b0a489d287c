//! `ucx_perftest -t tag_lat` (Debian: `ucx-utils`): a server and a client over
//! what UCX chooses on one host. States a median.

use super::process::{Starter, free_port};
use super::{Peer, PeerError, PeerFigure, iterations, program};
use crate::netpipe::arguments::Receive;
use std::path::PathBuf;
use std::time::Duration;

/// `ucx_perftest -t tag_lat`.
#[derive(Debug)]
pub struct UcxPerftest {
    starter: Starter,
    program: PathBuf,
    time: Duration,
}

/// # Errors
/// What was looked for and not found.
pub fn find(starter: Starter, time: Duration) -> Result<UcxPerftest, String> {
    let program = program(&["ucx_perftest"])
        .ok_or("ucx/ucx_perftest: not found (looked for ucx_perftest; Debian package ucx-utils)")?;
    Ok(UcxPerftest {
        starter,
        program,
        time,
    })
}

impl Peer for UcxPerftest {
    fn name(&self) -> &str {
        "ucx/ucx_perftest"
    }

    fn receive(&self) -> Receive {
        Receive::Named
    }

    fn measure(&mut self, group: &[u64]) -> Result<Vec<PeerFigure>, PeerError> {
        group
            .iter()
            .map(|&bytes| self.measure_size(bytes))
            .collect()
    }
}

impl UcxPerftest {
    fn measure_size(&self, bytes: u64) -> Result<PeerFigure, PeerError> {
        let port = free_port()?;
        let port_text = port.to_string();
        let repeats = iterations(bytes, self.time);
        let warm_up = (repeats / 10).to_string();
        let repeats = repeats.to_string();
        let size = bytes.to_string();
        let server = ["-p", &port_text];
        let client = [
            "127.0.0.1",
            "-p",
            &port_text,
            "-t",
            "tag_lat",
            "-s",
            &size,
            "-n",
            &repeats,
            "-w",
            &warm_up,
            "-f",
        ];
        let text = self.starter.pair(&self.program, port, &server, &client)?;
        let time_us = parse(&text)?;
        Ok(PeerFigure { bytes, time_us })
    }
}

/// The last row of numbers: iterations, then the median latency.
fn parse(text: &str) -> Result<f64, PeerError> {
    text.lines()
        .rev()
        .find_map(parse_row)
        .ok_or_else(|| PeerError::Failed(format!("ucx_perftest wrote `{}`", text.trim())))
}

fn parse_row(line: &str) -> Option<f64> {
    // Newer versions put `[thread 0]` before the numbers, the last row `Final:`.
    let numbers = line.rsplit([']', ':']).next()?;
    let numbers: Vec<f64> = numbers
        .split_whitespace()
        .map(str::parse)
        .collect::<Result<_, _>>()
        .ok()?;
    let time_us = *numbers.get(1)?;
    (numbers.len() >= 4 && time_us > 0.0 && time_us.is_finite()).then_some(time_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_output_is_understood() {
        let plain = include_str!("../../../tests/netpipe/ucx_perftest-1.13.txt");
        let last_only = include_str!("../../../tests/netpipe/ucx_perftest-1.13-final.txt");
        assert_eq!(parse(plain).unwrap(), 0.491);
        assert_eq!(parse(last_only).unwrap(), 0.528);
        let newer = "[thread 0]  100000   0.300   0.310   0.310  123.0  123.0  2016720  2016720\n";
        assert_eq!(parse(newer).unwrap(), 0.300);
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        for text in [
            "",
            "Waiting for connection...",
            "[1700000000.1] [vm:1] libperf.c:1 UCX ERROR no device",
            "Final: 100000 0 0 0 0",
            "Final: 100000 0.5",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
