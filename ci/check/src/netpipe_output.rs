//! The JSON lines of `refrain netpipe --json` have the promised shape.

use crate::report::Finding::{self, Note, Wrong};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// What stands for the protocol in lines of programs that are measured beside.
const OF_A_PEER: &str = "-";

/// Runs the check: every line is whole, and each of `protocols` was measured
/// at the same sizes.
pub fn check(text: &str, protocols: &[&str]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut sizes: BTreeMap<String, BTreeSet<u64>> = BTreeMap::new();
    for (index, line) in text.lines().enumerate() {
        match read(line) {
            Ok((protocol, bytes)) => drop(sizes.entry(protocol).or_default().insert(bytes)),
            Err(problem) => findings.push(Wrong(format!("line {}: {problem}: {line}", index + 1))),
        }
    }
    let expected = protocols.first().and_then(|first| sizes.get(*first));
    for protocol in protocols {
        match sizes.get(*protocol) {
            None => findings.push(Wrong(format!("protocol {protocol} was not measured"))),
            Some(found) if Some(found) != expected => {
                findings.push(Wrong(format!(
                    "protocol {protocol} was measured at other sizes than {}",
                    protocols[0]
                )));
            }
            Some(found) if found.len() < 3 => {
                findings.push(Wrong(format!(
                    "protocol {protocol} was measured at {} sizes only",
                    found.len()
                )));
            }
            Some(_) => {}
        }
    }
    for (protocol, sizes) in &sizes {
        findings.push(Note(format!("{protocol}: {} sizes", sizes.len())));
    }
    findings
}

fn read(line: &str) -> Result<(String, u64), String> {
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
    let name = if protocol == OF_A_PEER {
        fabric
    } else {
        protocol
    };
    Ok((name, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(protocol: &str, bytes: u64) -> String {
        format!(
            r#"{{"fabric":"shm","protocol":"{protocol}","receive":"named","bytes":{bytes},"half_rtt_us_p50":0.1,"half_rtt_us_p99":0.2,"gbit_per_s":1.5,"repeats":9}}"#
        )
    }

    fn wrong(text: &str) -> usize {
        check(text, &["none", "pessimist"])
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
        assert_eq!(wrong(""), 2);
        assert_eq!(wrong(&format!("{}\n{}", good(), line("pessimist", 65))), 1);
        assert_eq!(wrong(&good().replace("\"repeats\":9", "\"repeats\":0")), 8);
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
