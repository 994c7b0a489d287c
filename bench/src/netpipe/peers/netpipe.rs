//! NetPIPE 3 over an MPI library (Debian: `netpipe-openmpi`, `netpipe-mpich2`).
//!
//! NetPIPE states the best of its trials for each size, where Refrain states a
//! median: the comparison favours the peer.

use super::process::{LIMIT, Running, Starter};
use super::{Peer, PeerError, PeerFigure, program};
use crate::netpipe::arguments::Receive;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// NetPIPE's "Mbps" are 2^20 bits.
const MEGABIT: f64 = 1024.0 * 1024.0;

/// NetPIPE over one MPI library.
#[derive(Debug)]
pub struct NetPipe {
    name: &'static str,
    starter: Starter,
    mpirun: PathBuf,
    mpirun_options: &'static [&'static str],
    program: PathBuf,
    receive: Receive,
}

/// Over Open MPI.
///
/// # Errors
/// What was looked for and not found.
pub fn open_mpi(starter: Starter, receive: Receive) -> Result<NetPipe, String> {
    find(starter, receive, &OPEN_MPI)
}

/// Over Open MPI restricted to TCP over the loopback interface.
///
/// # Errors
/// What was looked for and not found.
pub fn open_mpi_tcp(starter: Starter, receive: Receive) -> Result<NetPipe, String> {
    find(
        starter,
        receive,
        &Library {
            name: "openmpi-tcp/NetPIPE",
            // `ob1`: other layers would choose their own way.
            options: &[
                "--allow-run-as-root",
                "--bind-to",
                "core",
                "--mca",
                "pml",
                "ob1",
                "--mca",
                "btl",
                "self,tcp",
                "--mca",
                "btl_tcp_if_include",
                "lo",
                "-np",
                "2",
            ],
            ..OPEN_MPI
        },
    )
}

/// Over MPICH.
///
/// # Errors
/// What was looked for and not found.
pub fn mpich(starter: Starter, receive: Receive) -> Result<NetPipe, String> {
    find(
        starter,
        receive,
        &Library {
            name: "mpich/NetPIPE",
            programs: &["NPmpich", "NPmpich2"],
            mpiruns: &["mpirun.mpich", "mpiexec.hydra", "mpirun"],
            version_word: "HYDRA",
            options: &["-bind-to", "core", "-np", "2"],
            package: "netpipe-mpich2",
        },
    )
}

struct Library {
    name: &'static str,
    programs: &'static [&'static str],
    mpiruns: &'static [&'static str],
    /// In what `mpirun --version` says: the plain name may be the other one's.
    version_word: &'static str,
    options: &'static [&'static str],
    package: &'static str,
}

/// As it chooses itself: shared memory on one host.
const OPEN_MPI: Library = Library {
    name: "openmpi/NetPIPE",
    programs: &["NPopenmpi"],
    mpiruns: &["mpirun.openmpi", "mpirun"],
    version_word: "Open MPI",
    options: &["--allow-run-as-root", "--bind-to", "core", "-np", "2"],
    package: "netpipe-openmpi",
};

fn find(starter: Starter, receive: Receive, library: &Library) -> Result<NetPipe, String> {
    let Library { name, package, .. } = library;
    let program_names = library.programs.join(" or ");
    let netpipe = program(library.programs).ok_or_else(|| {
        format!("{name}: not found (looked for {program_names}; Debian package {package})")
    })?;
    let mpirun = library
        .mpiruns
        .iter()
        .filter_map(|mpirun| program(&[mpirun]))
        .find(|mpirun| says_its_version(mpirun, library.version_word))
        .ok_or_else(|| {
            let looked_for = library.mpiruns.join(", ");
            format!("{name}: its mpirun was not found (looked for {looked_for})")
        })?;
    Ok(NetPipe {
        name: library.name,
        starter,
        mpirun,
        mpirun_options: library.options,
        program: netpipe,
        receive,
    })
}

fn says_its_version(mpirun: &PathBuf, word: &str) -> bool {
    Command::new(mpirun)
        .arg("--version")
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(word))
}

impl NetPipe {
    fn start(&self, first: &str, last: &str, file: &str) -> Result<Running, PeerError> {
        let program = self.program.to_string_lossy();
        let mut arguments = self.mpirun_options.to_vec();
        arguments.extend([&*program, "-l", first, "-u", last, "-p", "0", "-o", file]);
        if self.receive == Receive::Any {
            arguments.push("-z");
        }
        self.starter.start(&self.mpirun, &arguments, None)
    }
}

impl Peer for NetPipe {
    fn name(&self) -> &str {
        self.name
    }

