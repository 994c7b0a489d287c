//! Code and a test cite each rule that `docs/design/protocol.md` names, or `ci/rules-open.txt`
//! lists the rule with the reason why not yet.

use crate::list_file::entries;
use crate::report::Finding::{self, Note, Wrong};
use crate::rust_source::RustSource;
use crate::tree::Tree;
use std::collections::{BTreeMap, BTreeSet};

const RULES: &str = "docs/design/protocol.md";
const OPEN: &str = "ci/rules-open.txt";

/// The places where a rule is cited: the first one of each sort.
#[derive(Debug, Default)]
struct Citations {
    code: Option<String>,
    test: Option<String>,
}

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let defined = defined_rules(tree.text(RULES).unwrap_or_default(), &mut findings);
    if defined.is_empty() {
        findings.push(Wrong(format!("{RULES} names no rule (`- **GATE-1** …`)")));
        return findings;
    }
    let mut cited: BTreeMap<&str, Citations> = BTreeMap::new();
    let families: BTreeSet<&str> = defined
        .iter()
        .filter_map(|rule| Some(rule.rsplit_once('-')?.0))
        .collect();
    // The checks' own tests cite rules as examples.
    for (path, text) in tree
        .rust_files()
        .filter(|(path, _)| !path.starts_with("ci/"))
    {
        let source = RustSource::parse(text).unwrap_or_default();
        for (index, line) in text.lines().enumerate() {
            for rule in words_of_families(line, &families) {
                let place = format!("{path}:{}", index + 1);
                let Some(&rule) = defined.get(rule) else {
                    findings.push(Wrong(format!(
                        "{place} cites {rule}, which {RULES} does not name"
                    )));
                    continue;
                };
                let citations = cited.entry(rule).or_default();
                let is_test = is_test_file(path) || source.is_test_line(index + 1);
                let slot = if is_test {
                    &mut citations.test
                } else {
                    &mut citations.code
                };
                slot.get_or_insert(place);
            }
        }
    }
    findings.extend(judge(&defined, &cited, tree.text(OPEN).unwrap_or_default()));
    findings
}

fn judge(defined: &BTreeSet<&str>, cited: &BTreeMap<&str, Citations>, open: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let open: BTreeMap<&str, &str> = entries(open)
        .map(|entry| (entry.name, entry.reason))
        .collect();
    for rule in open.keys().filter(|rule| !defined.contains(*rule)) {
        findings.push(Wrong(format!("{OPEN}: {rule} is not named in {RULES}")));
    }
    for rule in defined {
        let none = Citations::default();
        let Citations { code, test } = cited.get(rule).unwrap_or(&none);
        let lacks = match (code, test) {
            (Some(_), Some(_)) => None,
            (Some(_), None) => Some("no test cites it"),
            (None, Some(_)) => Some("no code cites it"),
            (None, None) => Some("neither code nor a test cites it"),
        };
        match (lacks, open.get(rule)) {
            (None, None) => {}
            (None, Some(_)) => findings.push(Wrong(format!(
                "{OPEN}: {rule} is cited by code ({}) and by a test ({}): drop the entry",
                code.as_deref().unwrap_or_default(),
                test.as_deref().unwrap_or_default(),
            ))),
            (Some(lacks), Some(reason)) if !reason.is_empty() => {
                findings.push(Note(format!("open: {rule}: {lacks}: {reason}")));
            }
            (Some(_), Some(_)) => findings.push(Wrong(format!("{OPEN}: {rule} has no reason"))),
            (Some(lacks), None) => findings.push(Wrong(format!(
                "{rule}: {lacks}, and {OPEN} does not list it"
            ))),
        }
    }
    findings
}

/// Rules are in bold at the start of a list item.
fn defined_rules<'a>(text: &'a str, findings: &mut Vec<Finding>) -> BTreeSet<&'a str> {
    let mut rules = BTreeSet::new();
    for line in text.lines() {
        let item = line.trim_start();
        let bullet = item.trim_start_matches(|c: char| c.is_ascii_digit());
        let Some(item) = ["- ", "* ", ". "]
            .iter()
            .find_map(|mark| bullet.strip_prefix(mark))
        else {
            continue;
        };
        let Some((rule, _)) = item
            .trim_start()
            .strip_prefix("**")
            .and_then(|rest| rest.split_once("**"))
        else {
            continue;
        };
        if is_rule_name(rule) && !rules.insert(rule) {
            findings.push(Wrong(format!("{RULES} names {rule} twice")));
        }
    }
    rules
}

