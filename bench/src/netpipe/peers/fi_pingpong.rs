//! `fi_pingpong` of libfabric over its shared-memory provider (Debian:
//! `libfabric-bin`): a server and a client. States the mean.

use super::process::{Starter, free_port};
use super::{Peer, PeerError, PeerFigure, iterations, program};
use crate::netpipe::arguments::Receive;
use std::path::PathBuf;
use std::time::Duration;

/// `fi_pingpong -p shm`.
#[derive(Debug)]
pub struct FiPingpong {
    starter: Starter,
    program: PathBuf,
    time: Duration,
}

/// # Errors
/// What was looked for and not found.
pub fn find(starter: Starter, time: Duration) -> Result<FiPingpong, String> {
    let program = program(&["fi_pingpong"]).ok_or(
        "libfabric/fi_pingpong: not found (looked for fi_pingpong; Debian package libfabric-bin)",
    )?;
    Ok(FiPingpong {
        starter,
        program,
        time,
    })
}

impl Peer for FiPingpong {
    fn name(&self) -> &str {
        "libfabric/fi_pingpong"
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

impl FiPingpong {
    fn measure_size(&self, bytes: u64) -> Result<PeerFigure, PeerError> {
        let port = free_port()?;
        let port_text = port.to_string();
        let repeats = iterations(bytes, self.time).to_string();
        let size = bytes.to_string();
        let both = ["-p", "shm", "-e", "rdm", "-I", &repeats, "-S", &size];
        let server = [&both[..], &["-B", &port_text]].concat();
        let client = [&both[..], &["-P", &port_text, "127.0.0.1"]].concat();
        let text = self.starter.pair(&self.program, port, &server, &client)?;
        let time_us = parse(&text)?;
        Ok(PeerFigure { bytes, time_us })
    }
}

/// The only row of the table: its column `usec/xfer`, half a round trip.
fn parse(text: &str) -> Result<f64, PeerError> {
    let strange = || PeerError::Failed(format!("fi_pingpong wrote `{}`", text.trim()));
    let mut lines = text
        .lines()
        .skip_while(|line| !line.split_whitespace().any(|word| word == "usec/xfer"));
    let header = lines.next().ok_or_else(strange)?;
    let column = header
        .split_whitespace()
        .position(|word| word == "usec/xfer")
        .ok_or_else(strange)?;
    let row = lines
        .find(|line| !line.trim().is_empty())
        .ok_or_else(strange)?;
    let time_us: f64 = row
        .split_whitespace()
        .nth(column)
        .and_then(|word| word.parse().ok())
        .ok_or_else(strange)?;
    (time_us > 0.0 && time_us.is_finite())
        .then_some(time_us)
        .ok_or_else(strange)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captured_output_is_understood() {
        for (text, time_us) in [
            (
                include_str!("../../../tests/netpipe/fi_pingpong-1.17.txt"),
                0.76,
            ),
            (
                include_str!("../../../tests/netpipe/fi_pingpong-1.17-4m.txt"),
                423.18,
            ),
        ] {
            assert_eq!(parse(text).unwrap(), time_us);
        }
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        for text in [
            "",
            "[error] util/pingpong.c:408 : failed to connect: Connection refused",
            "bytes #sent usec/xfer",
            "bytes #sent usec/xfer\n64 1k",
            "bytes #sent usec/xfer\n64 1k inf",
            "bytes #sent usec/xfer\n64 1k 0.00",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