    fn receive(&self) -> Receive {
        self.receive
    }

    fn groups(&self, sizes: &[u64]) -> Vec<Vec<u64>> {
        groups(sizes)
    }

    fn measure(&mut self, group: &[u64]) -> Result<Vec<PeerFigure>, PeerError> {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            return Ok(Vec::new());
        };
        let folder = tempfile::Builder::new()
            .prefix("refrain-netpipe-")
            .tempdir()
            .map_err(|error| PeerError::Failed(format!("no temporary folder: {error}")))?;
        let file = folder.path().join("np.out");
        self.start(
            &first.to_string(),
            &last.to_string(),
            &file.to_string_lossy(),
        )?
        .wait(LIMIT)?;
        let text = fs::read_to_string(&file).map_err(|error| {
            PeerError::Failed(format!("{} has written no figures: {error}", self.name))
        })?;
        let figures: Vec<PeerFigure> = parse(&text)?
            .into_iter()
            .filter(|figure| group.contains(&figure.bytes))
            .collect();
        if figures.len() < group.len() {
            return Err(PeerError::Failed(format!(
                "{} has left out sizes between {first} and {last}",
                self.name
            )));
        }
        Ok(figures)
    }
}

/// NetPIPE's own series is Refrain's when it begins at a power of two: two
/// octaves per start. Other sizes go alone.
fn groups(sizes: &[u64]) -> Vec<Vec<u64>> {
    let mut groups: Vec<Vec<u64>> = Vec::new();
    for &bytes in sizes {
        let on_series =
            bytes.is_power_of_two() || (bytes % 3 == 0 && (bytes / 3).is_power_of_two());
        match groups.last_mut() {
            Some(group) if on_series && group[0].is_power_of_two() && bytes < 4 * group[0] => {
                group.push(bytes);
            }
            _ => groups.push(vec![bytes]),
        }
    }
    groups
}

/// Lines of bytes, bandwidth and seconds. The bandwidth has more digits than the
/// seconds.
fn parse(text: &str) -> Result<Vec<PeerFigure>, PeerError> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            parse_line(line)
                .ok_or_else(|| PeerError::Failed(format!("NetPIPE wrote `{}`", line.trim())))
        })
        .collect()
}

fn parse_line(line: &str) -> Option<PeerFigure> {
    let mut words = line.split_whitespace();
    let bytes: u64 = words.next()?.parse().ok()?;
    let megabits: f64 = words.next()?.parse().ok()?;
    let seconds: f64 = words.next()?.parse().ok()?;
    let from_bandwidth_us = bytes as f64 * 8.0 / (megabits * MEGABIT) * 1e6;
    let plausible = megabits > 0.0
        && (from_bandwidth_us - seconds * 1e6).abs() <= 0.02 + 0.01 * from_bandwidth_us;
    plausible.then_some(PeerFigure {
        bytes,
        time_us: from_bandwidth_us,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netpipe::sizes::series;

    const OPEN_MPI_OUTPUT: &str = include_str!("../../../tests/netpipe/NPopenmpi-3.7.2.out");
    const MPICH_OUTPUT: &str = include_str!("../../../tests/netpipe/NPmpich2-3.7.2.out");

    #[test]
    fn captured_output_is_understood() {
        let figures = parse(OPEN_MPI_OUTPUT).unwrap();
        let sizes: Vec<_> = figures.iter().map(|figure| figure.bytes).collect();
        assert_eq!(sizes, [64, 96, 128]);
        assert!((figures[0].time_us - 1.4585).abs() < 1e-3, "{figures:?}");
        let figures = parse(MPICH_OUTPUT).unwrap();
        assert_eq!(figures.len(), 2);
        assert!((figures[1].time_us - 0.5973).abs() < 1e-3, "{figures:?}");
    }

    #[test]
    fn what_is_no_table_is_an_error() {
        for text in [
            "64",
            "64 abc 0.1",
            "64 0.0 0.0",
            "-1 2.0 3.0",
            "64 334.78 5.0",
            "64 NaN NaN",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        assert!(parse("").unwrap().is_empty());
    }

    #[test]
    fn groups_are_what_one_start_measures() {
        let sizes: Vec<u64> = series(1, 100, 0).iter().map(|point| point.bytes).collect();
        assert_eq!(
            groups(&sizes),
            [
                vec![1, 2, 3],
                vec![4, 6, 8, 12],
                vec![16, 24, 32, 48],
                vec![64, 96],
                vec![100]
            ]
        );
        assert_eq!(groups(&[48, 64]), [[48], [64]]);
        assert!(groups(&[]).is_empty());
    }
}
