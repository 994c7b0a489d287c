//! Checks the output of `refrain netpipe --json`, for `ci/test`: every line is complete, and each
//! expected fabric, protocol and peer was measured.

use super::result::{NO_PROTOCOL, Record};
use crate::error::BenchError;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::ExitCode;

/// Arguments of the check.
#[derive(Debug, clap::Args)]
pub struct CheckArguments {
    /// The file to check.
    file: PathBuf,
    /// Protocols that were measured on each fabric.
    #[arg(required = true, value_name = "PROTOCOL")]
    protocols: Vec<String>,
    /// Fabrics that were measured; if not given, any, but at least one.
    #[arg(long = "fabric", value_name = "FABRIC")]
    fabrics: Vec<String>,
    /// Parts of the names of peers that were measured.
    #[arg(long = "peer", value_name = "NAME")]
    peers: Vec<String>,
}

/// Sizes by fabric (or peer) and protocol.
type Sizes = BTreeMap<(String, String), BTreeSet<u64>>;

/// Runs the check and prints the result.
///
/// # Errors
/// If the file cannot be read.
pub fn check(arguments: &CheckArguments) -> miette::Result<ExitCode> {
    let text = std::fs::read_to_string(&arguments.file)
        .map_err(BenchError::system("cannot read the output"))?;
    let (sizes, problems) = findings(&text, arguments);
    for ((fabric, protocol), sizes) in &sizes {
        println!("note: {}: {} sizes", name(fabric, protocol), sizes.len());
    }
    for problem in &problems {
        println!("wrong: {problem}");
    }
    Ok(ExitCode::from(u8::from(!problems.is_empty())))
}

fn findings(text: &str, expected: &CheckArguments) -> (Sizes, Vec<String>) {
    let mut problems = Vec::new();
    let mut sizes = Sizes::new();
    for (index, line) in text.lines().enumerate() {
        match read(line) {
            Ok(record) => {
                let series = sizes.entry((record.fabric, record.protocol)).or_default();
                series.insert(record.bytes);
            }
            Err(problem) => problems.push(format!("line {}: {problem}: {line}", index + 1)),
        }
    }
    check_series(&sizes, expected, &mut problems);
    let is_peer = |(_, protocol): &&(String, String)| protocol == NO_PROTOCOL;
    for peer in &expected.peers {
        let mut peers = sizes.keys().filter(is_peer);
        if !peers.any(|(name, _)| name.contains(peer)) {
            problems.push(format!("{peer} was not measured"));
        }
    }
    (sizes, problems)
}

/// Checks that each fabric was measured with each protocol, at the same sizes.
fn check_series(sizes: &Sizes, expected: &CheckArguments, problems: &mut Vec<String>) {
    let mut fabrics: BTreeSet<&String> = expected.fabrics.iter().collect();
    if fabrics.is_empty() {
        let own = sizes.keys().filter(|(_, protocol)| protocol != NO_PROTOCOL);
        fabrics.extend(own.map(|(fabric, _)| fabric));
    }
    if fabrics.is_empty() {
        problems.push("nothing was measured".to_owned());
    }
    let mut first: Option<(String, &BTreeSet<u64>)> = None;
    for fabric in fabrics {
        for protocol in &expected.protocols {
            let name = name(fabric, protocol);
            let Some(found) = sizes.get(&(fabric.clone(), protocol.clone())) else {
                problems.push(format!("{name} was not measured"));
                continue;
            };
            let (of, same) = first.get_or_insert_with(|| (name.clone(), found));
            if found != *same {
                problems.push(format!("{name} was measured at other sizes than {of}"));
            } else if found.len() < 3 {
                problems.push(format!("{name} was measured at {} sizes only", found.len()));
            }
        }
    }
}

fn name(fabric: &str, protocol: &str) -> String {
    match protocol {
        NO_PROTOCOL => fabric.to_owned(),
        _ => format!("{fabric} {protocol}"),
    }
}

