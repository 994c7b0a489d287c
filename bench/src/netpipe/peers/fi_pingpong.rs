//! `fi_pingpong` of libfabric over any provider (Debian: `libfabric-bin`): a server and a client.
//! It reports the mean.

use super::pace::Pace;
use super::peer::{Peer, program};
use super::process::{Starter, free_port};
use crate::error::BenchError;
use crate::netpipe::fabrics::search_folder;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The loader's variable with the folders that it searches first.
const LIBRARIES_VARIABLE: &str = "LD_LIBRARY_PATH";

/// The peer on `provider` of `library` (`None`: of the installed library).
///
/// # Errors
/// The names that were not found.
pub fn find(
    starter: Starter,
    provider: &str,
    library: Option<&Path>,
    time: Duration,
) -> Result<Peer, String> {
    let missing = |reason: &str| format!("libfabric/fi_pingpong {provider}: {reason}");
    let program = program(&["fi_pingpong"]).ok_or_else(|| {
        missing("not found (looked for fi_pingpong; Debian package libfabric-bin)")
    })?;
    let environment = match search_folder(library).map_err(|reason| missing(&reason))? {
        Some(folder) => vec![libraries_first(folder).map_err(|reason| missing(&reason))?],
        None => Vec::new(),
    };
    let name = name(version(&environment).as_deref(), provider);
    let provider = provider.to_owned();
    let starter = starter.with_environment(environment);
    let mut pace = Pace::new(time);
    Ok(Peer::by_size(name, move |bytes| {
        pace.measure(bytes, |round_trips| {
            let port = free_port()?;
            let both = format!("-p {provider} -e rdm -I {round_trips} -S {bytes}");
            let server = format!("{both} -B {port}");
            let client = format!("{both} -P {port} 127.0.0.1");
            parse(&starter.pair(&program, port, &server, &client)?)
        })
    }))
}

/// The loader's variable with `folder` before its other folders.
fn libraries_first(folder: PathBuf) -> Result<(OsString, OsString), String> {
    let others = std::env::var_os(LIBRARIES_VARIABLE).unwrap_or_default();
    let folders = std::iter::once(folder).chain(std::env::split_paths(&others));
    std::env::join_paths(folders.filter(|folder| !folder.as_os_str().is_empty()))
        .map(|folders| (LIBRARIES_VARIABLE.into(), folders))
        .map_err(|error| format!("the folder of its library cannot be passed on: {error}"))
}

/// A name such as `libfabric-2.5/fi_pingpong tcp`.
fn name(version: Option<&str>, provider: &str) -> String {
    let version = version.map_or(String::new(), |version| format!("-{version}"));
    format!("libfabric{version}/fi_pingpong {provider}")
}

/// The version of the library that programs use in `environment`, as `fi_info` reports it.
fn version(environment: &[(OsString, OsString)]) -> Option<String> {
    let output = Command::new(program(&["fi_info"])?)
        .arg("--version")
        .envs(environment.iter().cloned())
        .output()
        .ok()?;
    parse_version(&String::from_utf8_lossy(&output.stdout))
}

/// Major and minor number in the line `libfabric: 2.5.1`.
fn parse_version(text: &str) -> Option<String> {
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix("libfabric:"))?;
    let mut numbers = line.trim().split('.');
    let (major, minor) = (numbers.next()?, numbers.next()?);
    let is_number = |word: &str| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit());
    (is_number(major) && is_number(minor)).then(|| format!("{major}.{minor}"))
}

/// The time in the only row of the table: column `usec/xfer`, half a round trip.
fn parse(text: &str) -> Result<f64, BenchError> {
    let mut lines = text.lines().map(|line| line.split_whitespace());
    let column = lines.find_map(|mut words| words.position(|word| word == "usec/xfer"));
    let mut rows = lines.filter(|words| words.clone().next().is_some());
    let time_us = column.and_then(|column| rows.next()?.nth(column)?.parse().ok());
    time_us
        .filter(|time_us: &f64| *time_us > 0.0 && time_us.is_finite())
        .ok_or_else(|| BenchError::failed(format!("fi_pingpong wrote `{}`", text.trim())))
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
    fn the_version_is_that_of_the_library() {
        let text = "fi_info: 1.17.0\nlibfabric: 2.5.1\nlibfabric api: 1.17\n";
        assert_eq!(parse_version(text).as_deref(), Some("2.5"));
        for text in ["", "fi_info: 1.17.0", "libfabric: new", "libfabric: 2"] {
            assert_eq!(parse_version(text), None, "{text}");
        }
        assert_eq!(name(Some("2.5"), "tcp"), "libfabric-2.5/fi_pingpong tcp");
        assert_eq!(name(None, "shm"), "libfabric/fi_pingpong shm");
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
