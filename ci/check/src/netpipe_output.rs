//! The JSON lines of `refrain netpipe --json` have the promised shape.

use crate::report::Finding::{self, Note, Wrong};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for the protocol in lines of programs that are measured beside.
const OF_A_PEER: &str = "-";

/// What must have been measured.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Expected<'a> {
    /// On each fabric.
    pub protocols: Vec<&'a str>,
    /// Empty: whatever there is, at least one.
    pub fabrics: Vec<&'a str>,
    /// Parts of the names of other programs.
    pub peers: Vec<&'a str>,
}

impl<'a> Expected<'a> {
    /// From `PROTOCOL... [--fabric FABRIC]... [--peer NAME]...`; `None` when
    /// these are no such words.
    pub fn parse(words: &[&'a str]) -> Option<Self> {
        let mut expected = Self::default();
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--fabric" => expected.fabrics.push(words.next()?),
                "--peer" => expected.peers.push(words.next()?),
                _ if word.starts_with('-') => return None,
                _ => expected.protocols.push(word),
            }
        }
        (!expected.protocols.is_empty()).then_some(expected)
    }
}

/// Sizes by fabric (or peer) and protocol.
type Sizes = BTreeMap<(String, String), BTreeSet<u64>>;

/// Runs the check: every line is whole, and each fabric and protocol that is
/// expected was measured at the same sizes.
pub fn check(text: &str, expected: &Expected<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sizes = Sizes::new();
    for (index, line) in text.lines().enumerate() {
        match read(line) {
            Ok((series, bytes)) => drop(sizes.entry(series).or_default().insert(bytes)),
            Err(problem) => findings.push(Wrong(format!("line {}: {problem}: {line}", index + 1))),
        }
    }
    check_series(&sizes, expected, &mut findings);
    let peers: Vec<&str> = sizes
        .keys()
        .filter(|(_, protocol)| protocol == OF_A_PEER)
        .map(|(name, _)| name.as_str())
        .collect();
    for peer in &expected.peers {
        if !peers.iter().any(|name| name.contains(peer)) {
            findings.push(Wrong(format!("{peer} was not measured")));
        }
    }
    for ((fabric, protocol), sizes) in &sizes {
        let name = name(fabric, protocol);
        findings.push(Note(format!("{name}: {} sizes", sizes.len())));
    }
    findings
}

fn check_series(sizes: &Sizes, expected: &Expected<'_>, findings: &mut Vec<Finding>) {
    let mut fabrics: BTreeSet<&str> = expected.fabrics.iter().copied().collect();
    if fabrics.is_empty() {
        let own = sizes.keys().filter(|(_, protocol)| protocol != OF_A_PEER);
        fabrics.extend(own.map(|(fabric, _)| fabric.as_str()));
    }
    if fabrics.is_empty() {
        findings.push(Wrong("nothing was measured".to_owned()));
    }
    let mut first: Option<(String, &BTreeSet<u64>)> = None;
    for fabric in fabrics {
        for protocol in &expected.protocols {
            let name = name(fabric, protocol);
            let Some(found) = sizes.get(&(fabric.to_owned(), (*protocol).to_owned())) else {
                findings.push(Wrong(format!("{name} was not measured")));
                continue;
            };
            let (of, same) = first.get_or_insert_with(|| (name.clone(), found));
            if found != *same {
                findings.push(Wrong(format!(
                    "{name} was measured at other sizes than {of}"
                )));
            } else if found.len() < 3 {
                let count = found.len();
                findings.push(Wrong(format!("{name} was measured at {count} sizes only")));
            }
        }
    }
}

fn name(fabric: &str, protocol: &str) -> String {
    if protocol == OF_A_PEER {
        fabric.to_owned()
    } else {
        format!("{fabric} {protocol}")
    }
}

/// Fabric (or peer) and protocol, and bytes.
fn read(line: &str) -> Result<((String, String), u64), String> {
    let object: Value =
        serde_json::from_str(line).map_err(|error| format!("not JSON ({error})"))?;
    let text = |key: &str| {
        let value = object[key].as_str().filter(|value| !value.is_empty());
        value
            .map(str::to_owned)
            .ok_or(format!("`{key}` is no text"))
    };
    let count = |key: &str| {
        object[key]
            .as_u64()
            .ok_or(format!("`{key}` is no whole number"))
    };
    let positive = |key: &str| {
        let value = object[key]
            .as_f64()
            .filter(|value| *value > 0.0 && value.is_finite());
        value.ok_or(format!("`{key}` is not above 0"))
    };
    let fabric = text("fabric")?;
    let protocol = text("protocol")?;
    let receive = text("receive")?;
    if receive != "named" && receive != "any" {
        return Err(format!("`receive` is {receive}, not named or any"));
    }
    let bytes = count("bytes")?;
    let middle = positive("half_rtt_us_p50")?;
    // Other programs tell one time a size, not its spread nor how often.
    if protocol != OF_A_PEER || !object["half_rtt_us_p99"].is_null() {
        let tail = positive("half_rtt_us_p99")?;
        if tail < middle {
            return Err("`half_rtt_us_p99` is below `half_rtt_us_p50`".to_owned());
        }
    }
    if bytes > 0 {
        positive("gbit_per_s")?;
    }
    let told = protocol != OF_A_PEER || !object["repeats"].is_null();
    if told && count("repeats")? == 0 {
        return Err("`repeats` is 0".to_owned());
    }
    Ok(((fabric, protocol), bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(protocol: &str, bytes: u64) -> String {
        line_of("shm", protocol, bytes)
    }

    fn line_of(fabric: &str, protocol: &str, bytes: u64) -> String {
        format!(
            r#"{{"fabric":"{fabric}","protocol":"{protocol}","receive":"named","bytes":{bytes},"half_rtt_us_p50":0.1,"half_rtt_us_p99":0.2,"gbit_per_s":1.5,"repeats":9}}"#
        )
    }

    fn wrong(text: &str) -> usize {
        wrong_for(text, &["none", "pessimist"])
    }

    fn wrong_for(text: &str, words: &[&str]) -> usize {
        check(text, &Expected::parse(words).unwrap())
            .iter()
            .filter(|finding| matches!(finding, Wrong(_)))
            .count()
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
    fn peers_that_are_named_must_be_there() {
        let words = ["none", "pessimist", "--peer", "fi_pingpong tcp"];
        assert_eq!(wrong_for(&good(), &words), 1);
        let peer = line_of("libfabric-2.5/fi_pingpong tcp", "-", 8);
        assert_eq!(wrong_for(&format!("{}\n{peer}", good()), &words), 0);
        let own = line_of("fi_pingpong tcp", "none", 8);
        assert!(wrong_for(&format!("{}\n{own}", good()), &words) > 0);
    }

    #[test]
    fn words_that_say_nothing_are_refused() {
        for words in [&[][..], &["--fabric", "shm"], &["none", "--peer"], &["-x"]] {
            assert_eq!(Expected::parse(words), None, "{words:?}");
        }
    }

    #[test]
    fn only_peers_may_leave_the_spread_out() {
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
        assert_eq!(
            wrong(&format!(
                "{}\n{}",
                good(),
                line("x", 1).replace("0.2", "0.05")
            )),
            1
        );
        assert_eq!(wrong(&format!("{}\nhalf a li", good())), 1);
    }
}
