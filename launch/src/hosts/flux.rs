//! The brokers of a Flux instance, from the output of `flux resource R`. Pure.
//!
//! An instance is what `flux batch` and `flux alloc` give: a broker on each node. `R` is Flux's description of
//! resources (Flux RFC 20): ranks of brokers with their cores, and the names of their hosts.

use super::listing::{HostSlots, NotAHost};
use super::short_list::{LENGTH_MAX, expand};
use serde::Deserialize;

/// The command that prints the resources of an instance whose brokers are up.
pub const RESOURCES: [&str; 5] = ["flux", "resource", "R", "-s", "up"];
/// The command that starts an agent below a broker; the broker's rank and the agent's command are appended. It
/// passes its standard input on, with the invitation. Flux's scheduler does not count what it starts.
pub const EXEC: [&str; 3] = ["flux", "exec", "-r"];

/// A broker of the instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broker {
    /// Its rank in the instance.
    pub rank: u32,
    /// Its host, with a slot for each core.
    pub host: HostSlots,
}

#[derive(Deserialize)]
struct Resources {
    execution: Execution,
}

#[derive(Deserialize)]
struct Execution {
    #[serde(rename = "R_lite")]
    parts: Vec<Part>,
    nodelist: Vec<String>,
}

#[derive(Deserialize)]
struct Part {
    rank: String,
    children: Children,
}

#[derive(Deserialize)]
struct Children {
    core: String,
}

/// The numbers of a set such as `0-3,7`.
fn numbers(set: &str) -> Option<Vec<u32>> {
    let set = set
        .strip_prefix('[')
        .and_then(|it| it.strip_suffix(']'))
        .unwrap_or(set);
    let names = expand(&format!("[{set}]"))?;
    names.iter().map(|name| name.parse().ok()).collect()
}

/// The brokers of an instance, by rank.
///
/// # Errors
/// The text cannot be understood.
pub fn brokers(resources: &str) -> Result<Vec<Broker>, NotAHost> {
    let found = serde_json::from_str(resources).ok().and_then(read);
    found.filter(|found| !found.is_empty()).ok_or_else(|| {
        let begin: String = resources.chars().take(200).collect();
        NotAHost::new(format!(
            "`{}` printed {begin:?}, which cannot be understood: name the hosts with --host, or set --launcher local",
            RESOURCES.join(" ")
        ))
    })
}

fn read(Resources { execution }: Resources) -> Option<Vec<Broker>> {
    let names = expand(&execution.nodelist.join(","))?;
    let mut slots = Vec::new();
    for part in execution.parts {
        let cores = u32::try_from(numbers(&part.children.core)?.len()).ok()?;
        slots.extend(numbers(&part.rank)?.into_iter().map(|rank| (rank, cores)));
        if slots.len() > LENGTH_MAX {
            return None;
        }
    }
    // The names stand in the order of ranks.
    slots.sort_unstable();
    let broker = |((rank, slots), name)| Broker {
        rank,
        host: HostSlots { name, slots },
    };
    (slots.len() == names.len()).then(|| slots.into_iter().zip(names).map(broker).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn listed(text: &str) -> Option<Vec<(u32, String, u32)>> {
        let row = |it: Broker| (it.rank, it.host.name, it.host.slots);
        Some(brokers(text).ok()?.into_iter().map(row).collect())
    }

    #[test]
    fn brokers_have_a_slot_for_each_core() {
        let text = r#"{"version": 1, "execution": {"R_lite": [
            {"rank": "3", "children": {"core": "0"}},
            {"rank": "0-1", "children": {"core": "0-3,8", "gpu": "0"}}],
            "nodelist": ["n[09-10]", "fat"], "starttime": 0.0, "expiration": 0.0}}"#;
        let expected = [(0, "n09", 5), (1, "n10", 5), (3, "fat", 1)];
        let expected = expected.map(|(rank, name, slots)| (rank, name.to_owned(), slots));
        assert_eq!(listed(text), Some(expected.to_vec()));
    }

    #[test]
    fn what_is_no_description_of_resources_is_refused() {
        let with = |ranks: &str, cores: &str, nodes: &str| {
            format!(
                r#"{{"execution": {{"R_lite": [{{"rank": "{ranks}", "children": {{"core": "{cores}"}}}}], "nodelist": ["{nodes}"]}}}}"#
            )
        };
        assert!(listed(&with("0-1", "0", "a,b")).is_some());
        for (ranks, cores, nodes) in [
            ("0-1", "0", "a"),
            ("", "0", "a"),
            ("x", "0", "a"),
            ("0", "", "a"),
            ("0", "0-99999999", "a"),
            ("0", "0", "-a"),
            ("4294967296", "0", "a"),
        ] {
            assert_eq!(
                listed(&with(ranks, cores, nodes)),
                None,
                "{ranks} {cores} {nodes}"
            );
        }
        for text in ["", "{}", r#"{"execution": {"R_lite": [], "nodelist": []}}"#] {
            let error = brokers(text).unwrap_err().to_string();
            assert!(error.contains("flux resource R"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(ranks in "[0-9,\\[\\]-]{0,8}", cores in "[0-9,-]{0,8}") {
            let _ = (numbers(&ranks), numbers(&cores));
        }
    }
}
