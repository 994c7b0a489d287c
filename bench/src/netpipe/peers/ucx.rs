//! `ucx_perftest -t tag_lat` (Debian: `ucx-utils`): a server and a client over the transport that
//! UCX chooses on one host. It reports a median.

use super::peer::{Peer, iterations, program};
use super::process::{Starter, free_port};
use crate::error::BenchError;
use std::time::Duration;

const NAME: &str = "ucx/ucx_perftest";

/// # Errors
/// The names that were not found.
pub fn find(starter: Starter, time: Duration) -> Result<Peer, String> {
    let program = program(&["ucx_perftest"]).ok_or_else(|| {
        format!("{NAME}: not found (looked for ucx_perftest; Debian package ucx-utils)")
    })?;
    Ok(Peer::by_size(NAME.into(), move |bytes| {
        let port = free_port()?;
        let repeats = iterations(bytes, time);
        let warm_up = repeats / 10;
        let server = format!("-p {port}");
        let client =
            format!("127.0.0.1 -p {port} -t tag_lat -s {bytes} -n {repeats} -w {warm_up} -f");
        parse(&starter.pair(&program, port, &server, &client)?)
    }))
}

/// The median latency in the last row of numbers, after the iterations.
fn parse(text: &str) -> Result<f64, BenchError> {
    text.lines()
        .rev()
        .find_map(parse_row)
        .ok_or_else(|| BenchError::failed(format!("ucx_perftest wrote `{}`", text.trim())))
}

fn parse_row(line: &str) -> Option<f64> {
    // Newer versions write `[thread 0]` before the numbers, and `Final:` in the last row.
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
