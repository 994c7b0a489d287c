//! Crates depend only on the crates that `ci/arrows.txt` lists below them.

use crate::list_file::entries;
use crate::report::Finding::{self, Wrong};
use crate::tree::Tree;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

const LIST: &str = "ci/arrows.txt";

/// Runs the check on the output of `cargo metadata --no-deps`.
pub fn check(tree: &Tree, metadata: &Value) -> Vec<Finding> {
    let allowed: BTreeMap<&str, Vec<&str>> = entries(tree.text(LIST).unwrap_or_default())
        .map(|entry| {
            (
                entry.name,
                entry
                    .reason
                    .trim_start_matches("->")
                    .split_whitespace()
                    .collect(),
            )
        })
        .collect();
    let packages: Vec<&Value> = metadata["packages"]
        .as_array()
        .into_iter()
        .flatten()
        .collect();
    let members: BTreeSet<&str> = packages
        .iter()
        .filter_map(|package| package["name"].as_str())
        .collect();
    let mut findings = Vec::new();
    if members.is_empty() {
        findings.push(Wrong("cargo metadata lists no crate".to_owned()));
    }
    for package in packages {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(below) = allowed.get(name) else {
            findings.push(Wrong(format!("{name} has no place in {LIST}")));
            continue;
        };
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        // Only dependencies on crates of this workspace, including dev-dependencies. A crate's
        // tests may depend on the crate itself, with its test doubles.
        for on in dependencies.filter_map(|dependency| dependency["name"].as_str()) {
            if on != name && members.contains(on) && !below.contains(&on) {
                findings.push(Wrong(format!(
                    "{name} depends on {on}, which does not lie below it in {LIST}"
                )));
            }
        }
    }
    for name in allowed.keys().filter(|name| !members.contains(*name)) {
        findings.push(Wrong(format!("{LIST}: there is no crate {name}")));
    }
    if let Some(name) = allowed
        .keys()
        .find(|name| reaches(&allowed, name, name, &mut BTreeSet::new()))
    {
        findings.push(Wrong(format!("{LIST} has a circle through {name}")));
    }
    findings
}

fn reaches<'a>(
    arrows: &BTreeMap<&'a str, Vec<&'a str>>,
    from: &str,
    to: &str,
    seen: &mut BTreeSet<&'a str>,
) -> bool {
    arrows
        .get(from)
        .into_iter()
        .flatten()
        .any(|&next| next == to || (seen.insert(next) && reaches(arrows, next, to, seen)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn run(list: &str, packages: &[(&str, &[&str])]) -> Vec<Finding> {
        let packages: Vec<Value> = packages
            .iter()
            .map(|(name, on)| json!({"name": name, "dependencies": on.iter().map(|on| json!({"name": on})).collect::<Vec<_>>()}))
            .collect();
        check(&Tree::of(&[(LIST, list)]), &json!({ "packages": packages }))
    }

    #[test]
    fn downwards_is_fine_and_upwards_is_not() {
        let list = "top -> low\nlow ->\n";
        assert_eq!(
            run(list, &[("top", &["low", "serde"]), ("low", &["libc"])]),
            []
        );
        assert_eq!(run(list, &[("top", &[]), ("low", &["top"])]).len(), 1);
    }

    #[test]
    fn every_crate_has_a_place_and_no_place_is_empty() {
        assert_eq!(run("top -> low\nlow ->", &[("top", &[])]).len(), 1);
        assert_eq!(run("top ->", &[("top", &[]), ("new", &[])]).len(), 1);
    }

    #[test]
    fn the_list_has_no_circle() {
        assert_eq!(
            run(
                "a -> b\nb -> c\nc -> a",
                &[("a", &[]), ("b", &[]), ("c", &[])]
            )
            .len(),
            1
        );
    }
}
