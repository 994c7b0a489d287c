//! NetPIPE 3 over an MPI library (Debian: `netpipe-openmpi`, `netpipe-mpich2`).
//!
//! NetPIPE reports the best of its trials for each size, Refrain a median: the comparison favours
//! the peer.

use super::peer::{Peer, PeerFigure, program};
use super::process::{LIMIT, Starter};
use crate::error::BenchError;
use crate::netpipe::arguments::Receive;
use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Bits in one of NetPIPE's "Mbps".
const MEGABIT: f64 = 1024.0 * 1024.0;

/// An MPI library with its NetPIPE.
#[derive(Debug)]
pub struct Library {
    name: &'static str,
    programs: &'static [&'static str],
    mpiruns: &'static [&'static str],
    /// A word in the output of `mpirun --version`: the plain name may be of another library.
    version_word: &'static str,
    options: &'static str,
    package: &'static str,
}

/// Open MPI with its own choice of transport: shared memory on one host.
pub const OPEN_MPI: Library = Library {
    name: "openmpi/NetPIPE",
    programs: &["NPopenmpi"],
    mpiruns: &["mpirun.openmpi", "mpirun"],
    version_word: "Open MPI",
    options: "--allow-run-as-root --bind-to core -np 2",
    package: "netpipe-openmpi",
};

/// Open MPI restricted to TCP over the loopback interface. Layers other than `ob1` would choose
/// another wire.
pub const OPEN_MPI_TCP: Library = Library {
    name: "openmpi-tcp/NetPIPE",
    options: "--allow-run-as-root --bind-to core --mca pml ob1 --mca btl self,tcp \
              --mca btl_tcp_if_include lo -np 2",
    ..OPEN_MPI
};

/// MPICH.
pub const MPICH: Library = Library {
    name: "mpich/NetPIPE",
    programs: &["NPmpich", "NPmpich2"],
    mpiruns: &["mpirun.mpich", "mpiexec.hydra", "mpirun"],
    version_word: "HYDRA",
    options: "-bind-to core -np 2",
    package: "netpipe-mpich2",
};

/// The peer NetPIPE over this library.
///
/// # Errors
/// The names that were not found.
pub fn find(starter: Starter, receive: Receive, library: &'static Library) -> Result<Peer, String> {
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
    Ok(Peer {
        name: (*name).into(),
        receive,
        groups,
        measure: Box::new(move |group| {
            let (Some(first), Some(last)) = (group.first(), group.last()) else {
                return Ok(Vec::new());
            };
            let folder = tempfile::Builder::new()
                .prefix("refrain-netpipe-")
                .tempdir();
            let folder = folder.map_err(BenchError::system("no temporary folder"))?;
            let file = folder.path().join("np.out");
            let netpipe = netpipe.to_string_lossy();
            let path = file.to_string_lossy();
            let (first, last) = (first.to_string(), last.to_string());
            let mut arguments: Vec<&str> = library.options.split_whitespace().collect();
            arguments.extend([&*netpipe, "-l", &first, "-u", &last, "-p", "0", "-o", &path]);
            arguments.extend((receive == Receive::Any).then_some("-z"));
            starter.start(&mpirun, &arguments, None)?.wait(LIMIT)?;
            let text = fs::read_to_string(&file);
            let text =
                text.map_err(BenchError::system(format!("{name} has written no figures")))?;
            let mut figures = parse(&text)?;
            figures.retain(|figure| group.contains(&figure.bytes));
            if figures.len() < group.len() {
                return Err(BenchError::failed(format!(
                    "{name} has left out sizes between {first} and {last}"
                )));
            }
            Ok(figures)
        }),
    })
}

fn says_its_version(mpirun: &PathBuf, word: &str) -> bool {
    Command::new(mpirun)
        .arg("--version")
        .output()
        .is_ok_and(|output| String::from_utf8_lossy(&output.stdout).contains(word))
}

/// Groups of two octaves of NetPIPE's own series, each from a power of two. Every other size is a
/// group of its own.
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

/// Parses lines of bytes, bandwidth and seconds. Uses the bandwidth, which has more digits than
/// the seconds.
fn parse(text: &str) -> Result<Vec<PeerFigure>, BenchError> {
    text.lines()
        .filter(|line| !line.trim().is_empty())
        .map(|line| {
            parse_line(line)
                .ok_or_else(|| BenchError::failed(format!("NetPIPE wrote `{}`", line.trim())))
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
