//! Documents that name the version of a format must agree with the code: they write the version as
//! ``8 (`NAME` in PATH)``, and at least one of them names each public constant `…_VERSION`.

use crate::report::Finding::{self, Wrong};
use crate::tree::Tree;

/// A version that a document states for a constant.
#[derive(Debug, PartialEq, Eq)]
struct Claim<'a> {
    value: &'a str,
    name: &'a str,
    path: &'a str,
}

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut named = Vec::new();
    let documents = tree.files().filter(|(path, _)| path.ends_with(".md"));
    for (document, text) in documents {
        for claim in text.lines().flat_map(claims) {
            let Claim { value, name, path } = claim;
            let source = tree.text(path).unwrap_or_default();
            let in_code = constants(source).find(|(of, ..)| *of == name);
            match in_code {
                None => findings.push(Wrong(format!("{document}: no `{name}` in {path}"))),
                Some((.., code)) if code != value => findings.push(Wrong(format!(
                    "{document} says {value}, `{name}` in {path} is {code}"
                ))),
                Some(_) => named.push((name, path)),
            }
        }
    }
    for (path, text) in tree.rust_files() {
        for (name, is_public, _) in constants(text) {
            if is_public && !named.contains(&(name, path)) {
                findings.push(Wrong(format!(
                    "{path}: no document says what `{name}` is, as 1 (`{name}` in {path})"
                )));
            }
        }
    }
    findings
}

/// Name, visibility (whether public), and value of each version constant.
fn constants(source: &str) -> impl Iterator<Item = (&str, bool, &str)> {
    source.lines().filter_map(|line| {
        let (visibility, rest) = line.split_once("const ")?;
        let (name, rest) = rest.split_once(": u")?;
        let (_, value) = rest.split_once(" = ")?;
        let value = value.strip_suffix(';')?;
        let is_version = name == "VERSION" || name.ends_with("_VERSION");
        let is_here = matches!(visibility, "" | "pub " | "pub(crate) " | "pub(super) ");
        (is_version && is_here).then_some((name, visibility == "pub ", value))
    })
}

fn claims(line: &str) -> impl Iterator<Item = Claim<'_>> {
    line.match_indices(" (`").filter_map(|(at, mark)| {
        let (name, rest) = line[at + mark.len()..].split_once("` in ")?;
        let (path, _) = rest.split_once(')')?;
        let value = line[..at].rsplit([' ', ',', ':']).next()?;
        let is_claim = name.ends_with("VERSION") && value.parse::<u64>().is_ok();
        is_claim.then_some(Claim { value, name, path })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const CODE: &str = "/// It.\npub const WIRE_VERSION: u16 = 8;\n";

    fn findings(document: &str) -> usize {
        check(&Tree::of(&[("a/b.rs", CODE), ("docs/c.md", document)])).len()
    }

    #[test]
    fn the_version_of_the_code_is_said() {
        assert_eq!(
            findings("| 4..6 | version, 8 (`WIRE_VERSION` in a/b.rs) |"),
            0
        );
    }

    #[test]
    fn another_version_and_none_are_found() {
        // No valid claim names the constant, which is a second finding.
        assert_eq!(findings("version 7 (`WIRE_VERSION` in a/b.rs)"), 2);
        assert_eq!(findings("version 8 (`WIRE_VERSION` in a/c.rs)"), 2);
        assert_eq!(findings("version 8 (`OTHER_VERSION` in a/b.rs)"), 2);
        assert_eq!(findings("version 8"), 1);
    }

    #[test]
    fn constants_that_are_not_public_need_no_document() {
        let code = "const VERSION: u8 = 1;\npub(crate) const FILE_VERSION: u32 = 2;";
        assert_eq!(check(&Tree::of(&[("a.rs", code)])), []);
    }
}