fn read(line: &str) -> Result<Record, String> {
    let record: Record = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let middle = record.half_rtt_us_p50;
    // Peers report one time per size, without its spread.
    let is_peer = record.protocol == NO_PROTOCOL;
    let tail = record.half_rtt_us_p99.or(is_peer.then_some(middle));
    let repeats = record.repeats.or(is_peer.then_some(1));
    if middle <= 0.0 {
        return Err("`half_rtt_us_p50` is not above 0".to_owned());
    }
    if tail.is_none_or(|tail| tail < middle) {
        return Err("`half_rtt_us_p99` is below `half_rtt_us_p50`".to_owned());
    }
    if record.bytes > 0 && record.gbit_per_s <= 0.0 {
        return Err("`gbit_per_s` is not above 0".to_owned());
    }
    if repeats.is_none_or(|repeats| repeats == 0) {
        return Err("`repeats` is not above 0".to_owned());
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: CheckArguments,
    }

    fn line(protocol: &str, bytes: u64) -> String {
        line_of("shm", protocol, bytes)
    }

    fn line_of(fabric: &str, protocol: &str, bytes: u64) -> String {
        format!(
            r#"{{"fabric":"{fabric}","protocol":"{protocol}","receive":"named","mode":"ping-pong","perturbed":false,"bytes":{bytes},"half_rtt_us_p50":0.1,"half_rtt_us_p99":0.2,"gbit_per_s":1.5,"repeats":9}}"#
        )
    }

    fn wrong(text: &str) -> usize {
        wrong_for(text, &["none", "pessimist"])
    }

    fn wrong_for(text: &str, words: &[&str]) -> usize {
        let line = Line::parse_from(["check", "FILE"].iter().chain(words));
        findings(text, &line.arguments).1.len()
    }

    fn good() -> String {
        let both = |bytes| [line("none", bytes), line("pessimist", bytes)];
        [1, 8, 64].map(both).concat().join("\n")
    }

    #[test]
    fn a_whole_sweep_passes() {
        assert_eq!(wrong(&good()), 0);
        assert_eq!(wrong(&format!("{}\n{}", good(), line("openmpi", 4))), 0);
    }

    #[test]
    fn every_fabric_has_every_protocol_at_the_same_sizes() {
        let tcp = |protocol| [1, 8, 64].map(|bytes| line_of("ofi:tcp", protocol, bytes));
        let both = format!("{}\n{}", good(), tcp("none").join("\n"));
        assert_eq!(wrong_for(&both, &["none"]), 0);
        assert_eq!(wrong(&both), 1, "ofi:tcp pessimist is missing");
        assert_eq!(
            wrong_for(&both, &["none", "--fabric", "shm", "--fabric", "ofi:shm"]),
            1
        );
        let more = format!("{both}\n{}", line_of("ofi:tcp", "none", 65));
        assert_eq!(wrong_for(&more, &["none"]), 1);
        assert_eq!(wrong_for(&more, &["none", "--fabric", "ofi:tcp"]), 0);
    }

    #[test]
    fn named_peers_are_required() {
        let words = ["none", "pessimist", "--peer", "fi_pingpong tcp"];
        assert_eq!(wrong_for(&good(), &words), 1);
        let peer = line_of("libfabric-2.5/fi_pingpong tcp", "-", 8);
        assert_eq!(wrong_for(&format!("{}\n{peer}", good()), &words), 0);
        let own = line_of("fi_pingpong tcp", "none", 8);
        assert!(wrong_for(&format!("{}\n{own}", good()), &words) > 0);
    }

    #[test]
    fn only_peers_may_omit_the_spread() {
        let without = |protocol| {
            line(protocol, 8)
                .replace("0.2", "null")
                .replace("\"repeats\":9", "\"repeats\":null")
        };
        assert_eq!(wrong(&format!("{}\n{}", good(), without("-"))), 0);
        assert_eq!(wrong(&format!("{}\n{}", good(), without("none"))), 1);
    }

    #[test]
    fn missing_pieces_are_found() {
        assert_eq!(wrong(""), 1);
        assert_eq!(wrong_for(&good(), &["none", "optimist"]), 1);
        assert_eq!(wrong(&format!("{}\n{}", good(), line("pessimist", 65))), 1);
        assert_eq!(wrong(&good().replace("\"repeats\":9", "\"repeats\":0")), 7);
        let tail_below_median = line("x", 1).replace("0.2", "0.05");
        assert_eq!(wrong(&format!("{}\n{tail_below_median}", good())), 1);
        assert_eq!(wrong(&format!("{}\nhalf a li", good())), 1);
    }
}
