//! Relative links and anchors in the documents must have targets, and so must each `docs/…` that
//! code, scripts and error texts name.

use crate::report::Finding::{self, Wrong};
use crate::tree::Tree;
use pulldown_cmark::{Event, Options, Parser, Tag, TagEnd};
use std::collections::BTreeMap;

/// The links and anchors of a document.
#[derive(Debug, Default)]
struct Document {
    links: Vec<(usize, String)>,
    anchors: Vec<String>,
}

/// Runs the check.
pub fn check(tree: &Tree) -> Vec<Finding> {
    let documents: BTreeMap<&str, Document> = tree
        .files()
        .filter(|(path, _)| path.ends_with(".md"))
        .map(|(path, text)| (path, read(text)))
        .collect();
    let mut findings = Vec::new();
    for (path, document) in &documents {
        for (line, link) in &document.links {
            if let Some(problem) = problem_of(tree, &documents, path, link) {
                findings.push(Wrong(format!("{path}:{line} {problem}")));
            }
        }
    }
    // The checks' own tests name documents as examples.
    for (path, text) in tree
        .files()
        .filter(|(path, _)| !path.starts_with("ci/check/"))
    {
        for (index, line) in text.lines().enumerate() {
            for named in documents_named_in(line).filter(|named| !tree.has(named)) {
                findings.push(Wrong(format!("{path}:{} there is no {named}", index + 1)));
            }
        }
    }
    findings
}

/// The files below `docs/` that a line names.
fn documents_named_in(line: &str) -> impl Iterator<Item = &str> {
    line.split(|c: char| !(c.is_ascii_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')))
        .map(|word| word.trim_start_matches("../").trim_end_matches('.'))
        .filter(|word| {
            word.strip_prefix("docs/")
                .is_some_and(|file| file.contains('.'))
        })
}

fn problem_of(
    tree: &Tree,
    documents: &BTreeMap<&str, Document>,
    path: &str,
    link: &str,
) -> Option<String> {
    if link.contains("://") || link.starts_with("mailto:") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let Some(target) = resolve(path, file) else {
        return Some(format!("link {link} leads out of the tree"));
    };
    if !tree.has(&target) {
        return Some(format!("link {link}: there is no {target}"));
    }
    let known = documents
        .get(target.as_str())
        .is_none_or(|document| document.anchors.iter().any(|a| a == anchor));
    (!anchor.is_empty() && !known)
        .then(|| format!("link {link}: {target} has no heading #{anchor}"))
}

/// The path of a link in `from`; `None` if it leaves the tree.
fn resolve(from: &str, link: &str) -> Option<String> {
    if link.is_empty() {
        return Some(from.to_owned());
    }
    if link.starts_with('/') {
        return None;
    }
    let mut parts: Vec<&str> = from.split('/').collect();
    parts.pop();
    for part in link.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()?),
            name => parts.push(name),
        }
    }
    Some(parts.join("/"))
}

fn read(text: &str) -> Document {
    let mut document = Document::default();
    let mut heading: Option<String> = None;
    for (event, range) in Parser::new_ext(text, Options::ENABLE_TABLES).into_offset_iter() {
        match event {
            Event::Start(Tag::Link { dest_url, .. } | Tag::Image { dest_url, .. }) => {
                let line = text[..range.start].lines().count().max(1);
                document.links.push((line, dest_url.into_string()));
            }
            Event::Start(Tag::Heading { .. }) => heading = Some(String::new()),
            Event::Text(words) | Event::Code(words) => {
                if let Some(heading) = &mut heading {
                    heading.push_str(&words);
                }
            }
            Event::End(TagEnd::Heading(_)) => document
                .anchors
                .extend(heading.take().map(|title| anchor(&title))),
            _ => {}
        }
    }
    document
}

/// The anchor of a heading, as forges build it.
fn anchor(title: &str) -> String {
    title
        .to_lowercase()
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'))
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(text: &str) -> usize {
        check(&Tree::of(&[
            ("docs/a.md", text),
            ("docs/b.md", "# Two `words`, here\n"),
            ("README.md", ""),
        ]))
        .len()
    }

    #[test]
    fn good_links_pass() {
        assert_eq!(
            wrong("[x](b.md) [y](../README.md) ![z](../docs/b.md) [w](https://example.org/no)"),
            0
        );
        assert_eq!(wrong("[x](b.md#two-words-here) [s](#own)\n\n## Own\n"), 0);
        assert_eq!(wrong("[x][ref]\n\n[ref]: b.md\n"), 0);
        assert_eq!(wrong("`[x](gone.md)`\n\n```\n[x](gone.md)\n```\n"), 0);
    }

    #[test]
    fn documents_that_code_names_exist() {
        let wrong = |line: &str| check(&Tree::of(&[("docs/a/b.md", ""), ("c.rs", line)])).len();
        assert_eq!(
            wrong("//! It: docs/a/b.md. See `docs/a`, docs.rs and `docs/…`."),
            0
        );
        assert_eq!(wrong("include_str!(\"../../docs/b.md\") // docs/a/c.md"), 2);
    }

    #[test]
    fn bad_links_are_found() {
        assert_eq!(wrong("[x](gone.md)"), 1);
        assert_eq!(wrong("![x](gone.svg)"), 1);
        assert_eq!(wrong("[x](../../b.md)"), 1);
        assert_eq!(wrong("[x](b.md#three)"), 1);
        assert_eq!(wrong("[x](/docs/b.md)"), 1);
        assert_eq!(wrong("[x][ref]\n\n[ref]: gone.md\n"), 1);
    }
}