fn is_rule_name(word: &str) -> bool {
    word.rsplit_once('-').is_some_and(|(family, number)| {
        !family.is_empty()
            && family.bytes().all(|byte| byte.is_ascii_uppercase())
            && !number.is_empty()
            && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

fn words_of_families<'a>(
    line: &'a str,
    families: &BTreeSet<&str>,
) -> impl Iterator<Item = &'a str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_'))
        .filter(|word| is_rule_name(word))
        .filter(|word| {
            word.rsplit_once('-')
                .is_some_and(|(family, _)| families.contains(family))
        })
}

/// Files that are tests as a whole. The simulator counts as one: it checks whether other code
/// follows a rule.
fn is_test_file(path: &str) -> bool {
    let (folders, file) = path.rsplit_once('/').unwrap_or(("", path));
    folders
        .split('/')
        .any(|folder| matches!(folder, "tests" | "conformance" | "fuzz"))
        || path.starts_with("sim/")
        || matches!(file, "tests.rs" | "conformance.rs")
        || file.ends_with("_tests.rs")
}

#[cfg(test)]
mod tests {
    use super::*;

    const DOC: &str = "# Rules\n- **GATE-1** Nothing leaves.\n1. **REC-2** Fetch.\nGATE-1 in a sentence, **bold**.\n";

    fn run(source: &str, test: &str, open: &str) -> Vec<Finding> {
        check(&Tree::of(&[
            (RULES, DOC),
            (OPEN, open),
            ("a/src/m.rs", source),
            ("a/tests/t.rs", test),
        ]))
    }

    #[test]
    fn code_and_test_are_both_needed() {
        assert_eq!(run("// GATE-1, REC-2", "// GATE-1 REC-2", ""), []);
        assert_eq!(run("// GATE-1, REC-2", "// REC-2", "").len(), 1);
        assert_eq!(run("// REC-2", "// (GATE-1) REC-2.", "").len(), 1);
        assert_eq!(run("", "", "").len(), 2);
    }

    #[test]
    fn a_test_module_inside_a_source_file_is_a_test() {
        let source = "// GATE-1 REC-2\n#[cfg(test)]\nmod tests {\n    // GATE-1\n    // REC-2\n}\n";
        assert_eq!(run(source, "", ""), []);
    }

    #[test]
    fn a_simulator_upholds_no_rule() {
        let tree = |folder: &str| {
            check(&Tree::of(&[
                (RULES, DOC),
                (OPEN, ""),
                (&format!("{folder}/src/m.rs"), "// GATE-1 REC-2"),
                ("a/tests/t.rs", "// GATE-1 REC-2"),
            ]))
        };
        assert_eq!((tree("a").len(), tree("sim").len()), (0, 2));
    }

    #[test]
    fn longer_numbers_are_other_rules() {
        let found = run("// GATE-10 REC-2", "// GATE-1 REC-2", "");
        assert_eq!(
            found.len(),
            2,
            "GATE-10 is unknown, GATE-1 has no code: {found:?}"
        );
    }

    #[test]
    fn open_rules_are_notes_until_they_are_stale() {
        let open = "GATE-1  event logger, next\nREC-2 recovery, later";
        let found = run("// GATE-1", "", open);
        assert_eq!(
            found
                .iter()
                .filter(|finding| matches!(finding, Note(_)))
                .count(),
            2
        );
        assert_eq!(found.len(), 2);
        let found = run("// GATE-1", "// GATE-1", open);
        assert!(
            matches!(&found[0], Wrong(text) if text.contains("drop the entry")),
            "{found:?}"
        );
    }

    #[test]
    fn open_entries_need_a_reason_and_a_rule() {
        assert_eq!(run("// REC-2", "// REC-2", "GATE-1").len(), 1);
        assert_eq!(
            run("// GATE-1 REC-2", "// GATE-1 REC-2", "XYZ-1 why").len(),
            1
        );
    }

    #[test]
    fn a_document_without_rules_fails() {
        assert_eq!(check(&Tree::of(&[(RULES, "# nothing")])).len(), 1);
    }
}
