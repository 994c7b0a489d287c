//! A program with the same measurement, and functions that all such programs need.

use crate::error::BenchError;
use crate::netpipe::arguments::Receive;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Result of one size of one peer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PeerFigure {
    /// Bytes of one message.
    pub bytes: u64,
    /// Half round trip as the peer reports it, in µs.
    pub time_us: f64,
}

/// Measures a group of sizes. After an error no process of the peer runs any more.
type Measure = Box<dyn FnMut(&[u64]) -> Result<Vec<PeerFigure>, BenchError>>;

/// Another program that measures between two processes.
pub struct Peer {
    /// Name in the JSON, such as `openmpi/NetPIPE`.
    pub name: String,
    /// Receive operation of its receiving side.
    pub receive: Receive,
    /// Splits ascending sizes into groups; each group is measured by one start.
    pub groups: fn(&[u64]) -> Vec<Vec<u64>>,
    pub measure: Measure,
}

impl Peer {
    /// A peer with a blocking receive that measures one size per start; `time_us` returns
    /// half a round trip.
    pub fn by_size(
        name: String,
        mut time_us: impl FnMut(u64) -> Result<f64, BenchError> + 'static,
    ) -> Self {
        Self {
            name,
            receive: Receive::Named,
            groups: |sizes| sizes.iter().map(|&bytes| vec![bytes]).collect(),
            measure: Box::new(move |group| {
                let figure = |&bytes: &u64| {
                    let time_us = time_us(bytes)?;
                    Ok(PeerFigure { bytes, time_us })
                };
                group.iter().map(figure).collect()
            }),
        }
    }
}

/// Path of the first of `names` that is a program on the search path.
pub fn program(names: &[&str]) -> Option<PathBuf> {
    let folders = std::env::var_os("PATH")?;
    let folders: Vec<_> = std::env::split_paths(&folders).collect();
    names
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|path| is_program(path))
}

fn is_program(path: &Path) -> bool {
    path.is_file() && rustix::fs::access(path, rustix::fs::Access::EXEC_OK).is_ok()
}

/// Number of iterations that take about `time`, by a rough estimate of the peer's speed.
pub fn iterations(bytes: u64, time: Duration) -> u64 {
    let round_trip_us = 2.0 * (0.4 + bytes as f64 / 8_000.0);
    ((time.as_secs_f64() * 1e6 / round_trip_us) as u64).clamp(10, 1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_the_first_name_that_exists() {
        let found = program(&["no-such-program-anywhere", "sh"]).expect("there is a shell");
        assert_eq!(found.file_name().unwrap(), "sh");
        assert_eq!(program(&["no-such-program-anywhere"]), None);
    }

    #[test]
    fn iterations_follow_time_and_size() {
        let time = Duration::from_millis(250);
        assert!((200_000..400_000).contains(&iterations(1, time)));
        assert!((100..500).contains(&iterations(4 << 20, time)));
        assert_eq!(iterations(1 << 40, time), 10);
        assert_eq!(iterations(1, Duration::from_secs(3600)), 1_000_000);
    }
}
